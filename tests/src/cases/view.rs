//! Builders of the view that the controller would send to the unit of a scripted case.
//!
//! Used by [`super::command`] and [`super::world`]. It must stay consistent with `state::views`, which builds real
//! views.

use state::charm::{Charm, Endpoint, Role, Scope, StorageType};
use state::documents::prelude::CharmDoc;
use state::terms::life::Life;
use state::terms::names::{BadName, RelationNumber, UnitName, Uuid};
use state::terms::operation::{Hook, Operation};
use state::terms::owner::Owner;
use state::terms::position::Position;
use state::terms::resource::ResourceFile;
use state::terms::secret::{SecretEvent, SecretId, SecretOwnerKind};
use state::terms::settings::{self, Bag, BagChange};
use state::terms::storage::{StorageEvent, StorageId};
use state::unit::relation_view::{BagView, RelationHead, RelationView};
use state::unit::secrets::{ConsumedSecretView, HookSecret, OwnedSecretView};
use state::unit::snapshot::{CharmView, ModelView, Snapshot, UnitView};
use state::unit::storage::StorageView;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The endpoints of every charm revision, unless a case names others.
const ENDPOINTS: [&str; 3] = ["db", "ring", "cache"];

/// The name of the unit under test.
pub fn unit_name() -> UnitName {
    UnitName::new("u", 0)
}

/// The store generation until a case changes it.
pub const STORE_GENERATION: Uuid = Uuid(0xa);

/// The view of a new unit without relations.
pub fn without_relations() -> Snapshot {
    Snapshot {
        position: Position { store_generation: STORE_GENERATION, revision: 1 },
        model: ModelView {
            advanced_ms: 0,
            parallel: false,
            logging: Default::default(),
            uuid: Uuid(1),
            name: "dev".into(),
            update_status_ms: 0,
            hook_retries_max: Some(10),
            proxies: Default::default(),
            warm_dispatch: false,
            engine: Default::default(),
        },
        unit: UnitView {
            uuid: Uuid(2),
            name: unit_name(),
            application: Uuid(3),
            machine: "0".into(),
            address: "10.0.0.1".into(),
            principal: None,
            life: Life::Alive,
            subordinates: BTreeSet::new(),
            departing_subordinates: BTreeSet::new(),
            machine_full: false,
        },
        charm: charm(1, false, &ENDPOINTS.map(str::to_owned)),
        config: BTreeMap::new(),
        trusted: false,
        storage: BTreeMap::new(),
        leader: None,
        leader_settings: Default::default(),
        written_leader_settings: None,
        resolved: None,
        secrets: BTreeMap::new(),
        actions: BTreeMap::new(),
        relations: BTreeMap::new(),
        statuses: BTreeMap::new(),
        dying_units: BTreeSet::new(),
        application_status: None,
        machine_ports: BTreeMap::new(),
        removed: false,
        fetched_bag: None,
    }
}

/// A revision of the charm, with these endpoints; if there are none, with [`ENDPOINTS`].
pub fn charm(revision: u32, forced: bool, endpoints: &[String]) -> CharmView {
    let usual = ENDPOINTS.map(str::to_owned);
    let names = if endpoints.is_empty() { &usual } else { endpoints };
    let endpoint = |name: &String| {
        let role = if name == "ring" { Role::Peer } else { Role::Requirer };
        let endpoint = Endpoint {
            name: name.clone(),
            role,
            interface: name.clone(),
            scope: Scope::Global,
            limit: None,
            optional: true,
        };
        (name.clone(), endpoint)
    };
    CharmView {
        charm: CharmDoc {
            sha256: format!("{revision:064}"),
            name: "u".into(),
            url: format!("local:u-{revision}"),
            revision,
            forced,
            previous: Vec::new(),
            resources: Default::default(),
        },
        declared: Arc::new(Charm { endpoints: names.iter().map(endpoint).collect(), ..Charm::default() }),
    }
}

/// Replaces the charm of the application, which keeps its resources.
pub fn refresh(view: &mut Snapshot, revision: u32, forced: bool, endpoints: &[String]) {
    let resources = std::mem::take(&mut view.charm.charm.resources);
    view.charm = charm(revision, forced, endpoints);
    view.charm.charm.resources = resources;
}

/// Attaches a file with this digest to the only resource, as `state::lifecycle::resource` does.
pub fn attach_resource(charm: &mut CharmView, sha256: &str) {
    let resources = &mut charm.charm.resources;
    let file = ResourceFile { sha256: sha256.to_owned(), ..ResourceFile::default() };
    if resources.files.insert("app".to_owned(), file.clone()) != Some(file) {
        resources.version += 1;
    }
}

