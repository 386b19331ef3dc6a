//! Compares one example of each family of messages with its text in `tests/golden/`. All other tests assert on types.

mod actions;
mod charm_problems;
mod dry_run;
mod failures;
mod followed_runs;
mod locks;
mod refusals;
mod store;

use api::text::cause::{Times, hint, sentence};
use api::text::{entity_state, status_message};
use api::{EntityState, HookLock, StatusInfo};
use state::terms::activity::Activity;
use state::terms::cause::{Actor, Cause, Count, Duty, Entity, Host, RelationName, Retry, Silence};
use state::terms::failure_reason::FailureReason;
use state::terms::force::{Force, ForcePhase, ForcedBy};
use state::terms::health::{
    Fault, Limit, LockHolder, MachineAgentExits, ProcessEnd, UnitAgentExit, UnitHealth,
};
use state::terms::hook_name::HookName;
use state::terms::names::{UnitName, Uuid};
use state::terms::operation::{Hook, Operation};
use state::terms::owner::Owner;
use state::terms::refusal::record::RecordRefusal;
use state::terms::start_reason::StartReason;
use state::terms::status::{
    AgentStatus, InstanceStatus, MachineAgentStatus, ModelState, RelationState, WorkloadStatus,
};
use state::terms::status_message::StatusMessage;
use state::terms::write_failure::WriteFailure;
use std::collections::BTreeSet;
use test_support::golden::compare;

/// The time at which the messages are rendered.
const NOW_MS: i64 = 1_000_000;

/// Returns the name of a duty in the golden file. A new duty must be named here to compile, and the test then fails
/// until it has an example.
fn name(duty: &Duty) -> &'static str {
    match duty {
        Duty::CompareState => "CompareState",
        Duty::RestoreState => "RestoreState",
        Duty::AnswerRecord { .. } => "AnswerRecord",
        Duty::AgreeOnStoreGeneration => "AgreeOnStoreGeneration",
        Duty::SendView => "SendView",
        Duty::FetchSettings { .. } => "FetchSettings",
        Duty::FetchCharm { .. } => "FetchCharm",
        Duty::AnswerLeadershipClaim => "AnswerLeadershipClaim",
        Duty::Reconnect => "Reconnect",
        Duty::ProvideStorage { .. } => "ProvideStorage",
        Duty::ProvideEndpoint { .. } => "ProvideEndpoint",
        Duty::RemoveSubordinate { .. } => "RemoveSubordinate",
        Duty::FreeUnitSlot { .. } => "FreeUnitSlot",
        Duty::Recover { .. } => "Recover",
        Duty::EndFailure { .. } => "EndFailure",
        Duty::Integrate => "Integrate",
        Duty::AddPrincipalUnit { .. } => "AddPrincipalUnit",
        Duty::EnterScope { .. } => "EnterScope",
        Duty::ResumeRequest { .. } => "Resume",
        Duty::StartUnitAgent { .. } => "StartUnitAgent",
        Duty::InstallHookTools => "InstallHookTools",
        Duty::AcceptRequests => "AcceptRequests",
        Duty::AllowConnections { .. } => "AllowConnections",
        Duty::AcceptChanges(WriteFailure::DiskFull) => "AcceptChanges, DiskFull",
        Duty::AcceptChanges(WriteFailure::CannotOpen(_)) => "AcceptChanges, CannotOpen",
        Duty::AcceptChanges(WriteFailure::Outage(_)) => "AcceptChanges, Outage",
        Duty::RestoreDocument { .. } => "RestoreDocument",
        Duty::RestoreSecretKeys { .. } => "RestoreSecretKeys",
        Duty::RestoreFile { .. } => "RestoreFile",
        Duty::Attach { .. } => "Attach",
        Duty::Respond { .. } => "Respond",
        Duty::Start { .. } => "Start",
        Duty::Finish { .. } => "Finish",
        Duty::EndDebugSession { .. } => "EndDebugSession",
        Duty::RemoveStorage { .. } => "RemoveStorage",
        Duty::ReleaseHookLock { group: None, .. } => "ReleaseHookLock",
        Duty::ReleaseHookLock { group: Some(_), .. } => "ReleaseHookLock of a group",
        Duty::EndLockHolder { .. } => "EndLockHolder",
        Duty::RestartUnitAgent { .. } => "RestartUnitAgent",
        Duty::ClearFault { .. } => "ClearFault",
        Duty::InspectSetAside { .. } => "InspectSetAside",
        Duty::Reboot => "Reboot",
        Duty::RebootByHand { .. } => "RebootByHand",
        Duty::Remove => "Remove",
        Duty::FreeCapacity { .. } => "FreeCapacity",
        Duty::LeaveScopes { .. } => "LeaveScopes",
        Duty::Terminate { .. } => "Terminate",
        Duty::Recall => "Recall",
        Duty::RemoveUnstarted => "RemoveUnstarted",
        Duty::DeleteRelation => "DeleteRelation",
        Duty::EmptyModel { .. } => "EmptyModel",
        Duty::ForceRemoval { .. } => "ForceRemoval",
        Duty::ReportDead => "ReportDead",
        Duty::ReportUnstartedDead => "ReportUnstartedDead",
        Duty::Uninstall { .. } => "Uninstall",
        Duty::ReleaseInstance => "ReleaseInstance",
        Duty::StartInstance { .. } => "StartInstance",
        Duty::ReachInstance { .. } => "ReachInstance",
        Duty::CreateInstance => "CreateInstance",
        Duty::RemoveUnits => "RemoveUnits",
        Duty::Enrol { .. } => "Enrol",
        Duty::DeleteFolder { .. } => "DeleteFolder",
        Duty::RunMachineAgent { exits: None, .. } => "RunMachineAgent",
        Duty::RunMachineAgent { exits: Some(_), .. } => "RunMachineAgent, exits",
    }
}

