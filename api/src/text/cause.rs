//! Causes and remedies in English: one sentence for a cause, one hint for its remedy.
//!
//! A sentence contains the entity, who must act, what has to be done, since when, and the last error. No
//! program decides on the text. Called by `pintle why`, dry runs, the error output of `pintle`, and
//! `pintle-agent why`.

use super::activity::{hook_lock, running};
use super::count::counted;
use super::{entity_command, fault, refusal, start_reason};
use crate::machine_folder::{CONSOLE_LOG, CONTAINER_PID, MACHINE_LOG, MACHINE_PID, MACHINES_DIR};
use crate::{LOST_AFTER_MS, OBSTRUCTED_RECALL_RETRY_MAX_MS, ago};
use state::terms::activity::Activity;
use state::terms::cause::{Actor, Cause, Duty, Entity, Host, RelationName, Remedy, Retry, Silence};
use state::terms::force::{Force, ForcePhase, ForcedBy};
use state::terms::names::UnitName;
use state::terms::owner::Owner;
use state::terms::write_failure::WriteFailure;
use state::transitions::force_timer::GRACE_MS;
use state::unit::decision::REBOOT_DEADLINE_MS;

/// The maximum number of relations that a sentence names; if there are more, it ends with "and more".
const RELATIONS_MAX: usize = 20;

/// How a sentence prints times.
pub struct Times<'a> {
    /// The wall clock of the reader, in milliseconds.
    pub now_ms: i64,
    /// Prints a time of day, `10:00:05Z`; none to print only how long ago.
    pub time_of_day: Option<&'a dyn Fn(i64) -> String>,
}

impl Times<'_> {
    /// The verb of a sentence. The time stands beside it, because behind the duty it could be that of an event which the
    /// duty mentions.
    fn waits(&self, since_ms: Option<i64>) -> String {
        let Some(since_ms) = since_ms else { return "waits".to_owned() };
        let ago = ago(self.now_ms - since_ms);
        match self.time_of_day {
            Some(time_of_day) => format!("has waited since {} ({ago})", time_of_day(since_ms)),
            None => format!("has waited {ago}"),
        }
    }

    /// The seconds until `at_ms`, rounded up.
    fn seconds_until(&self, at_ms: i64) -> i64 {
        seconds(at_ms - self.now_ms)
    }
}