/// An Alive relation with this number, without members. The endpoint `ring` makes it a peer relation.
pub fn relation(number: RelationNumber, endpoint: &str, application: &str) -> RelationView {
    let head = RelationHead {
        uuid: Uuid(0x100 + u128::from(number)),
        endpoint: endpoint.into(),
        interface: endpoint.into(),
        peer: endpoint == "ring",
        implicit: endpoint == "juju-info",
        scope: Scope::Global,
        remote_application: application.into(),
        remote_application_uuid: Uuid(4),
        remote_endpoint: "server".into(),
        life: Life::Alive,
        suspended: false,
        creates_subordinate: false,
    };
    RelationView { head, members: BTreeMap::new(), bags: Vec::new() }
}

/// Applies a write to a bag. A write that changes nothing does not increase the counter (spec A.11, "no-op writes are
/// silent").
pub fn write(relation: &mut RelationView, owner: Owner, change: &BagChange) {
    let at = match relation.bags.binary_search_by(|(o, _)| o.cmp(&owner)) {
        Ok(at) => at,
        Err(at) => {
            relation.bags.insert(at, (owner, BagView::with_values(0, Bag::new())));
            at
        }
    };
    let bag = &mut relation.bags[at].1;
    // the values of an omitted bag are unknown here: every write counts as a change
    if bag.values.as_mut().is_none_or(|values| settings::apply(values, change)) {
        bag.counter += 1;
    }
}

/// Shows that a hook of the only secret is due: one that the unit or its application owns, or one that it reads.
pub fn mark_secret(view: &mut Snapshot, event: SecretEvent, of_application: bool) {
    let owner = if of_application { SecretOwnerKind::Application } else { SecretOwnerKind::Unit };
    let shown = view.secrets.entry(SecretId::from_bits(0)).or_default();
    if event == SecretEvent::Changed {
        let latest = shown.consumed.as_ref().map_or(2, |consumed| consumed.latest + 1);
        shown.consumed = Some(ConsumedSecretView { label: "label".into(), latest, changed: true });
        return;
    }
    let secret = HookSecret {
        owner,
        label: "own".into(),
        description: String::new(),
        rotate: None,
        rotate_at_ms: None,
        expire_at_ms: None,
        revision: 2,
        last_revision: 2,
        access: BTreeMap::new(),
    };
    let (expired, obsolete) = Default::default();
    let owned = shown.owned.get_or_insert(OwnedSecretView { secret, rotation_due: false, expired, obsolete });
    match event {
        SecretEvent::Rotate => owned.rotation_due = true,
        SecretEvent::Expired => drop(owned.expired.insert(2)),
        SecretEvent::Remove => drop(owned.obsolete.insert(1)),
        SecretEvent::Changed => {}
    }
}

/// Shows storage of the unit in a state: `pending`, `provided`, `detaching`, or `removed`.
pub fn set_storage(view: &mut Snapshot, id: &str, state: &str) -> Result<(), String> {
    let id: StorageId = id.parse().map_err(|error: BadName| error.to_string())?;
    let (instance, kind) = (Uuid(u128::from(id.number) + 100), StorageType::Filesystem);
    let location = (state != "pending").then(|| format!("/srv/{id}"));
    match state {
        "pending" | "provided" | "detaching" => {
            let storage = StorageView { instance, kind, location, detaching: state == "detaching" };
            view.storage.insert(id, storage);
        }
        "removed" => drop(view.storage.remove(&id).ok_or("no such storage")?),
        _ => {
            return Err(format!(
                "invalid state of storage {state:?}: expected pending, provided, detaching or removed"
            ));
        }
    }
    Ok(())
}

/// Removes storage that the unit has detached, as the controller does.
pub fn remove_detached(view: &mut Snapshot, operation: &Operation) {
    if let Operation::Hook(Hook::Storage { id, event: StorageEvent::Detaching, .. }) = operation {
        view.storage.remove(id);
    }
}

/// Removes the mark of a secret hook whose record was applied, as the controller does.
pub fn remove_secret_mark(view: &mut Snapshot, operation: &Operation) {
    let Operation::Hook(Hook::Secret { secret, revision, event, .. }) = operation else { return };
    let Some(shown) = view.secrets.get_mut(secret) else { return };
    match (event, &mut shown.owned, &mut shown.consumed) {
        (SecretEvent::Changed, _, Some(consumed)) => consumed.changed &= consumed.latest > *revision,
        (SecretEvent::Rotate, Some(owned), _) => owned.rotation_due = false,
        (SecretEvent::Expired, Some(owned), _) => drop(owned.expired.remove(revision)),
        (SecretEvent::Remove, Some(owned), _) => drop(owned.obsolete.remove(revision)),
        (_, None, _) | (_, _, None) => {}
    }
}
