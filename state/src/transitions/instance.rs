//! The instance of a machine: what its provider reports about it (spec F.3), and the enrolment of a manually
//! provisioned machine (spec/security.md S19).
//!
//! At most one instance is started for a machine: its nonce is stored before the start. An enrolment token is
//! used at most once. Called by the provisioner's, the operator's and the machine agent's handlers.

use crate::charm::Base;
use crate::documents::attachment::Attachment;
use crate::documents::draft::Draft;
use crate::documents::prelude::{GLOBAL, InstanceDoc, Model, ProvisioningErrorDoc, TokenHolder, last_id};
use crate::documents::refusal::Refusal;
use crate::documents::token;
use crate::lifecycle::{machine, unit};
use crate::machine::provision::retry_after_ms;
use crate::terms::hardware::Hardware;
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::provider_kind::ProviderKind;
use crate::terms::refusal::EntityKind;
use crate::terms::refusal::instance::InstanceRefusal;
use crate::transitions::machine_status_log;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The beginning of the instance ID of a machine that was enrolled, as in Juju; the address follows.
const ENROLLED: &str = "manual:";

/// Whether this is the instance ID of a machine that was enrolled, which may have any host.
pub fn is_enrolled(instance_id: &str) -> bool {
    instance_id.starts_with(ENROLLED)
}

/// The validity of an enrolment token: 15 minutes (S19).
pub const ENROLMENT_MS: i64 = 15 * 60 * 1000;
/// The maximum length of a provisioning error in characters: enough for a sentence and the output of a tool.
const MESSAGE_MAX: usize = 1000;

/// What a provider reports about one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ProvisioningReport {
    /// An instance is about to be created, under this nonce unless one is recorded already.
    Starting {
        /// The provider.
        provider: ProviderKind,
        /// The proposed nonce.
        nonce: Uuid,
    },
    /// The instance exists.
    Started {
        /// The provider's name for the instance.
        instance_id: String,
        /// The address of the units on it.
        address: String,
        /// Its operating system; none if it does not name one.
        base: Option<Base>,
        /// Its hardware; none if it is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hardware: Option<Hardware>,
    },
    /// The instance could not be created, checked or terminated.
    Failed {
        /// The error of the provider.
        message: String,
    },
    /// There is no instance and there will be none: the Dying machine is Dead.
    Absent,
}

/// Whether a report is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedReport {
    /// A part is recorded: the caller repeats the transition.
    Repeat,
    /// It is recorded. The nonce under which the instance has to be created, or the machine.
    Done(Uuid),
}

/// Records what the provider reports about a machine.
///
/// # Errors
/// If the machine does not exist, or the report is not possible for it; see the functions for each report.
pub fn record(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    report: &ProvisioningReport,
    now_ms: i64,
) -> Result<RecordedReport, Refusal> {
    match report {
        ProvisioningReport::Starting { provider, nonce } => {
            reserve_nonce(draft, model, id, *provider, *nonce).map(RecordedReport::Done)
        }
        ProvisioningReport::Started { instance_id, address, base, hardware } => {
            record_started(draft, model, id, instance_id, address)?;
            machine_status_log::add_started(draft, model, id, now_ms);
            record_host(draft, model, id, base, hardware);
            Ok(RecordedReport::Done(id))
        }
        ProvisioningReport::Failed { message } => {
            record_failure(draft, model, id, message, now_ms).map(|()| RecordedReport::Done(id))
        }
        ProvisioningReport::Absent => record_absent(draft, model, id, now_ms),
    }
}

/// Gives the agent of a machine the token with the hash `sha256`. Repeating it changes nothing.
///
/// # Errors
/// If the machine does not exist.
pub fn set_token(draft: &mut Draft, model: Model, id: Uuid, sha256: &str) -> Result<(), Refusal> {
    draft.get(&model.machine(id)).ok_or_else(|| Refusal::not_found(EntityKind::Machine, id))?;
    token::set(draft, id, &TokenHolder::Machine { model, machine: id }, sha256)
}

