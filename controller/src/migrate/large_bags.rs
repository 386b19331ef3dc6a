//! Refuses the migration of settings that etcd cannot store.
//!
//! A hook may write more with a database than with etcd (`state::terms::store_engine`). The record that publishes new
//! addresses stores all settings of its unit in one transaction, with the state that the charm has stored, so all of that
//! together must fit, and each application's in one relation. Called by `migrate` before anything is copied.

use anyhow::{Result, bail};
use state::documents::draft::{Reader, read};
use state::documents::prelude::{BagDoc, KeyParts, Kind, Model, ReplicaDoc};
use state::terms::names::Uuid;
use state::terms::owner::Owner;
use state::terms::store_engine::StoreEngine;
use std::collections::BTreeMap;

/// The owners that the refusal names.
const OWNERS_SHOWN: usize = 3;

/// What one unit, or one application in one relation, publishes.
struct Published {
    owner: Owner,
    bytes: usize,
    /// The relation with the most of it, and its bytes.
    largest: (Uuid, usize),
}

/// Refuses settings that are larger than what a hook may write with etcd, by their owner and relation.
///
/// # Errors
/// If there are any.
pub(super) fn refuse(reader: &dyn Reader) -> Result<()> {
    let bytes_max = StoreEngine::Etcd.hook_writes_bytes_max();
    let found: Vec<String> = published(reader)
        .into_iter()
        .filter(|(_, published)| published.bytes > bytes_max)
        .map(|((model, ..), Published { owner, bytes, largest: (relation, in_largest) })| {
            let name = read(reader, &model.relation(relation)).map(|relation| relation.name().to_string());
            let name = name.unwrap_or_else(|| relation.to_string());
            let rest = if in_largest == bytes { String::new() } else { format!(", {in_largest} of them") };
            format!("{owner} has {bytes} bytes of settings and stored state{rest} in relation {name}")
        })
        .collect();
    if found.is_empty() {
        return Ok(());
    }
    let (shown, more) = (found.iter().take(OWNERS_SHOWN), found.len().saturating_sub(OWNERS_SHOWN));
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    let shown = shown.cloned().collect::<Vec<_>>().join("; ");
    bail!(
        "etcd stores at most {bytes_max} bytes of settings and stored state of a unit, and of settings of an application in \
         a relation: {shown}{more}\n\
         hint: remove these relations, or let the charm publish less, and start again"
    )
}

/// What is published: by the model and the unit, with the state that the unit has stored; of an application, by the relation,
/// too.
fn published(reader: &dyn Reader) -> BTreeMap<(Model, Uuid, Option<Uuid>), Published> {
    let (mut all, mut states) = (BTreeMap::new(), Vec::new());
    for stored in reader.scan("", "", usize::MAX) {
        let Some(parts) = KeyParts::of(&stored.key) else { continue };
        let Ok(model) = parts.model.parse() else { continue };
        if let (Kind::Replica, &[unit]) = (parts.kind, parts.ids().as_slice())
            && let Ok(replica) = stored.value.parse::<ReplicaDoc>()
        {
            let state = serde_json::to_vec(&replica.local.charm_state).expect("plain data");
            states.push(((Model(model), unit, None), state.len()));
        }
        let (Kind::Bag, &[relation, owner]) = (parts.kind, parts.ids().as_slice()) else { continue };
        let Ok(doc) = stored.value.parse::<BagDoc>() else { continue };
        let bytes = stored.value.len();
        let alone = matches!(doc.owner, Owner::Application(_)).then_some(relation);
        let published = all.entry((Model(model), owner, alone)).or_insert_with(|| Published {
            owner: doc.owner,
            bytes: 0,
            largest: (relation, 0),
        });
        published.bytes += bytes;
        if bytes > published.largest.1 {
            published.largest = (relation, bytes);
        }
    }
    // the state alone is never larger than what etcd stores
    for (unit, bytes) in states {
        all.entry(unit).and_modify(|published| published.bytes += bytes);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store as _;
    use crate::store::sqlite::{Options, Sqlite};
    use state::charm::Scope;
    use state::documents::draft::Draft;
    use state::documents::prelude::RelationDoc;
    use state::unit::local::Local;
    use state::unit::record::CommitOutcome;

    /// What is refused, as text, if each of these owns settings of this many bytes in the relation of this number.
    async fn refused(bags: &[(Owner, u32, usize)]) -> Option<String> {
        refused_with_state(bags, 0).await
    }

    /// The same if the unit has stored so many bytes of state.
    async fn refused_with_state(bags: &[(Owner, u32, usize)], state_bytes: usize) -> Option<String> {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Sqlite::open(folder.path(), Options::new(Uuid(1))).expect("opens");
        for (number, (owner, relation, bytes)) in bags.iter().cloned().enumerate() {
            let write = move |draft: &mut Draft<'_>| {
                let (model, id) = (Model(Uuid(2)), Uuid(100 + u128::from(relation)));
                let (scope, ends) = (Scope::Global, Vec::new());
                let doc =
                    RelationDoc { number: relation, ends, scope, subordinate_link: None, created_ms: 0 };
                draft.put(&model.relation(id), &doc);
                let values = [("a".to_owned(), "x".repeat(bytes))].into();
                // two units of one name would be one owner
                let holder = match &owner {
                    Owner::Unit(_) => Uuid(7),
                    Owner::Application(_) => Uuid(8 + number as u128),
                };
                draft.put(&model.bag(id, holder), &BagDoc { values, ..BagDoc::new(owner.clone()) });
                Ok::<_, state::documents::refusal::Refusal>(())
            };
            store.run(write).await.expect("commits");
        }
        let write = move |draft: &mut Draft<'_>| {
            let mut local = Local::new(Uuid(7), "web/0".parse().expect("a unit"));
            local.charm_state = [("a".to_owned(), "x".repeat(state_bytes))].into();
            let outcome = CommitOutcome::default();
            let replica = ReplicaDoc { outcome, assigned_archive: None, resync_ms: None, local };
            draft.put(&Model(Uuid(2)).replica(Uuid(7)), &replica);
            Ok::<_, state::documents::refusal::Refusal>(())
        };
        store.run(write).await.expect("commits");
        store.read(|reader| refuse(reader).err().map(|error| error.to_string())).await
    }

    #[tokio::test]
    async fn settings_that_etcd_cannot_store_are_refused_by_their_owner_and_relation() {
        let unit = || Owner::Unit("web/0".parse().expect("a unit"));
        let application = || Owner::Application("db".to_owned());
        let third = StoreEngine::Etcd.hook_writes_bytes_max() / 3;
        assert_eq!(
            refused(&[(unit(), 1, third), (unit(), 2, third), (application(), 1, 2 * third)]).await,
            None
        );

        let text =
            refused(&[(application(), 4, 4 * third), (unit(), 1, third)]).await.expect("it is too large");
        assert!(text.contains("\"db\"") && text.contains("relation 4") && !text.contains("web/0"), "{text}");
        // all settings of a unit are stored at once when its address changes
        let text = refused(&[(unit(), 1, third), (unit(), 5, 2 * third)]).await.expect("they are too large");
        assert!(text.contains("web/0") && text.contains("relation 5"), "{text}");
        // what the unit has stored is written together with them
        assert!(refused_with_state(&[(unit(), 1, 2 * third)], 2 * third).await.is_some());
        assert_eq!(refused_with_state(&[(application(), 1, 2 * third)], 2 * third).await, None);
        // those of an application are stored one after the other
        assert_eq!(refused(&[(application(), 1, 2 * third), (application(), 2, 2 * third)]).await, None);
    }
}