/// The number of duties that [`name`] lists.
const DUTIES: usize = 64;

fn examples() -> Vec<Cause> {
    let web = UnitName::new("web", 0);
    let log = UnitName::new("log", 0);
    let relation = RelationName { number: 3, ends: "db:server web:db".parse().expect("the ends") };
    let machine = || "0".to_owned();
    let of_unit = |duty, actor| Cause::new(Entity::Unit(web.clone()), duty, actor);
    let of_machine = |duty, actor| Cause::new(Entity::Machine(machine()), duty, actor);
    let of_relation = |duty, actor| Cause::new(Entity::Relation(relation.clone()), duty, actor);
    let of_side = |duty| Cause::new(Entity::Application("log".to_owned()), duty, Actor::Operator);
    let by_agent = |duty| Cause::of_unit_agent(&web, duty);
    let running = || Activity::hook(HookName::Install);
    let two = Count { number: 2, more: false };
    let recover = Duty::Recover { activity: running(), failures: 2, retry: Retry::At(NOW_MS + 5_500) };
    let (lock, group_lock) = (locks::hook_lock(&log), locks::group_lock(&log));
    let foreign = Duty::EndLockHolder {
        holder: LockHolder { pid: 1234, program: "/usr/bin/flock".to_owned() },
        activity: Activity::hook(HookName::Start),
    };
    let silent =
        |exits| Duty::RunMachineAgent { silence: Silence::Lost, host: Host::Process(Uuid(5)), exits };
    let exits = MachineAgentExits { end: ProcessEnd::Code(1), last_error: None, count: 5 };
    vec![
        of_unit(Duty::CompareState, Actor::Controller),
        of_unit(Duty::RestoreState, Actor::Operator),
        of_unit(Duty::AnswerRecord { sequence: 7 }, Actor::Controller).since(NOW_MS - 60_000),
        of_unit(Duty::AgreeOnStoreGeneration, Actor::Operator),
        of_unit(Duty::SendView, Actor::Controller),
        by_agent(Duty::FetchSettings { owner: Owner::Unit(UnitName::new("db", 0)) }),
        by_agent(Duty::FetchCharm { charm_url: "local:web-0".to_owned() }),
        of_unit(Duty::AnswerLeadershipClaim, Actor::Controller),
        of_unit(Duty::Reconnect, Actor::Controller).since(NOW_MS - 31_000),
        of_unit(
            Duty::ProvideStorage { storage: "data/0".parse().expect("an id") },
            Actor::MachineAgent(machine()),
        )
        .last_error("no loop device is free".to_owned()),
        of_unit(
            Duty::ProvideEndpoint {
                application: "web".to_owned(),
                endpoint: "metrics".to_owned(),
                relation: 3,
            },
            Actor::Operator,
        ),
        of_unit(Duty::RemoveSubordinate { unit: log.clone(), relation: Some(3) }, Actor::Unit(log.clone())),
        of_unit(Duty::FreeUnitSlot { machine: machine(), relation: 3 }, Actor::Operator),
        of_unit(recover, Actor::Charm).failure(FailureReason::exit(1)),
        of_unit(
            Duty::EndFailure { runs: "local:web-0".to_owned(), charm_url: "local:web-1".to_owned() },
            Actor::Operator,
        ),
        of_side(Duty::Integrate),
        of_side(Duty::AddPrincipalUnit { principal: "web".to_owned() }),
        by_agent(Duty::EnterScope { relation: relation.clone() }),
        of_relation(Duty::ResumeRequest { message: "db moves".to_owned() }, Actor::Operator),
        of_unit(Duty::StartUnitAgent { machine: Some(machine()) }, Actor::MachineAgent(machine())),
        of_unit(Duty::InstallHookTools, Actor::Operator).last_error("pintle-hook is missing".to_owned()),
        Cause::new(Entity::Model("dev".to_owned()), Duty::AllowConnections { limit: 4_096 }, Actor::Operator),
        of_unit(Duty::AcceptRequests, Actor::Controller).last_error("the disk is full".to_owned()),
        of_unit(Duty::AcceptChanges(WriteFailure::DiskFull), Actor::Operator),
        of_unit(
            Duty::AcceptChanges(WriteFailure::CannotOpen("cannot open a file of the store".to_owned())),
            Actor::Operator,
        ),
        of_unit(
            Duty::AcceptChanges(WriteFailure::Outage("etcd does not answer: timeout".to_owned())),
            Actor::Operator,
        ),
        of_unit(Duty::RestoreDocument { document: "MODEL/replica/UNIT".to_owned() }, Actor::Operator),
        Cause::new(
            Entity::Model("dev".to_owned()),
            Duty::RestoreSecretKeys { file: "DATA/controller/secret-keys.yaml".to_owned() },
            Actor::Operator,
        ),
        of_unit(
            Duty::RestoreFile { application: "web".to_owned(), sha256: "SHA256".to_owned() },
            Actor::Operator,
        ),
        by_agent(Duty::Attach { machine: machine() }),
        by_agent(Duty::Respond { machine: machine(), lost: true, subordinate: false }),
        by_agent(Duty::Start { activity: running(), reason: StartReason::SettingsChanged, silent: false }),
        of_unit(
            Duty::Finish { activity: running(), run: 7, machine: machine(), lock_waiters: vec![log.clone()] },
            Actor::Charm,
        ),
        of_unit(
            Duty::EndDebugSession { activity: running(), lock_waiters: vec![log.clone()] },
            Actor::Operator,
        ),
        Cause::new(
            Entity::Machine(machine()),
            Duty::RemoveStorage { storage: ["data/0", "data/1"].map(|id| id.parse().expect("an id")).into() },
            Actor::Operator,
        ),
        of_unit(lock, Actor::UnitAgent(log.clone())),
        of_unit(group_lock, Actor::UnitAgent(log)),
        of_unit(foreign, Actor::Operator),
        of_unit(
            Duty::RestartUnitAgent { machine: Some(machine()), exit: exit(None) },
            Actor::MachineAgent(machine()),
        )
        .since(NOW_MS - 36_000)
        .last_error("thread 'main' panicked".to_owned()),
        of_unit(
            Duty::ClearFault { fault: Fault::Limit(Limit::DiskSpace), machine: Some(machine()) },
            Actor::Operator,
        )
        .since(NOW_MS - 36_000),
        of_unit(
            Duty::InspectSetAside {
                files: vec!["journal.yaml.corrupt-1".to_owned()],
                machine: Some(machine()),
            },
            Actor::Operator,
        ),
        of_unit(Duty::Reboot, Actor::MachineAgent(machine())),
        of_unit(Duty::RebootByHand { machine: Some(machine()) }, Actor::Operator).since(NOW_MS - 700_000),
        of_unit(Duty::Remove, Actor::Operator),
        of_relation(Duty::FreeCapacity { endpoint: "web:db".parse().expect("an endpoint") }, Actor::Operator),
        by_agent(Duty::LeaveScopes { relations: vec![relation.clone()] }),
        by_agent(Duty::Terminate { relations: vec![relation.clone()] })
            .failure(FailureReason::exit(1).of_operation(&Operation::Hook(Hook::Stop))),
        of_unit(Duty::Recall, Actor::MachineAgent(machine())),
        of_unit(Duty::RemoveUnstarted, Actor::MachineAgent(machine())),
        of_relation(Duty::DeleteRelation, Actor::Janitor),
        Cause::new(
            Entity::Model("dev".to_owned()),
            Duty::EmptyModel { applications: two, machines: two, force: Force::No },
            Actor::Janitor,
        ),
        of_unit(
            Duty::ForceRemoval { by: ForcedBy::Budget, phase: ForcePhase::Waiting { left_ms: 20_000 } },
            Actor::Janitor,
        ),
        of_machine(Duty::ReportDead, Actor::MachineAgent(machine())),
        of_machine(Duty::ReportUnstartedDead, Actor::Provisioner),
        of_machine(Duty::Uninstall { forced: false }, Actor::MachineAgent(machine())),
        of_machine(Duty::ReleaseInstance, Actor::Provisioner).last_error("the disk is full".to_owned()),
        of_machine(Duty::StartInstance { retry_ms: NOW_MS + 3_000 }, Actor::Provisioner)
            .last_error("no room for a container".to_owned()),
        of_machine(Duty::ReachInstance { retry_ms: NOW_MS + 3_000 }, Actor::Provisioner)
            .last_error("no room for a container".to_owned()),
        of_machine(Duty::CreateInstance, Actor::Provisioner),
        of_machine(Duty::RemoveUnits, Actor::Operator),
        of_machine(Duty::Enrol { expires_ms: Some(NOW_MS + 3_540_000) }, Actor::Operator),
        of_machine(Duty::DeleteFolder { unit: "web/0".parse().expect("a unit") }, Actor::Operator)
            .last_error("machines/M/quarantine/unit-web-0-U belongs to unit U".to_owned()),
        of_machine(silent(None), Actor::Supervisor).since(NOW_MS - 120_000),
        of_machine(silent(Some(exits)), Actor::Supervisor)
            .since(NOW_MS - 120_000)
            .last_error("ERROR agent.yaml is damaged".to_owned()),
    ]
}

