//! Leadership is a grant without times in it: who holds it, and which grant this is (design 13). When a grant may
//! pass on is counted elsewhere and comes in as an argument.

use crate::documents::draft::Draft;
use crate::documents::keys::{GrantDoc, Model, UnitDoc};
use crate::documents::refusal::{Code, Refusal};
use crate::documents::sequence;
use crate::terms::life::Life;
use crate::terms::names::Uuid;

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    SessionOrigin(GrantDoc),
    Held(GrantDoc),
}

/// A unit asks to lead its application, or to go on leading it. Nobody holds the grant: granted at once. Another unit
/// holds it: passed on only if the caller, who counts the lease, says that its term is over. A new holder is a new
/// generation. The caller has checked the epoch ([`crate::operations::session::check_epoch`]) in the same draft.
pub fn claim(draft: &mut Draft, model: Model, unit: Uuid, may_take_over: bool) -> Result<Claim, Refusal> {
    let doc = draft.get(&model.unit(unit)).ok_or_else(|| Refusal::not_found("unit", unit))?;
    if draft.get(&model.unit_life(unit)) == Some(Life::Dead) {
        return Err(Refusal::new(Code::NotAlive, format!("unit {} is dead", doc.name)));
    }
    let key = model.leader(doc.application);
    match draft.get(&key) {
        Some(held) if held.holder == unit => Ok(Claim::SessionOrigin(held)),
        Some(held) if !may_take_over => Ok(Claim::Held(held)),
        Some(_) | None => {
            let generation = sequence::take(draft, model, &generations(doc.application)) + 1;
            let grant = GrantDoc { holder: unit, holder_name: doc.name, generation };
            draft.put(&key, &grant);
            Ok(Claim::SessionOrigin(grant))
        }
    }
}

/// The unit leads no longer: its agent gives the grant back, it is Dead or it is removed. The next claim is granted
/// at once.
pub fn release(draft: &mut Draft, model: Model, unit: Uuid) {
    let Some(doc) = draft.get(&model.unit(unit)) else {
        return;
    };
    let key = model.leader(doc.application);
    if draft.get(&key).is_some_and(|grant| grant.holder == unit) {
        draft.remove(&key);
    }
}

/// Whether the unit holds its application's grant, as of this transaction; `generation`: the one it wrote under, since
/// it may have lost and regained it meanwhile (design 13). None = whichever it is.
pub(crate) fn leads(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    doc: &UnitDoc,
    generation: Option<u64>,
) -> bool {
    let grant = draft.get(&model.leader(doc.application)).filter(|grant| grant.holder == unit);
    grant.is_some_and(|grant| generation.is_none_or(|generation| generation == grant.generation))
}

/// The sequence a grant's generation is taken from: it outlives the grant.
pub(crate) fn generations(application: Uuid) -> String {
    format!("leader/{application}")
}