/// A constant of the protocol as a time span: `1m`.
fn span(ms: u64) -> String {
    ago(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// Milliseconds as seconds, rounded up; never negative.
fn seconds(ms: i64) -> i64 {
    (ms.max(0) + 999) / 1000
}

/// The cause as a sentence: `unit web/0 has waited since 10:00:05Z (2m) for its agent to leave relation 3 (db:server
/// web:db)`
pub fn sentence(cause: &Cause, times: &Times<'_>) -> String {
    let actor = actor(&cause.actor, &cause.entity);
    let waits = times.waits(cause.since_ms);
    let mut text = format!("{} {waits} for {actor} to {}", cause.entity, duty(&cause.duty, times));
    if let Some(error) = &cause.last_error {
        text += &format!("; last error: {}", refusal::failure(error));
    }
    text
}

/// The command or the change that helps.
pub fn hint(cause: &Cause, times: &Times<'_>) -> String {
    remedy(&cause.remedy(), times)
}

fn actor(actor: &Actor, entity: &Entity) -> String {
    match actor {
        Actor::Controller => "the controller".to_owned(),
        Actor::Janitor => "the controller's janitor".to_owned(),
        Actor::Provisioner => "the provisioner of pintle up".to_owned(),
        Actor::Supervisor => "the supervisor of pintle up".to_owned(),
        // in Juju's documents an operator is a charm
        Actor::Operator => "a user".to_owned(),
        Actor::Charm => "its charm".to_owned(),
        Actor::UnitAgent(unit) if *entity == Entity::Unit(unit.clone()) => "its agent".to_owned(),
        Actor::UnitAgent(unit) => format!("the agent of unit {unit}"),
        Actor::MachineAgent(machine) if *entity == Entity::Machine(machine.clone()) => "its agent".to_owned(),
        Actor::MachineAgent(machine) => format!("the agent of machine {machine}"),
        Actor::OwnMachineAgent => "the agent of its machine".to_owned(),
        Actor::Unit(unit) => format!("unit {unit}"),
    }
}

/// The duty as the text after `waits for ACTOR to`.
fn duty(duty: &Duty, times: &Times<'_>) -> String {
    match duty {
        Duty::CompareState => "compare the state on disk with its replica".to_owned(),
        Duty::RestoreState => {
            "choose how to continue: its state files are corrupt, and the controller has no replica"
                .to_owned()
        }
        Duty::AnswerRecord { sequence } => {
            format!("answer record {sequence}, which contains a write that can be refused")
        }
        Duty::AgreeOnStoreGeneration => {
            "check the controller: its store generation differs from the unit's".to_owned()
        }
        Duty::SendView => "send the first view of the unit".to_owned(),
        Duty::FetchSettings { owner: Owner::Unit(unit) } => {
            format!("fetch the settings of unit {unit} before the next hook")
        }
        Duty::FetchSettings { owner: Owner::Application(name) } => {
            format!("fetch the settings of application {name} before the next hook")
        }
        Duty::FetchCharm { charm_url } => format!("fetch charm {charm_url} again before the next hook"),
        Duty::AnswerLeadershipClaim => "answer its leadership claim".to_owned(),
        Duty::Reconnect => "respond: relation hooks do not start without a connection".to_owned(),

        Duty::ProvideEndpoint { application, endpoint, relation } => {
            format!("refresh {application} to a charm with endpoint {endpoint:?}, for relation {relation}")
        }
        Duty::RemoveSubordinate { relation: None, .. } => "be removed".to_owned(),
        Duty::RemoveSubordinate { relation: Some(relation), .. } => {
            format!("be removed, before relation {relation} adds a new subordinate unit")
        }
        Duty::FreeUnitSlot { machine, relation } => {
            format!("remove a unit from machine {machine}, which is full, for relation {relation}")
        }
        Duty::Recover { activity, failures, retry } => {
            // `resolved` begins a new count, so that one failure may not be the first one
            let times_failed = if *failures == 1 { String::new() } else { format!(" {failures} times") };
            format!(
                "complete {}, which failed{times_failed} ({})",
                operation(activity),
                retry_text(*retry, times)
            )
        }
        Duty::EndFailure { runs, charm_url } => {
            format!("resolve the failure, which runs with {runs} again, before the refresh to {charm_url}")
        }
        Duty::Integrate => "integrate it: a subordinate has no units of its own".to_owned(),
        Duty::AddPrincipalUnit { principal } => {
            format!("add a unit to {principal}, which has none for the subordinate")
        }
        Duty::EnterScope { relation } => format!("enter relation {relation}"),
        Duty::ResumeRequest { message } if message.is_empty() => "resume it".to_owned(),
        Duty::ResumeRequest { message } => format!("resume it (suspended: {message})"),

        Duty::StartUnitAgent { .. } => "start the unit agent".to_owned(),
        Duty::InstallHookTools => {
            "install the hook tools, without which the unit agent does not run".to_owned()
        }
        Duty::AcceptRequests => "accept the requests of its agent".to_owned(),
        Duty::AllowConnections { limit } => {
            format!("allow the controller more connections: all {limit} are open, and new ones wait")
        }
        Duty::AcceptChanges(WriteFailure::DiskFull) => {
            "accept changes again: the store cannot write to its disk".to_owned()
        }
        Duty::AcceptChanges(WriteFailure::CannotOpen(why) | WriteFailure::Outage(why)) => {
            format!("accept changes again: {why}")
        }
        Duty::RestoreDocument { document } => {
            format!("restore the store of the controller: document {document} is damaged on its disk")
        }
        Duty::RestoreSecretKeys { file } => {
            format!(
                "restore the keys of secrets: the contents in the store are sealed with a key that is not in {file}"
            )
        }
        Duty::RestoreFile { sha256, .. } => format!(
            "restore a charm archive or the file of a resource: {sha256} is missing or damaged on the controller"
        ),
        Duty::Attach { .. } => "attach for the first time; the agent of its machine runs".to_owned(),
        Duty::Respond { lost: false, .. } => "respond: its next request is overdue".to_owned(),
        Duty::Respond { lost: true, .. } => {
            format!("respond: it has sent no request for more than {}", span(LOST_AFTER_MS))
        }
        Duty::Start { activity, reason, .. } => {
            format!("start {} ({})", running(activity), start_reason::describe(reason))
        }
        Duty::Finish { activity, lock_waiters, .. } => {
            format!("finish {}{}", running(activity), delays(lock_waiters))
        }
        Duty::EndDebugSession { activity, lock_waiters } => {
            format!("end the debug session in which it is {}{}", running(activity), delays(lock_waiters))
        }
        Duty::RemoveStorage { storage } => {
            format!("remove storage {}, with whose content it is kept", list(storage))
        }
        Duty::ReleaseHookLock { group, activity, running: held_for, .. } => {
            let (lock, held_for, next) = (hook_lock(group.as_deref()), running(held_for), running(activity));
            format!("release {lock}, held for {held_for}; {next} is next")
        }
        Duty::EndLockHolder { holder, activity } => {
            let (pid, program, next) = (holder.pid, &holder.program, running(activity));
            format!("end process {pid} ({program}), which holds the hook lock; {next} is next")
        }
        Duty::RestartUnitAgent { exit, .. } => {
            format!("restart the unit agent, which {}", fault::end(&exit.end, exit.count))
        }
        Duty::ClearFault { fault, .. } => fault::duty(*fault),
        Duty::InspectSetAside { files, .. } => {
            format!("inspect damaged files of its stored state, which were set aside: {}", files.join(", "))
        }
        Duty::ProvideStorage { storage } => format!("provide storage {storage}"),
        Duty::Reboot => "reboot the machine, as a hook requested".to_owned(),
        Duty::RebootByHand { .. } => format!(
            "reboot the machine, as a hook requested: it did not happen within {}",
            ago(REBOOT_DEADLINE_MS)
        ),

        Duty::Remove => "remove it".to_owned(),
        Duty::FreeCapacity { endpoint } => format!("remove it: it uses the capacity of endpoint {endpoint}"),
        Duty::LeaveScopes { relations } => format!("leave {}", relation_list(relations)),
        Duty::Terminate { relations } if relations.is_empty() => {
            "run its last hooks and report that it is dead".to_owned()
        }
        Duty::Terminate { relations } => {
            format!("leave {}, run its last hooks and report that it is dead", relation_list(relations))
        }
        Duty::Recall => "stop the unit agent, delete the unit's folder and remove the unit".to_owned(),
        Duty::RemoveUnstarted => "remove the unit, whose agent never started".to_owned(),
        Duty::DeleteRelation => "delete it".to_owned(),
        Duty::EmptyModel { applications, machines, .. } => {
            let (applications, machines) =
                (counted(*applications, "application"), counted(*machines, "machine"));
            format!("remove what is left in it: {applications}, {machines}")
        }
        Duty::ForceRemoval { by: ForcedBy::Operator, .. } => "remove it by force".to_owned(),
        Duty::ForceRemoval { by: ForcedBy::Budget, .. } => "remove it by force (teardown-budget)".to_owned(),

        Duty::ReportDead => "report that it is dead".to_owned(),
        Duty::ReportUnstartedDead => "report that it is dead: it was never started".to_owned(),
        Duty::Uninstall { .. } => "uninstall itself".to_owned(),
        Duty::ReleaseInstance => "release its instance and remove it".to_owned(),
        Duty::StartInstance { .. } => "start its instance, which failed".to_owned(),
        Duty::ReachInstance { .. } => "reach its instance, which failed".to_owned(),
        Duty::CreateInstance => "create an instance on which its units can run their last hooks".to_owned(),
        Duty::RemoveUnits => "remove its units: it has no agent that can stop them".to_owned(),
        Duty::Enrol { .. } => "enrol it with the command that pintle add-machine manual printed".to_owned(),
        Duty::DeleteFolder { unit } => format!("decide about a folder of the removed unit {unit}"),
        Duty::RunMachineAgent { exits: Some(exits), .. } => {
            format!("restart its agent, which {}", fault::end(&exits.end, exits.count))
        }
        Duty::RunMachineAgent { silence, exits: None, .. } => match silence {
            Silence::NotStarted => "start its agent".to_owned(),
            Silence::NotReported => "start its agent, which has not reported yet".to_owned(),
            Silence::Late => "start its agent, whose next request is overdue".to_owned(),
            Silence::Lost => {
                format!("start its agent, which has sent no request for more than {}", span(LOST_AFTER_MS))
            }
        },
    }
}

/// An activity as the subject of a failure.
pub fn operation(activity: &Activity) -> String {
    match activity {
        Activity::InstallCharm => "the installation of its charm".to_owned(),
        Activity::EnterScope { relation, .. } => format!("its entry into relation {relation}"),
        Activity::LeaveScope { relation } => format!("its departure from relation {relation}"),
        Activity::Hook { name, remote_unit: None } => format!("hook {name}"),
        Activity::Hook { name, remote_unit: Some(unit) } => format!("hook {name} for {unit}"),
        Activity::Action { name, .. } => format!("action {name}"),
        Activity::Commands => "commands of juju-exec".to_owned(),
        Activity::Resync => "its resync".to_owned(),
        Activity::SetDead => "the report that it is dead".to_owned(),
    }
}

fn retry_text(retry: Retry, times: &Times<'_>) -> String {
    match retry {
        Retry::At(at_ms) => format!("next retry in {} s", times.seconds_until(at_ms)),
        Retry::After(delay_ms) => format!("retried {} s after the last failure", delay_ms.div_ceil(1000)),
        Retry::Off => "retries are switched off".to_owned(),
        Retry::Exhausted => "no retries are left".to_owned(),
    }
}

fn list<T: ToString>(all: &[T]) -> String {
    all.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// What a run that holds the hook lock delays; empty if no unit waits for the lock.
fn delays(waiters: &[UnitName]) -> String {
    if waiters.is_empty() { String::new() } else { format!(", which delays hooks of {}", list(waiters)) }
}

fn relation_list(all: &[RelationName]) -> String {
    let shown = &all[..all.len().min(RELATIONS_MAX)];
    let names = shown.iter().map(RelationName::to_string).collect::<Vec<_>>().join(", ");
    let kind = if all.len() == 1 { "relation" } else { "relations" };
    let more = if shown.len() < all.len() { " and more" } else { "" };
    format!("{kind} {names}{more}")
}

fn remedy(remedy: &Remedy, times: &Times<'_>) -> String {
    match remedy {
        Remedy::Automatic => "nothing to do: it is done automatically".to_owned(),
        Remedy::AutomaticOrForce { machine } => {
            format!("nothing to do while pintle up runs; otherwise: pintle remove-machine --force {machine}")
        }
        Remedy::StartController => "start the controller".to_owned(),
        Remedy::RestoreLink => "restore the connection to the controller".to_owned(),
        Remedy::StartSupervisor => "pintle up".to_owned(),
        Remedy::StartFresh => {
            "to start the unit anew from its installation: pintle-agent resolve DIR --fresh".to_owned()
        }
        Remedy::CheckStoreGeneration => {
            "if the controller was restored from a backup, the next attach agrees on its generation"
                .to_owned()
        }
        Remedy::CheckMachineAgent { machine: Some(machine) } => {
            format!("check that the agent of machine {machine} runs: pintle why machine {machine}")
        }
        Remedy::CheckMachineAgent { machine: None } => "check that the machine agent runs".to_owned(),
        Remedy::Explain(entity) => entity_command::why(entity),
        Remedy::Refresh { application } => format!("pintle refresh {application}"),
        Remedy::RemoveAnyUnit { machine } => {
            format!("remove another unit of machine {machine} with: pintle remove-unit")
        }
        Remedy::ResolveUnit { unit } => {
            format!(
                "pintle debug-log -i {unit}; then pintle resolved {unit}, or pintle resolved --no-retry {unit}"
            )
        }
        Remedy::ResolveOrForceRefresh { unit } => format!(
            "pintle resolved --no-retry {unit}, or pintle refresh --force-units --path CHARM {}",
            unit.application
        ),
        Remedy::Integrate { application } => format!("pintle integrate {application} APPLICATION"),
        Remedy::AddUnit { application } => format!("pintle add-unit {application}"),
        Remedy::ResumeRelation { relation } => format!("pintle resume-relation {relation}"),
        Remedy::MakeStoreWritable(WriteFailure::DiskFull) => "on the host of the controller, free disk space for its data folder, \
             or raise the limit that is reached (quota, LimitFSIZE)"
            .to_owned(),
        Remedy::MakeStoreWritable(WriteFailure::CannotOpen(_)) => {
            "raise the limit of open files of the controller (LimitNOFILE)".to_owned()
        }
        Remedy::MakeStoreWritable(WriteFailure::Outage(_)) => {
            // a request whose answer was lost may have been applied: nothing is promised about requests
            "check etcd: etcdctl endpoint status; changes are accepted again when the outage has ended".to_owned()
        }
        Remedy::RaiseConnectionLimit => "on the host of the controller, raise the limit of open files of the shell that \
             runs pintle up (ulimit -Hn), or LimitNOFILE= of its service, and start the controller again"
            .to_owned(),
        Remedy::RestoreStore => "on the host of the controller, list what is damaged with: pintle-controller check DIR; \
             then restore the store from a backup"
            .to_owned(),
        Remedy::RestoreSecretKeys { file } => {
            format!("put {file} back from a backup and start the controller again; without it the secrets are lost")
        }
        Remedy::UploadFile { application, sha256 } => format!(
            "upload the same file again: pintle refresh {application} --path CHARM, or pintle attach-resource \
             {application} NAME=FILE; or put it back as controller/archives/{sha256} from a backup of the data folder"
        ),
        Remedy::InstallHookTools => "install the program pintle-hook beside pintle-agent".to_owned(),
        Remedy::ReadAgentLog { unit, machine: None } => {
            let tag = unit.tag();
            format!("read agents/{tag}/agent.log")
        }
        Remedy::ReadAgentLog { unit, machine: Some(machine) } => {
            let tag = unit.tag();
            format!(
                "if it does not attach soon, on machine {machine} read agents/{tag}/agent.log of its folder, and run \
                 pintle-agent why agents/{tag}"
            )
        }
        Remedy::KillUnitAgent { unit, machine, removable } => {
            let force = match removable {
                true => format!("; or remove the unit: pintle remove-unit --force {unit}"),
                false => String::new(),
            };
            format!(
                "the machine agent restarts it after it exits (pintle why machine {machine}); if it hangs, end \
                 it with kill -9 and the first number in agents/{}/agent.pid{force}",
                unit.tag()
            )
        }
        Remedy::ClearFault { fault, unit, machine } => fault::remedy(*fault, unit, machine.as_deref()),
        Remedy::DeleteSetAside { unit, machine } => format!(
            "nothing is lost that the controller had received: read the files in {}, and delete them",
            fault::folder(unit, machine.as_deref())
        ),
        Remedy::MendStorage { unit } => {
            format!("the machine agent tries again; if it cannot succeed: pintle remove-unit {unit}")
        }
        Remedy::RebootMachine { machine: Some(machine) } => format!(
            "a hook that runs delays it: pintle why machine {machine}; otherwise read the log of its agent, and reboot the \
             machine by hand"
        ),
        Remedy::RebootMachine { machine: None } => {
            "a hook that runs delays it; otherwise read the log of the machine agent, and reboot the machine by hand"
                .to_owned()
        }
        Remedy::DeleteFolder => format!(
            "delete the folder if it is not needed, or move it out of the machine's folder; the machine agent looks again \
             within {}",
            span(OBSTRUCTED_RECALL_RETRY_MAX_MS)
        ),
        Remedy::AfterResponse => "it starts as soon as the agent responds".to_owned(),
        Remedy::Imminent => "nothing to do: the agent is about to start it".to_owned(),
        Remedy::InspectHook { unit, run, machine } => format!(
            "it ends with its process on machine {machine}; what it has called so far: pintle show-run {unit} {run}; to end \
             it: pintle stop-hook {unit}"
        ),
        Remedy::EndProcess { pid } => format!("on the machine: kill {pid}"),
        Remedy::ExitDebugSession { unit } => format!(
            "exit its shell, or close the terminal of pintle debug-hooks or debug-code; to end it from elsewhere, so that \
             the hook fails and is retried: pintle ssh {unit} tmux -L {} kill-server",
            unit.tag()
        ),
        Remedy::RemoveStorage { storage } => format!(
            "pintle remove-storage {ids}; to use it again, with its content: pintle add-unit APPLICATION --attach-storage {first}",
            ids = list(storage).replace(',', ""),
            first = list(&storage[..1.min(storage.len())]),
        ),
        Remedy::RunHooksInParallel { holder } => format!(
            "one hook runs at a time on a machine: pintle why {holder}; to run them in parallel: pintle model-config \
             parallel=true"
        ),
        Remedy::AwaitExecutionGroup { holder } => {
            format!("one action of an execution group runs at a time on a machine: pintle why {holder}")
        }
        Remedy::Remove(entity) => removal_command(entity, ""),
        Remedy::ForceRemoveMachine { machine } => format!("pintle remove-machine --force {machine}"),
        Remedy::AutomaticUnlessLost { forced: true, .. } => {
            format!("nothing to do; if its host no longer exists, force removes it within {}", ago(GRACE_MS))
        }
        Remedy::AutomaticUnlessLost { machine, forced: false } => {
            format!("nothing to do; if its host no longer exists: pintle remove-machine --force {machine}")
        }
        Remedy::DestroyByForce { model, forced } => match forced {
            Force::No => format!("to remove it by force: pintle destroy-model --force {model}"),
            Force::AfterWait => format!(
                "it is removed by force after {}; at once: pintle destroy-model --force --no-wait {model}",
                ago(GRACE_MS)
            ),
            Force::AtOnce => "nothing to do: it is being removed by force".to_owned(),
        },
        Remedy::ForceAtOnce { phase: ForcePhase::Acting, .. } => "nothing to do: it has started".to_owned(),
        Remedy::ForceAtOnce { entity, phase: ForcePhase::Waiting { left_ms } } => {
            let command = removal_command(entity, "--force --no-wait ");
            format!("it begins in {} s; at once: {command}", seconds(*left_ms))
        }
        Remedy::RetryProvisioning { machine, retry_ms: None } => {
            format!("pintle retry-provisioning {machine}")
        }
        Remedy::RetryProvisioning { machine, retry_ms: Some(retry_ms) } => format!(
            "it is retried in {} s; at once: pintle retry-provisioning {machine}",
            times.seconds_until(*retry_ms)
        ),
        Remedy::Enrol { machine, expires_ms } => {
            let renew = format!("pintle remove-machine {machine}, then pintle add-machine manual");
            match expires_ms.map(|expires_ms| expires_ms - times.now_ms).filter(|left_ms| *left_ms > 0) {
                None => format!("the enrolment token has expired: {renew}"),
                Some(left_ms) => format!(
                    "run that command on the machine within {} min; if the command is lost: {renew}",
                    (left_ms + 59_999) / 60_000
                ),
            }
        }
        Remedy::RestartMachineAgent { machine, host } => restart(machine, *host),
    }
}

/// The command that removes an entity. `flags` end with a blank.
fn removal_command(entity: &Entity, flags: &str) -> String {
    match entity {
        Entity::Unit(name) => format!("pintle remove-unit {flags}{name}"),
        Entity::Application(name) => format!("pintle remove-application {flags}{name}"),
        Entity::Relation(name) => format!("pintle remove-relation {flags}{}", name.ends),
        Entity::Machine(name) => format!("pintle remove-machine {flags}{name}"),
        Entity::Model(name) => format!("pintle destroy-model {flags}{name}"),
    }
}

fn restart(machine: &str, host: Host) -> String {
    let (folder, process, log) = match host {
        Host::Manual => {
            return format!(
                "on its host: systemctl restart pintle-machine.service, or pintle-agent machine without systemd; if the \
                 host is gone: pintle remove-machine --force {machine}"
            );
        }
        Host::Process(folder) => (folder, MACHINE_PID, MACHINE_LOG),
        Host::Container(folder) => (folder, CONTAINER_PID, CONSOLE_LOG),
    };
    format!(
        "pintle up restarts it after it exits (see {MACHINES_DIR}/{folder}/{log}); if it hangs, end it with kill -9 \
         and the first number in {MACHINES_DIR}/{folder}/{process}"
    )
}