#[test]
fn each_duty_renders_as_in_the_golden_file() {
    let examples = examples();
    let named: BTreeSet<&str> = examples.iter().map(|cause| name(&cause.duty)).collect();
    assert_eq!((named.len(), examples.len()), (DUTIES, DUTIES), "one example of each duty");
    let times = Times { now_ms: NOW_MS, time_of_day: None };
    let text = |one: &Cause| {
        format!("# {}\n{}\nhint: {}\n", name(&one.duty), sentence(one, &times), hint(one, &times))
    };
    let text = examples.iter().map(text).collect::<Vec<_>>().join("\n");
    compare("causes.txt", &text);
}

/// Eight ends of a unit agent.
fn exit(fault: Option<Fault>) -> UnitAgentExit {
    let (since_ms, at_ms) = (NOW_MS - 36_000, NOW_MS - 1_000);
    UnitAgentExit { end: ProcessEnd::Code(101), fault, last_error: None, since_ms, at_ms, count: 8 }
}

#[test]
fn each_fault_names_what_is_wrong_and_the_setting_as_in_the_golden_file() {
    let (web, times) = (UnitName::new("web", 0), Times { now_ms: NOW_MS, time_of_day: None });
    let text = |fault: &Fault| {
        let duty = Duty::ClearFault { fault: *fault, machine: Some("0".to_owned()) };
        let cause = Cause::new(Entity::Unit(web.clone()), duty, Actor::Operator);
        let health = UnitHealth { exit: Some(exit(Some(*fault))), ..UnitHealth::default() };
        let status = StatusMessage::of_failed_agent(&health, &web).expect("it is a problem");
        let status = status_message::describe(&status);
        format!(
            "# {fault:?}\n{}\nhint: {}\nstatus: {status}\n",
            sentence(&cause, &times),
            hint(&cause, &times)
        )
    };
    let mut texts: Vec<String> = Fault::ALL.iter().map(text).collect();
    let ended = UnitHealth { exit: Some(exit(None)), ..UnitHealth::default() };
    texts.push(format!(
        "# none\nstatus: {}\n",
        status_message::describe(&StatusMessage::of_failed_agent(&ended, &web).expect("it ended"))
    ));
    compare("faults.txt", &texts.join("\n"));
}

