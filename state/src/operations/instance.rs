//! The instance behind a machine: what its provider said of it (spec F.3), and how a machine that a person brings is
//! let in (spec/security.md S19).

use crate::documents::draft::Draft;
use crate::documents::keys::{GLOBAL, InstanceDoc, Model, ProvisioningErrorDoc, TokenHolder};
use crate::documents::refusal::{Code, Refusal};
use crate::lifecycle::machine;
use crate::machine::provision::retry_after_ms;
use crate::terms::life::Life;
use crate::terms::names::Uuid;

/// How long an enrolment token is good for (S19).
pub const ENROLMENT_MS: i64 = 15 * 60 * 1000;
/// Of what a provider says about a failure: enough for a sentence and a tool's own words.
const MESSAGE_MAX: usize = 1000;

/// The nonce of the instance that is about to be started: `nonce`, unless one is recorded. For a machine that goes
/// nothing is started any more (scenario 184), unless units have yet to end on it.
pub fn intend(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    provider: &str,
    nonce: Uuid,
) -> Result<Uuid, Refusal> {
    draft.get(&model.machine(id)).ok_or_else(|| Refusal::not_found("machine", id))?;
    if let Some(known) = draft.get(&model.machine_instance(id)) {
        return Ok(known.nonce);
    }
    let alive = draft.get(&model.machine_life(id)) == Some(Life::Alive);
    if !alive && draft.first(&model.machine_units(id), &[]).is_none() {
        return Err(Refusal::new(Code::NotAlive, "no instance is started for a machine that is not alive"));
    }
    let instance = InstanceDoc { provider: provider.to_owned(), nonce, id: None };
    draft.put(&model.machine_instance(id), &instance);
    Ok(nonce)
}

/// The instance is there, by this name and address. What had failed before is forgotten.
pub fn started(draft: &mut Draft, model: Model, id: Uuid, name: &str, address: &str) -> Result<(), Refusal> {
    let mut doc = draft.get(&model.machine(id)).ok_or_else(|| Refusal::not_found("machine", id))?;
    let known = draft.get(&model.machine_instance(id));
    let known = known.ok_or_else(|| Refusal::new(Code::Invalid, "its start was not recorded first"))?;
    let instance = InstanceDoc { id: Some(name.to_owned()), ..known.clone() };
    if instance != known {
        draft.put(&model.machine_instance(id), &instance);
    }
    if doc.address != address {
        doc.address = address.to_owned();
        draft.put(&model.machine(id), &doc);
    }
    draft.remove(&model.machine_provisioning_error(id));
    Ok(())
}

/// Something failed: said to people with the time of the first of such failures in a row, and tried again later and
/// later.
pub fn failed(draft: &mut Draft, model: Model, id: Uuid, message: &str, now_ms: i64) -> Result<(), Refusal> {
    draft.get(&model.machine(id)).ok_or_else(|| Refusal::not_found("machine", id))?;
    let before = draft.get(&model.machine_provisioning_error(id));
    let (failures, since_ms) =
        before.map_or((1, now_ms), |trouble| (trouble.failures.saturating_add(1), trouble.since_ms));
    let message = message.chars().take(MESSAGE_MAX).collect();
    let retry_ms = now_ms + retry_after_ms(failures);
    let trouble = ProvisioningErrorDoc { message, failures, since_ms, last_ms: now_ms, retry_ms };
    draft.put(&model.machine_provisioning_error(id), &trouble);
    Ok(())
}

/// The user's retry-provisioning: tried again now.
pub fn retry(draft: &mut Draft, model: Model, id: Uuid) -> Result<(), Refusal> {
    let machine = draft.get(&model.machine(id)).ok_or_else(|| Refusal::not_found("machine", id))?;
    let Some(trouble) = draft.get(&model.machine_provisioning_error(id)) else {
        let message = format!("machine {} has no provisioning error", machine.name);
        return Err(Refusal::new(Code::Invalid, message));
    };
    draft.put(&model.machine_provisioning_error(id), &ProvisioningErrorDoc { retry_ms: 0, ..trouble });
    Ok(())
}

/// Who carries `sha256`'s token may introduce the machine, once, until `expires_ms`. An earlier one is void. The
/// machine must be one that a person brings, and not be here yet.
pub fn invite(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    sha256: &str,
    expires_ms: i64,
) -> Result<(), Refusal> {
    let machine = draft.get(&model.machine(id)).ok_or_else(|| Refusal::not_found("machine", id))?;
    if !machine.manual {
        let message = format!("machine {} is made by its provider: it needs no token", machine.name);
        return Err(Refusal::new(Code::Invalid, message));
    }
    if draft.get(&model.machine_instance(id)).is_some() {
        let message = format!("machine {} has been enrolled already", machine.name);
        return Err(Refusal::new(Code::AlreadyExists, message));
    }
    crate::documents::token::revoke(draft, id);
    draft.put(&GLOBAL.token_of(id), &sha256.to_owned());
    draft.put(&GLOBAL.token(sha256), &TokenHolder::EnrollingMachine { model, machine: id, expires_ms });
    Ok(())
}

/// The machine introduces itself, under the token it made; the one it was invited with, `invitation` by its hash, is
/// used up (S19). Whoever calls was let in by an earlier look at that token, so it is looked at again:
///
/// 1. two requests with one invitation are let in, and one of them holds its body back;
/// 2. the other one enrols, or a new invitation is given;
/// 3. the body comes. It must not take the token from the machine that is here, nor use a void invitation.
pub fn enrol(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    invitation: &str,
    (sha256, address): (&str, &str),
) -> Result<(), Refusal> {
    let is_newest = draft.get(&GLOBAL.token_of(id)).as_deref() == Some(invitation);
    let invites = matches!(
        draft.get(&GLOBAL.token(invitation)),
        Some(TokenHolder::EnrollingMachine { model: of, machine, .. }) if (of, machine) == (model, id)
    );
    if !is_newest || !invites || draft.get(&model.machine_instance(id)).is_some() {
        return Err(Refusal::new(Code::Forbidden, "not authorised: this invitation is void or used up"));
    }
    let mut doc = draft.get(&model.machine(id)).ok_or_else(|| Refusal::not_found("machine", id))?;
    if draft.get(&model.machine_life(id)) != Some(Life::Alive) {
        let message = format!("machine {} is being removed", doc.name);
        return Err(Refusal::new(Code::NotAlive, message));
    }
    crate::documents::token::revoke(draft, id);
    draft.put(&GLOBAL.token_of(id), &sha256.to_owned());
    draft.put(&GLOBAL.token(sha256), &TokenHolder::Machine { model, machine: id });
    let instance =
        InstanceDoc { provider: "manual".to_owned(), nonce: id, id: Some(format!("manual:{address}")) };
    draft.put(&model.machine_instance(id), &instance);
    doc.address = address.to_owned();
    draft.put(&model.machine(id), &doc);
    Ok(())
}

/// The agent of a Dead machine has taken itself away: nothing of the machine is left, if a person brought it. Another is
/// its provider's to remove, and to hand over first if its instance is kept.
pub fn gone(draft: &mut Draft, model: Model, id: Uuid) -> Result<(), Refusal> {
    let Some(machine) = draft.get(&model.machine(id)) else { return Ok(()) };
    if machine.manual {
        return machine::remove(draft, model, id);
    }
    if machine.kept && !machine.left && draft.get(&model.machine_life(id)) == Some(Life::Dead) {
        machine::mark_agent_gone(draft, model, id, machine, false);
    }
    Ok(())
}
