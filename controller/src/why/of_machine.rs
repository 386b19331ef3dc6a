//! What a machine waits for: who brings its agent back, and how.

use super::Asked;
use crate::hook_lock;
use crate::status::{self, MachineAgent};
use api::{Cause, Why};
use state::life::Life;
use state::model::blockers::{Entity, PROVISIONER};
use state::model::draft::{read, read_all};
use state::model::keys::{GLOBAL, MachineDoc, Principal};
use state::model::machine;
use state::model::refusal::Refusal;
use state::names::Uuid;

impl Asked<'_> {
    pub(super) fn machine(&self, name: &str) -> Result<Why, Refusal> {
        let id = machine::find(&mut { self.reader }, self.model, name)?;
        let life = read(self.reader, &self.model.machine_life(id)).unwrap_or(Life::Dead);
        let mut causes = self.blockers(Entity::Machine(id));
        causes.extend(self.machine_agent(id));
        let is_told = causes.iter().any(|cause| cause.last_error.is_some());
        causes.extend(self.provisioning(id, name).filter(|_| !is_told));
        causes.extend(self.stranded(id, name).filter(|_| life == Life::Dying));
        // of one that is Dead its provider does what is left, unless nobody takes its instance away (cargo sim 58)
        let stays = || read(self.reader, &self.model.machine(id)).is_some_and(|doc| doc.manual || doc.kept);
        let forced = self.forced(id, &format!("machine {name}"));
        causes.extend(forced.filter(|_| life != Life::Dead || stays()));
        let units = read_all::<()>(self.reader, &self.model.units_on(id)).len();
        let mut now = format!("{units} units");
        if let Some((unit, running)) = hook_lock::holder(self.reader, self.model, self.roll, id) {
            now += &format!(", hook lock held by {unit} ({})", running.activity);
            let waiters = hook_lock::waiters(self.reader, self.model, self.roll, id);
            if !waiters.is_empty() {
                now += &format!(", waited for by {}", waiters.join(", "));
            }
        }
        Ok(Why { entity: format!("machine {name}"), life, now, causes, more: false })
    }

    /// What a machine that is not Dead waits for when nothing is heard of its agent.
    pub(super) fn machine_agent(&self, id: Uuid) -> Option<Cause> {
        let doc = read(self.reader, &self.model.machine(id))?;
        let life = read(self.reader, &self.model.machine_life(id)).filter(|life| *life != Life::Dead)?;
        let silent_ms = Some(self.roll.silent_since_ms(id));
        let of = |duty: &str, (owner, help): (&str, String), since_ms| Cause {
            entity: format!("machine {}", doc.name),
            duty: duty.to_owned(),
            owner: owner.to_owned(),
            since_ms,
            last_error: None,
            help,
        };
        match status::machine_agent(self.reader, self.model, self.roll, id) {
            MachineAgent::Here if self.roll.is_heard(id) => None,
            MachineAgent::Here => {
                let duty = "run its agent: nothing was heard of it yet";
                Some(of(duty, self.revival(id, &doc), silent_ms))
            }
            MachineAgent::Failed => {
                let trouble = read(self.reader, &self.model.machine_trouble(id))?;
                let left_s = (trouble.retry_ms - self.now_ms).max(0).div_euclid(1_000);
                let help = format!(
                    "it is tried again in {left_s} s; at once: pintle retry-provisioning {}",
                    doc.name
                );
                let duty = match life {
                    Life::Alive => "be started: its provider failed",
                    Life::Dying | Life::Dead => "see to its instance: its provider failed",
                };
                let cause = of(duty, (PROVISIONER, help), Some(trouble.since_ms));
                Some(Cause { last_error: Some(trouble.message), ..cause })
            }
            // nothing starts it any more
            MachineAgent::Pending if life != Life::Alive => None,
            MachineAgent::Pending if doc.manual => {
                let duty = "be enrolled: what pintle add-machine manual said was not run there yet";
                Some(of(duty, ("operator", self.invitation(id, &doc.name)), Some(doc.created_ms)))
            }
            MachineAgent::Pending => {
                let pintle_up = ("the supervisor of pintle up", "pintle up".to_owned());
                Some(of("run its agent", pintle_up, Some(doc.created_ms)))
            }
            MachineAgent::Late => {
                Some(of("its agent is late: nothing was heard of it", self.revival(id, &doc), silent_ms))
            }
            MachineAgent::Lost => {
                let duty = "run its agent, which is lost: it has been silent for a minute";
                Some(of(duty, self.revival(id, &doc), silent_ms))
            }
        }
    }

    /// What keeps a machine's provider from its work.
    fn provisioning(&self, id: Uuid, name: &str) -> Option<Cause> {
        let trouble = read(self.reader, &self.model.machine_trouble(id))?;
        Some(Cause {
            entity: format!("machine {name}"),
            duty: "see to its instance".to_owned(),
            owner: PROVISIONER.to_owned(),
            since_ms: Some(trouble.since_ms),
            last_error: Some(trouble.message),
            help: format!("it is tried again later and later; now: pintle retry-provisioning {name}"),
        })
    }

    /// Units that have lived end by their own agents. A machine on its way out that has no instance for these gets one
    /// (`state::machine::provision`); what a person brought comes by that person alone, or not at all.
    fn stranded(&self, id: Uuid, name: &str) -> Option<Cause> {
        let doc = read(self.reader, &self.model.machine(id))?;
        let instance = read(self.reader, &self.model.machine_instance(id));
        let has_instance = instance.is_some_and(|instance| instance.id.is_some());
        if has_instance || !machine::has_lived(self.reader, self.model, id) {
            return None;
        }
        let force = format!("pintle remove-machine --force {name}");
        let (duty, owner, help) = match doc.manual {
            true => ("be without units: it has no agent that could end them", "operator", force),
            false => {
                let help =
                    format!("nothing to do while pintle up runs: it comes by itself; or without: {force}");
                ("make an instance for its units to end on", PROVISIONER, help)
            }
        };
        let entity = format!("machine {name}");
        Some(Cause {
            since_ms: self.owed().ended_ms_of(&entity),
            entity,
            duty: duty.to_owned(),
            owner: owner.to_owned(),
            last_error: None,
            help,
        })
    }

    /// What a person does about a machine of theirs that has not come. Its invitation was said once: only its digest is
    /// kept.
    fn invitation(&self, id: Uuid, name: &str) -> String {
        let holder =
            read(self.reader, &GLOBAL.token_of(id)).and_then(|hash| read(self.reader, &GLOBAL.token(&hash)));
        let left_ms = match holder {
            Some(Principal::Enrolment { expires_ms, .. }) => expires_ms - self.now_ms,
            Some(_) | None => 0,
        };
        let anew = format!("pintle remove-machine {name}, then pintle add-machine manual");
        match left_ms {
            ..=0 => format!("its invitation has expired: {anew}"),
            _ => format!(
                "run that there, which is possible for {} min more; it cannot be said again: if it is lost, {anew}",
                left_ms / 60_000
            ),
        }
    }

    /// Who brings a silent machine's agent back, and how.
    fn revival(&self, id: Uuid, doc: &MachineDoc) -> (&'static str, String) {
        let instance = read(self.reader, &self.model.machine_instance(id));
        let (file, log) = match instance.map(|instance| instance.provider).as_deref() {
            _ if doc.manual => {
                let help = format!(
                    "on its host: systemctl restart pintle-machine.service, or pintle-agent machine where that is no \
                     service; a host that is gone for good: pintle remove-machine --force {}",
                    doc.name
                );
                return ("operator", help);
            }
            Some("nspawn") => ("nspawn.pid, its container", "console.log"),
            Some(_) | None => ("machine.pid", "machine.log"),
        };
        let help = format!(
            "pintle up starts it if it is gone, and machines/{id}/{log} says why it went; one that hangs, or was \
             stopped: kill the process of machines/{id}/{file}"
        );
        ("the supervisor of pintle up", help)
    }
}