/// Reserves the nonce of the instance that is about to be started: `nonce`, unless one is stored already;
/// returns the stored one. Refused for a machine that is not Alive (scenario 184), unless units must still
/// finish on it.
pub fn reserve_nonce(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    provider: ProviderKind,
    nonce: Uuid,
) -> Result<Uuid, Refusal> {
    draft.get(&model.machine(id)).ok_or_else(|| Refusal::not_found(EntityKind::Machine, id))?;
    if let Some(known) = draft.get(&model.machine_instance(id)) {
        return Ok(known.nonce);
    }
    let alive = draft.get(&model.machine_life(id)) == Some(Life::Alive);
    if !alive && draft.any_key(&model.machine_units(id), &[]).is_none() {
        return Err(InstanceRefusal::MachineNotAlive.into());
    }
    let instance = InstanceDoc { provider: Some(provider), nonce, id: None, base: None, hardware: None };
    draft.put(&model.machine_instance(id), &instance);
    Ok(nonce)
}

/// Records a started instance with its name and address, and deletes the provisioning error. Refused unless its
/// nonce was reserved ([`reserve_nonce`]).
pub fn record_started(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    name: &str,
    address: &str,
) -> Result<(), Refusal> {
    let mut doc = draft.get(&model.machine(id)).ok_or_else(|| Refusal::not_found(EntityKind::Machine, id))?;
    let known = draft.get(&model.machine_instance(id));
    let known = known.ok_or(InstanceRefusal::NonceNotReserved)?;
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

/// Records the operating system and the hardware of an instance that was just recorded; none of what is no base or no
/// hardware.
fn record_host(draft: &mut Draft, model: Model, id: Uuid, base: &Option<Base>, hardware: &Option<Hardware>) {
    let Some(known) = draft.get(&model.machine_instance(id)) else { return };
    let (base, hardware) =
        (base.clone().filter(Base::is_printable), hardware.clone().filter(Hardware::is_plausible));
    let instance = InstanceDoc { base, hardware, ..known.clone() };
    if instance != known {
        draft.put(&model.machine_instance(id), &instance);
    }
}

/// Records a provisioning error, with the time of the first error of an uninterrupted series, and schedules a
/// retry with a growing delay.
pub fn record_failure(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    message: &str,
    now_ms: i64,
) -> Result<(), Refusal> {
    draft.get(&model.machine(id)).ok_or_else(|| Refusal::not_found(EntityKind::Machine, id))?;
    let before = draft.get(&model.machine_provisioning_error(id));
    let (failures, since_ms) =
        before.map_or((1, now_ms), |error| (error.failures.saturating_add(1), error.since_ms));
    let message: String = message.chars().take(MESSAGE_MAX).collect();
    machine_status_log::add_failed(draft, model, id, &message, now_ms);
    let retry_ms = now_ms + retry_after_ms(failures);
    let error = ProvisioningErrorDoc { message, failures, since_ms, last_ms: now_ms, retry_ms };
    draft.put(&model.machine_provisioning_error(id), &error);
    Ok(())
}

/// Records that a machine has no instance that could run an agent. The units of a Dying machine for which no agent has
/// attached are removed, then the machine becomes Dead. The removal of one unit may take half of the writes of a
/// transaction, so each call removes one unit; the last call sets the machine Dead.
///
/// # Errors
/// If the machine is Alive, does not exist, or has units that only their agents can remove.
pub fn record_absent(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    now_ms: i64,
) -> Result<RecordedReport, Refusal> {
    if draft.get(&model.machine_life(id)) == Some(Life::Dying) {
        // Read untracked: the removal of a unit and the death of the machine check again what they depend on.
        let units = draft.keys_untracked(&model.machine_units(id), machine::UNITS_MAX);
        let mut units = units.iter().filter_map(|key| last_id(key));
        let is_unattached = |unit: &Uuid| {
            Attachment::of(draft.get_untracked(&model.session(*unit)).as_ref()) == Attachment::Never
        };
        if let Some(unit) = units.find(is_unattached) {
            unit::remove(draft, model, unit, now_ms)?;
            return Ok(RecordedReport::Repeat);
        }
    }
    machine::set_dead(draft, model, id)?;
    Ok(RecordedReport::Done(id))
}

/// The user's `retry-provisioning`: schedules the retry for now.
///
/// # Errors
/// If the machine does not exist, or has no provisioning error.
pub fn retry_now(draft: &mut Draft, model: Model, id: Uuid) -> Result<(), Refusal> {
    let machine = draft.get(&model.machine(id)).ok_or_else(|| Refusal::not_found(EntityKind::Machine, id))?;
    let Some(error) = draft.get(&model.machine_provisioning_error(id)) else {
        return Err(InstanceRefusal::NoProvisioningError { machine: machine.name }.into());
    };
    draft.put(&model.machine_provisioning_error(id), &ProvisioningErrorDoc { retry_ms: 0, ..error });
    Ok(())
}

/// Issues the enrolment token with the hash `sha256` for a manually provisioned machine that has not enrolled
/// yet. It is valid once, until `expires_ms`; an earlier token is revoked.
///
/// # Errors
/// If the machine does not exist, is not manually provisioned, or has enrolled.
pub fn issue_enrolment_token(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    sha256: &str,
    expires_ms: i64,
) -> Result<(), Refusal> {
    let machine = draft.get(&model.machine(id)).ok_or_else(|| Refusal::not_found(EntityKind::Machine, id))?;
    if !machine.manual {
        return Err(InstanceRefusal::NotManual { machine: machine.name }.into());
    }
    if draft.get(&model.machine_instance(id)).is_some() {
        return Err(InstanceRefusal::AlreadyEnrolled { machine: machine.name }.into());
    }
    token::set(draft, id, &TokenHolder::EnrollingMachine { model, machine: id, expires_ms }, sha256)
}

/// The enrolment of a manually provisioned machine.
#[derive(Clone, Debug)]
pub struct Enrolment {
    /// The hash of the enrolment token under which the request was sent.
    pub enrolment_token: String,
    /// The hash of the token that the agent created.
    pub token: String,
    /// The address of the machine.
    pub address: String,
    /// Its operating system; none if it does not name one.
    pub base: Option<Base>,
    /// Its hardware; none if it is not known.
    pub hardware: Option<Hardware>,
}

/// Enrols a manually provisioned machine under the token it generated, and revokes the enrolment token (S19).
///
/// The caller was authorised by an earlier read of the enrolment token, so the token is checked again:
///
/// 1. Two requests with one enrolment token are authorised, and one of them delays its body.
/// 2. The other one enrols, or a new enrolment token is issued.
/// 3. The delayed body arrives. It must not replace the token of the enrolled machine, nor use a revoked
///    enrolment token.
///
/// # Errors
/// If the address is not valid, the enrolment token was revoked or used, or the machine is not Alive.
pub fn enrol(
    draft: &mut Draft,
    model: Model,
    id: Uuid,
    enrolment: &Enrolment,
    now_ms: i64,
) -> Result<(), Refusal> {
    let Enrolment { enrolment_token, token, address, base, hardware } = enrolment;
    if address.parse::<IpAddr>().is_err() {
        return Err(InstanceRefusal::InvalidAddress { address: address.clone() }.into());
    }
    let is_newest = draft.get(&GLOBAL.token_digest(id)).as_ref() == Some(enrolment_token);
    let is_enrolment_token = matches!(
        draft.get(&GLOBAL.token(enrolment_token)),
        Some(TokenHolder::EnrollingMachine { model: token_model, machine, .. }) if (token_model, machine) == (model, id)
    );
    if !is_newest || !is_enrolment_token || draft.get(&model.machine_instance(id)).is_some() {
        return Err(InstanceRefusal::TokenInvalid.into());
    }
    let mut doc = draft.get(&model.machine(id)).ok_or_else(|| Refusal::not_found(EntityKind::Machine, id))?;
    if draft.get(&model.machine_life(id)) != Some(Life::Alive) {
        return Err(InstanceRefusal::MachineBeingRemoved { machine: doc.name }.into());
    }
    token::set(draft, id, &TokenHolder::Machine { model, machine: id }, token)?;
    let instance_id = Some(format!("{ENROLLED}{address}"));
    let instance = InstanceDoc { provider: None, nonce: id, id: instance_id, base: None, hardware: None };
    draft.put(&model.machine_instance(id), &instance);
    record_host(draft, model, id, base, hardware);
    doc.address = address.clone();
    draft.put(&model.machine(id), &doc);
    machine_status_log::add_started(draft, model, id, now_ms);
    Ok(())
}

/// Records that the agent of a Dead machine has uninstalled itself. A manually provisioned machine is removed;
/// any other is left to its provider, which releases a kept instance first.
///
/// # Errors
/// If a manually provisioned machine is not Dead.
pub fn record_agent_uninstalled(draft: &mut Draft, model: Model, id: Uuid) -> Result<(), Refusal> {
    let Some(machine) = draft.get(&model.machine(id)) else { return Ok(()) };
    if machine.manual {
        return machine::remove(draft, model, id);
    }
    if machine.keep_instance
        && !machine.agent_uninstalled
        && draft.get(&model.machine_life(id)) == Some(Life::Dead)
    {
        machine::mark_agent_uninstalled(draft, model, id, machine, false);
    }
    Ok(())
}