#[test]
fn each_state_renders_as_in_the_golden_file() {
    let web = |number| UnitName::new("web", number);
    let unit = |workload, agent, message| EntityState::Unit {
        workload: StatusInfo {
            current: workload,
            message: StatusMessage::HookFailed { hook: HookName::Install },
            ..StatusInfo::default()
        },
        agent: StatusInfo { current: agent, message, ..StatusInfo::default() },
    };
    let running = || Activity::Action { id: 1, name: "backup".to_owned() };
    let lock = |waiters| Some(HookLock { holder: web(0), running: running(), waiters });
    let of_model = |more| EntityState::Model {
        applications: Count { number: 1000, more },
        machines: Count { number: 2, more: false },
    };
    let executing = StatusMessage::Executing(Activity::hook(HookName::Install));
    let states = [
        unit(WorkloadStatus::Active, AgentStatus::Idle, StatusMessage::Empty),
        unit(WorkloadStatus::Active, AgentStatus::Executing, executing),
        unit(WorkloadStatus::Error, AgentStatus::Idle, StatusMessage::Empty),
        EntityState::Application { units: 1 },
        EntityState::Application { units: 2 },
        EntityState::Relation { units_in_scope: 2 },
        EntityState::Machine { units: 2, hook_lock: None },
        EntityState::Machine { units: 2, hook_lock: lock(Vec::new()) },
        EntityState::Machine { units: 3, hook_lock: lock(vec![web(1), web(2)]) },
        of_model(false),
        of_model(true),
    ];
    compare(
        "states.txt",
        &states.iter().map(|state| format!("{}\n", entity_state::describe(state))).collect::<String>(),
    );
}

