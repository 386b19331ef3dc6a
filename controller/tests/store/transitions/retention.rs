//! Calls the transitions that delete what is no longer needed, for the conflict test in `transitions.rs`. It asserts no
//! bound.

use super::*;
use state::documents::prelude::GLOBAL;

/// Calls the transitions of the retention of documents, after `unit` was removed from `machine`.
pub(super) async fn call_retention_transitions<S: Store>(
    fixture: &mut Fixture<'_, S>,
    machine: Uuid,
    unit: Uuid,
) {
    let ended = ArchiveUse { sha256: "w1".to_owned(), model: MODEL, owner: unit };
    fixture
        .call("tombstone_retention::confirm_recall", move |draft| {
            tombstone_retention::confirm_recall(draft, MODEL, machine, unit);
            Ok(())
        })
        .await;
    fixture
        .call("tombstone_retention::delete", move |draft| {
            tombstone_retention::delete(draft, MODEL, &[unit]);
            Ok(())
        })
        .await;
    let retire = move |draft: &mut Draft<'_>| {
        draft.put(&GLOBAL.retired_token_digest(machine), &"retired".to_owned());
        draft.put(&GLOBAL.token("retired"), &TokenHolder::RemovedMachine { model: MODEL, machine });
        Ok::<_, ()>(())
    };
    fixture.store.run(retire).await.expect("written");
    fixture
        .call("token::delete_retired", move |draft| {
            token::delete_retired(draft, &[machine]);
            Ok(())
        })
        .await;
    fixture
        .call("archive::delete_ended_uses", move |draft| {
            archive::delete_ended_uses(draft, std::slice::from_ref(&ended));
            Ok(())
        })
        .await;
    fixture
        .call("archive::register", |draft| {
            archive::register(draft, "unused", Some(charm("unused", "db", Role::Requirer)), 10);
            Ok(())
        })
        .await;
    fixture
        .call("archive::remove_unused", |draft| {
            archive::remove_unused(draft, "unused");
            Ok(())
        })
        .await;
}
