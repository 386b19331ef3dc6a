//! Leadership: which unit holds the grant of its application, and the generation of that grant (design 13).
//!
//! A grant contains no times. The caller counts the lease and passes as an argument whether the grant may be
//! taken over. At most one unit of an application holds the grant. Called for the requests of unit agents
//! (`transitions::leader_claim`), when a unit is Dead or removed, and for writes that only a leader may make.

use crate::documents::document_reads::Documents;
use crate::documents::draft::{Draft, Reader, read};
use crate::documents::prelude::{LeaderDoc, Model, UnitDoc};
use crate::documents::refusal::Refusal;
use crate::documents::sequence;
use crate::terms::life::Life;
use crate::terms::names::{UnitName, Uuid};
use crate::terms::refusal::EntityKind;
use crate::terms::refusal::application::ApplicationRefusal;
use crate::terms::refusal::unit::UnitRefusal;
use serde::{Deserialize, Serialize};

/// The length of a leadership lease: after a claim, no other unit becomes the leader for this long (design 13).
pub const LEASE_MS: u64 = 60_000;

/// The lease that a claim was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GrantedLease {
    /// The generation of the leadership.
    pub generation: u64,
    /// How long it lasts, from the time at which the unit *sent* the claim (design 13).
    pub lease_ms: u64,
}

/// The leader of the application `id`, whose name is `name`.
///
/// # Errors
/// If it has no leader.
pub fn find(
    documents: &mut impl Documents,
    model: Model,
    id: Uuid,
    name: &str,
) -> Result<(Uuid, UnitName), Refusal> {
    match documents.document(&model.leader(id)) {
        Some(grant) => Ok((grant.holder, grant.holder_name)),
        None => Err(ApplicationRefusal::NoLeader { application: name.to_owned() }.into()),
    }
}

/// Claims the leadership of its application for a unit, or renews its claim.
///
/// Returns none if another unit is the leader. A free grant is granted immediately. A grant of another unit is
/// taken over only if `may_take_over`: the caller, which counts the lease, has found it expired. A new holder gets
/// a new generation. The caller must have checked the epoch of the session in the same draft. Refused if the unit is
/// Dead.
pub fn claim(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    may_take_over: bool,
) -> Result<Option<GrantedLease>, Refusal> {
    let doc = require_not_dead(draft, model, unit)?;
    let key = model.leader(doc.application);
    match draft.get(&key) {
        Some(held) if held.holder == unit => Ok(Some(granted(&held))),
        Some(_) if !may_take_over => Ok(None),
        Some(_) | None => {
            let generation = sequence::take(draft, model, &generation_sequence(doc.application)) + 1;
            let grant = LeaderDoc { holder: unit, holder_name: doc.name, generation };
            draft.put(&key, &grant);
            Ok(Some(granted(&grant)))
        }
    }
}

/// Returns the unit.
///
/// # Errors
/// If it is Dead or does not exist.
pub(crate) fn require_not_dead(draft: &mut Draft, model: Model, unit: Uuid) -> Result<UnitDoc, Refusal> {
    let doc = draft.get(&model.unit(unit)).ok_or_else(|| Refusal::not_found(EntityKind::Unit, unit))?;
    match draft.get(&model.unit_life(unit)) {
        Some(Life::Dead) => Err(UnitRefusal::Dead { unit: doc.name }.into()),
        _ => Ok(doc),
    }
}

/// Whether a unit can lead: it exists and is not Dead. One that cannot never can again.
pub fn can_lead(reader: &dyn Reader, model: Model, unit: Uuid) -> bool {
    let life = read(reader, &model.unit_life(unit));
    read(reader, &model.unit(unit)).is_some() && life != Some(Life::Dead)
}

fn granted(grant: &LeaderDoc) -> GrantedLease {
    GrantedLease { generation: grant.generation, lease_ms: LEASE_MS }
}

/// Releases the leadership of a unit, because its agent returned the grant or because it is Dead or removed.
/// The next claim is granted immediately.
pub fn release(draft: &mut Draft, model: Model, unit: Uuid) {
    let Some(doc) = draft.get(&model.unit(unit)) else {
        return;
    };
    let key = model.leader(doc.application);
    if draft.get(&key).is_some_and(|grant| grant.holder == unit) {
        draft.remove(&key);
    }
}

/// Whether the unit holds the grant of its application in this transaction. If `generation` is given, it must
/// be that of the grant: the unit may have lost and regained the leadership meanwhile (design 13).
pub fn is_leader(
    documents: &mut impl Documents,
    model: Model,
    unit: Uuid,
    doc: &UnitDoc,
    generation: Option<u64>,
) -> bool {
    let grant = documents.document(&model.leader(doc.application)).filter(|grant| grant.holder == unit);
    grant.is_some_and(|grant| generation.is_none_or(|generation| generation == grant.generation))
}

/// The sequence that numbers the grants of an application; it outlives each grant.
pub(crate) fn generation_sequence(application: Uuid) -> String {
    format!("leader/{application}")
}