#[test]
fn each_status_has_the_word_of_the_golden_file() {
    let line = |kind: &str, words: &[&str]| format!("{kind}: {}\n", words.join(", "));
    let text = [
        line("model", ModelState::STRINGS),
        line("machine agent", MachineAgentStatus::STRINGS),
        line("instance", InstanceStatus::STRINGS),
        line("workload", WorkloadStatus::STRINGS),
        line("unit agent", AgentStatus::STRINGS),
        line("relation", RelationState::STRINGS),
    ];
    compare("statuses.txt", &text.concat());
}

/// Returns the example after `reason`; none after the last. A new reason must be named here to compile.
fn next_reason(reason: &StartReason) -> Option<StartReason> {
    Some(match reason {
        StartReason::NoCharm => StartReason::CharmFolderLost,
        StartReason::CharmFolderLost => StartReason::CharmInstalled,
        StartReason::CharmInstalled => StartReason::Refreshed { charm_url: "local:web-1".to_owned() },
        StartReason::Refreshed { .. } => StartReason::ResourceAttached,
        StartReason::ResourceAttached => StartReason::ForcedRefresh,
        StartReason::ForcedRefresh => StartReason::CharmReplaced,
        StartReason::CharmReplaced => StartReason::UpgradePending,
        StartReason::UpgradePending => StartReason::UpgradeDone,
        StartReason::UpgradeDone => StartReason::FirstConfiguration,
        StartReason::FirstConfiguration => StartReason::SettingsChanged,
        StartReason::SettingsChanged => StartReason::AddressesChanged,
        StartReason::AddressesChanged => StartReason::TrustChanged,
        StartReason::TrustChanged => StartReason::Configured,
        StartReason::Configured => StartReason::LeadershipGained,
        StartReason::LeadershipGained => StartReason::LeaderSettingsChanged,
        StartReason::LeaderSettingsChanged => StartReason::SecretDue,
        StartReason::SecretDue => StartReason::StorageChanged,
        StartReason::StorageChanged => StartReason::Rebooted,
        StartReason::Rebooted => StartReason::IntervalPassed,
        StartReason::IntervalPassed => StartReason::RelationAppeared { relation: 3 },
        StartReason::RelationAppeared { .. } => {
            StartReason::RelationChanged { endpoint: "db".to_owned(), relation: 3 }
        }
        StartReason::RelationChanged { .. } => StartReason::RelationRemoved,
        StartReason::RelationRemoved => StartReason::Requested,
        StartReason::Requested => StartReason::Removed,
        StartReason::Removed => StartReason::Interrupted,
        StartReason::Interrupted => StartReason::Resolved,
        StartReason::Resolved => StartReason::Retry { failures: 2 },
        StartReason::Retry { .. } => return None,
    })
}

#[test]
fn each_reason_to_start_renders_as_in_the_golden_file() {
    let reasons = std::iter::successors(Some(StartReason::NoCharm), next_reason);
    let text = |reason| format!("{reason:?}: {}\n", api::text::start_reason::describe(&reason));
    compare("start_reasons.txt", &reasons.map(text).collect::<String>());
}

