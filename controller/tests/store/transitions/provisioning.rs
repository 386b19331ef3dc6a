//! The transitions of a provisioned machine and of a manual one.

use super::*;

/// Runs the transitions of a provisioned machine and of a manual one.
pub(super) async fn provision<S: Store>(fixture: &mut Fixture<'_, S>) {
    let (provisioned, manual) = (Uuid(61), Uuid(62));
    fixture.call("machine::add", move |draft| machine::add(draft, MODEL, provisioned, 1).map(drop)).await;
    let base =
        || Some(Base { name: "ubuntu".to_owned(), channel: "22.04".to_owned(), architectures: Vec::new() });
    fixture
        .call("machine::request_base", move |draft| {
            machine::request_base(draft, MODEL, provisioned, base());
            Ok(())
        })
        .await;
    fixture
        .call("instance::reserve_nonce", move |draft| {
            instance::reserve_nonce(draft, MODEL, provisioned, ProviderKind::Nspawn, Uuid(63)).map(drop)
        })
        .await;
    fixture
        .call("instance::record_failure", move |draft| {
            instance::record_failure(draft, MODEL, provisioned, "no room", 2)
        })
        .await;
    fixture.call("instance::retry_now", move |draft| instance::retry_now(draft, MODEL, provisioned)).await;
    fixture
        .call("instance::record_started", move |draft| {
            instance::record_started(draft, MODEL, provisioned, "nspawn-1", "10.0.0.2")
        })
        .await;
    fixture
        .call("instance::record_base", move |draft| {
            instance::record_base(draft, MODEL, provisioned, base());
            Ok(())
        })
        .await;
    fixture
        .call("machine::keep_instance", move |draft| machine::keep_instance(draft, MODEL, provisioned))
        .await;
    fixture
        .call("machine::add_manual", move |draft| machine::add_manual(draft, MODEL, manual, 1).map(drop))
        .await;
    fixture
        .call("instance::issue_enrolment_token", move |draft| {
            instance::issue_enrolment_token(draft, MODEL, manual, &"a".repeat(64), 9)
        })
        .await;
    fixture
        .call("instance::enrol", move |draft| {
            instance::enrol(draft, MODEL, manual, &"a".repeat(64), &"b".repeat(64), "10.0.0.3")
        })
        .await;
    fixture.call("machine::destroy", move |draft| machine::destroy(draft, MODEL, manual)).await;
    fixture
        .call("instance::record_absent", move |draft| {
            instance::record_absent(draft, MODEL, manual, 3).map(drop)
        })
        .await;
    fixture
        .call("instance::record_agent_uninstalled", move |draft| {
            instance::record_agent_uninstalled(draft, MODEL, manual)
        })
        .await;
}