/// Returns the example after `message`; none after the last. A new message must be named here to compile.
fn next_message(message: &StatusMessage) -> Option<StatusMessage> {
    let unit = UnitName::new("web", 0);
    Some(match message {
        StatusMessage::Empty => StatusMessage::OfCharm("serves".to_owned()),
        StatusMessage::OfCharm(_) => StatusMessage::OfOperator("db moves".to_owned()),
        StatusMessage::OfOperator(_) => StatusMessage::OfProvider("no room".to_owned()),
        StatusMessage::OfProvider(_) => StatusMessage::WaitingForMachine,
        StatusMessage::WaitingForMachine => StatusMessage::InstallingAgent,
        StatusMessage::InstallingAgent => StatusMessage::AgentInitialising,
        StatusMessage::AgentInitialising => {
            StatusMessage::WaitingForStorage { storage: "data/0".parse().expect("an id") }
        }
        StatusMessage::WaitingForStorage { .. } => StatusMessage::InstallingCharm,
        StatusMessage::InstallingCharm => StatusMessage::StoppingCharm,
        StatusMessage::StoppingCharm => StatusMessage::RemovingCharm,
        StatusMessage::RemovingCharm => StatusMessage::Executing(Activity::hook(HookName::ConfigChanged)),
        StatusMessage::Executing(activity) => {
            let running = Activity::hook(HookName::Start);
            StatusMessage::WaitingForHookLock {
                group: None,
                activity: activity.clone(),
                running,
                holder: unit,
            }
        }
        StatusMessage::WaitingForHookLock { group: None, .. } => locks::waiting_for_group(&unit),
        StatusMessage::WaitingForHookLock { group: Some(_), .. } => {
            StatusMessage::HookFailed { hook: HookName::Install }
        }
        StatusMessage::HookFailed { .. } => {
            let operation = Box::new(Operation::LeaveScope { relation: 3, uuid: Uuid(3) });
            StatusMessage::OperationFailed { operation, reason: FailureReason::Text("no disk".to_owned()) }
        }
        StatusMessage::OperationFailed { .. } => {
            let never_entered = RecordRefusal::ScopeNeverEntered { relation: 3 };
            StatusMessage::RecordRefused { sequence: 4, reason: Box::new(never_entered.into()) }
        }
        StatusMessage::RecordRefused { .. } => {
            StatusMessage::HooksSkipped { hooks: [HookName::Install, HookName::UpdateStatus].into(), more: 0 }
        }
        StatusMessage::HooksSkipped { .. } => StatusMessage::RebootOverdue { unit },
        StatusMessage::RebootOverdue { .. } => {
            let files = vec!["state.yaml.damaged".to_owned(), "journal.damaged".to_owned()];
            StatusMessage::FilesSetAside { files, unit }
        }
        StatusMessage::FilesSetAside { .. } => StatusMessage::Fault { fault: Fault::Disk, unit },
        StatusMessage::Fault { .. } => StatusMessage::FileMissing { unit },
        StatusMessage::FileMissing { .. } => {
            StatusMessage::AgentEnded { end: ProcessEnd::Signal(9), count: 2, unit }
        }
        // an application whose units `pintle why` would take for machines
        StatusMessage::AgentEnded { .. } => StatusMessage::AgentLost { unit: UnitName::new("machine", 0) },
        StatusMessage::AgentLost { .. } => StatusMessage::AgentNotCommunicating,
        StatusMessage::AgentNotCommunicating => {
            StatusMessage::MachineNotCommunicating { machine: "0".to_owned() }
        }
        StatusMessage::MachineNotCommunicating { .. } => StatusMessage::AgentLate,
        StatusMessage::AgentLate => StatusMessage::AgentNotReported,
        StatusMessage::AgentNotReported => StatusMessage::NotEnrolled,
        StatusMessage::NotEnrolled => StatusMessage::InstanceRunning,
        StatusMessage::InstanceRunning => return None,
    })
}

#[test]
fn each_status_message_renders_as_in_the_golden_file() {
    let messages = std::iter::successors(Some(StatusMessage::Empty), next_message);
    let text = |message| format!("{message:?}: {}\n", status_message::describe(&message));
    compare("status_messages.txt", &messages.map(text).collect::<String>());
}
