//! The text of each refusal: its code, its message and its hint.

use api::text::refusal::{dropped, text};
use state::charm::OptionType;
use state::charm::options::OptionProblem;
use state::charm::params::{ParameterProblem, ParameterRule};
use state::terms::life::Life;
use state::terms::names::{EndpointName, RelationEnds, UnitName, Uuid};
use state::terms::refusal::action::ActionRefusal;
use state::terms::refusal::application::{ApplicationRefusal, ApplicationRequest};
use state::terms::refusal::instance::InstanceRefusal;
use state::terms::refusal::machine::MachineRefusal;
use state::terms::refusal::model::{ModelRefusal, SettingValues};
use state::terms::refusal::record::{Counter, RecordRefusal};
use state::terms::refusal::relation::{RelationRefusal, SuspensionRequest};
use state::terms::refusal::secret::{SecretLimit, SecretRefusal};
use state::terms::refusal::session::SessionRefusal;
use state::terms::refusal::storage::StorageRefusal;
use state::terms::refusal::transaction::TransactionRefusal;
use state::terms::refusal::unit::UnitRefusal;
use state::terms::refusal::write::{LeaderSettingsProblem, WriteRefusal};
use state::terms::refusal::{AddedKind, EntityKind, RefusalReason, ScopeRefusal};
use state::terms::secret::SecretId;
use state::terms::ssh_key::SshKeyProblem;
use state::terms::status::{ActionStatus, WorkloadStatus};
use state::terms::storage::StorageId;
use state::terms::storage::StoragePool;
use state::unit::record::DroppedWrite;
use test_support::golden::compare;

/// Defines a function that returns examples of an enum, each with its name. The match names all variants, so that a new
/// one must have an example to compile.
macro_rules! examples {
    ($name:ident: $reason:ident { $($variant:ident { $($field:ident: $value:expr),* $(,)? },)+ }) => {
        fn $name() -> Vec<(String, $reason)> {
            // a variant may have several examples
            #[allow(unreachable_patterns)]
            fn variant(reason: &$reason) -> &'static str {
                match reason {
                    $($reason::$variant { .. } => stringify!($variant),)+
                }
            }
            let all = vec![$($reason::$variant { $($field: $value),* }),+];
            all.into_iter().map(|one| (format!("{}::{}", stringify!($reason), variant(&one)), one)).collect()
        }
    };
}

fn web() -> UnitName {
    UnitName::new("web", 0)
}

fn db() -> UnitName {
    UnitName::new("db", 0)
}

/// An owned text, for a field.
fn own(text: &str) -> String {
    text.to_owned()
}

fn ends() -> RelationEnds {
    "db:server web:db".parse().expect("the ends")
}

fn wrong(path: &str, rule: ParameterRule, given: impl Into<serde_json::Value>) -> ParameterProblem {
    ParameterProblem { path: own(path), rule, given: given.into() }
}

/// One problem for each rule except [`ParameterRule::Type`].
fn all_rules() -> Vec<ParameterProblem> {
    let (bound, property) = (|| 2.into(), || own("to"));
    vec![
        wrong("(root).a", ParameterRule::Depth, 1),
        wrong("(root).b", ParameterRule::Enum(vec!["x".into(), 5.into()]), 1),
        wrong("(root).c", ParameterRule::Minimum { bound: bound(), exclusive: false }, 1),
        wrong("(root).d", ParameterRule::Minimum { bound: bound(), exclusive: true }, 2),
        wrong("(root).e", ParameterRule::Maximum { bound: bound(), exclusive: false }, 3),
        wrong("(root).f", ParameterRule::Maximum { bound: bound(), exclusive: true }, 2),
        wrong("(root).g", ParameterRule::LengthMin { bound: bound(), items: false }, "x"),
        wrong("(root).h", ParameterRule::LengthMax { bound: bound(), items: true }, vec![1, 2, 3]),
        wrong("(root).i", ParameterRule::AnyOf, 1),
        wrong("(root).j", ParameterRule::OneOf, 1),
        wrong("(root)", ParameterRule::Required { property: property() }, serde_json::Value::Null),
        wrong("(root)", ParameterRule::NoAdditional { property: property() }, serde_json::Value::Null),
    ]
}

fn endpoint() -> EndpointName {
    EndpointName { application: own("web"), endpoint: own("db") }
}

examples! { action: ActionRefusal {
    Unknown { action: own("restore"), unit: web(), charm: own("web"), known: vec![own("backup"), own("dump")] },
    Unknown { action: own("restore"), unit: web(), charm: own("web"), known: Vec::new() },
    InvalidParameters { problems: vec![wrong("(root).to", ParameterRule::Type("string".into()), 5)] },
    InvalidParameters { problems: all_rules() },
    ParametersTooLarge { action: own("backup"), bytes: 70_000, max: 65_536 },
    TooManyEnqueued { action: own("backup"), unit: web(), max: 20 },
    Finished { id: 2, status: ActionStatus::Completed },
} }

examples! { application: ApplicationRefusal {
    BeingRemoved { application: own("web"), request: ApplicationRequest::Integrate },
    BeingRemoved { application: own("web"), request: ApplicationRequest::AddUnit },
    BeingRemoved { application: own("web"), request: ApplicationRequest::Refresh },
    BeingRemoved { application: own("web"), request: ApplicationRequest::AttachResource },
    UndeclaredResources { charm: own("web"), resources: vec![own("app"), own("doc")] },
    TooManyResources { count: 21, max: 20 },
    SubordinateUnits { application: own("logging") },
    SubordinateConstraints { application: own("logging") },
    FakePlaced { application: own("postgres") },
    CannotBeFake { charm: own("logging") },
    NotFake { application: own("web") },
    FakeInContainer { application: own("postgres") },
    FakeSettingsTooLarge { application: own("postgres"), bytes: 2_000_000, max: 1_048_576 },
    InvalidName { name: own("Web") },
    NameTooLong { length: 300, max: 63 },
    AlreadyExists { name: own("web") },
    PredecessorExists { name: own("web") },
    NeedsKubernetes { charm: own("web") },
    TooManyPeers { charm: own("web"), peers: 9, max: 8 },
    InvalidSettings { problems: vec![
        OptionProblem::Unknown { option: own("colour") },
        OptionProblem::ContainsNul { option: own("title") },
        OptionProblem::WrongType { option: own("port"), expected: OptionType::Int, value: own("x") },
    ] },
    OtherCharm { application: own("web"), current: own("web"), charm: own("db") },
    SubordinateChanged { application: own("web") },
    TooManyRelations { application: own("web") },
    BreaksRelation { application: own("web"), ends: ends() },
    NoLeader { application: own("web") },
} }

examples! { instance: InstanceRefusal {
    MachineNotAlive {},
    NonceNotReserved {},
    NoProvisioningError { machine: own("0") },
    NotManual { machine: own("0") },
    AlreadyEnrolled { machine: own("0") },
    InvalidAddress { address: own("host") },
    TokenInvalid {},
    MachineBeingRemoved { machine: own("0") },
} }

examples! { machine: MachineRefusal {
    NotAlive { machine: own("0") },
    Full { machine: own("0"), max: 24 },
    WithoutAgent { machine: own("3") },
    NoUnit { machine: own("0") },
    UnitsAlive { machine: own("0"), units: vec![web()] },
    UnitsAlive { machine: own("0"), units: vec![db(), web()] },
    InstanceBeingReleased { machine: own("0") },
    NoInstance { machine: own("0") },
    Alive { machine: own("0") },
    UnitsAssigned { machine: own("0") },
    NotDead { machine: own("0") },
} }

examples! { model: ModelRefusal {
    InvalidName { name: own("Dev") },
    NotForDevelopment { name: own("dev") },
    AdvancedTooFar {},
    InvalidSshKey { number: 1, problem: SshKeyProblem::Type },
    InvalidSshKey { number: 2, problem: SshKeyProblem::Content },
    InvalidSshKey { number: 3, problem: SshKeyProblem::Line },
    InvalidSshKey { number: 4, problem: SshKeyProblem::TooLong },
    TooManySshKeys { max: 64 },
    NameTooLong { length: 300, max: 63 },
    AlreadyExists { name: own("dev") },
    PredecessorExists { name: own("dev") },
    InvalidSetting { setting: own("http-proxy"), value: own("\0"), expected: SettingValues::Text },
    InvalidSetting { setting: own("logging-config"), value: own("x"), expected: SettingValues::Logging },
    InvalidSetting { setting: own("provisioner-harvest-mode"), value: own("x"), expected: SettingValues::HarvestMode },
    InvalidSetting { setting: own("parallel"), value: own("x"), expected: SettingValues::Boolean },
    InvalidSetting { setting: own("max-hook-retries"), value: own("x"), expected: SettingValues::Retries },
    InvalidSetting { setting: own("update-status-hook-interval"), value: own("x"), expected: SettingValues::Interval },
    InvalidSetting { setting: own("teardown-budget"), value: own("x"), expected: SettingValues::Budget },
    InvalidSetting { setting: own("teardown-budget"), value: own("9999h"), expected: SettingValues::BelowOneYear },
    SettingTooLong { setting: own("no-proxy"), bytes: 70_000, max: 65_536 },
    BeingRemoved { name: own("dev") },
} }

examples! { record: RecordRefusal {
    OtherContent { sequence: 7 },
    NotSuccessor { sequence: 7, applied: 6 },
    RecordsMissing { sequence: 7, expected: 5 },
    UnitAlive { unit: web(), sequence: 7 },
    OtherRelation { relation: Uuid(5), number: 3, endpoint: own("db") },
    ResyncStateMisplaced {},
    ResyncRepeated { interval_ms: 600_000 },
    ScopeNeverEntered { relation: 3 },
    OtherEndpoint { relation: 3, endpoint: own("db"), entered: own("ring") },
    ActionNeverQueued { id: 9 },
    StateNotPublished {},
    TooManyRelations { count: 6_000, max: 5_242 },
    PendingHookOfNoMember {},
    TooFarAhead { counter: Counter::Run, number: 2_000_000, last: 3, max: 1_048_579 },
    TooFarAhead { counter: Counter::Record, number: 2_000_000, last: 3, max: 1_048_579 },
    TooManyReports { count: 3_000, max: 2_000 },
    ReportNumberTooLarge { number: u32::MAX, max: u32::MAX - 1 },
    InvalidName { name: own("install\n") },
    ListTooLong { count: 35_000, max: 1_000 },
    NulInSetting { key: own("a\0b") },
    ReservedStatus { status: WorkloadStatus::Terminated },
    TextTooLong { bytes: 9_000, max: 8_192 },
    TooDeep { depth: 60, max: 24 },
    NumberOutOfRange { number: i64::MIN.to_string(), max: 1 << 53 },
} }

examples! { relation: RelationRefusal {
    InvalidEnd { text: own("web:") },
    SameApplication { application: own("web") },
    UnknownEndpoint { application: own("web"), endpoint: own("nosuch") },
    NoCommonInterface { left: vec![own("web:db"), own("web:site")], right: vec![own("plain:juju-info")] },
    NoSubordinate {},
    AmbiguousEndpoints { pairs: vec![(own("web:db"), own("db:server")), (own("web:db"), own("db:admin"))] },
    AlreadyExists { ends: ends() },
    PredecessorExists { ends: ends() },
    LimitNotCheckable { endpoint: endpoint() },
    LimitReached { endpoint: endpoint(), limit: 1 },
    NotFound { left: own("web:ring"), right: own("db") },
    TooManyCandidates { left: own("web"), right: own("db") },
    Ambiguous { candidates: vec![ends(), "db:admin web:db".parse().expect("the ends")] },
    PeerRemoved { ends: "web:ring".parse().expect("the ends") },
    PeerSuspended { ends: "web:ring".parse().expect("the ends"), request: SuspensionRequest::Suspend },
    BeingRemoved { ends: ends(), request: SuspensionRequest::Suspend },
    BeingRemoved { ends: ends(), request: SuspensionRequest::Resume },
} }

examples! { scope: ScopeRefusal {
    NotMember { unit: web(), ends: ends() },
    UnitNotAlive { unit: web(), ends: ends(), life: Life::Dying },
    RelationNotAlive { unit: web(), ends: ends(), life: Life::Dying },
    Suspended { unit: web(), ends: ends() },
    SubordinateRefused {
        unit: web(),
        ends: "logging:host web:juju-info".parse().expect("the ends"),
        reason: Box::new(MachineRefusal::Full { machine: own("0"), max: 24 }.into()),
    },
} }

examples! { session: SessionRefusal {
    OtherAgentConnected {},
    NilNonce {},
    EpochNotGranted { epoch: 9 },
    EpochOfOtherGeneration { epoch: 9, newest: 7, expected: 12 },
    NewerAgent { newest: 9, epoch: 7 },
    RemovedByForce {},
    UnitRemoved { name: own("web/0") },
    UnknownUnit { unit: Uuid(5) },
} }

examples! { unit: UnitRefusal {
    SubordinateApplication { application: own("logging") },
    SubordinateNotRemoved { unit: web(), life: Life::Dying },
    Subordinate { unit: web() },
    Alive { unit: web() },
    HasSubordinates { unit: web() },
    InScope { unit: web(), ends: ends() },
    NotDead { unit: web() },
    AgentNotFinished { unit: web() },
    Dead { unit: web() },
    NoError { unit: web() },
} }

examples! { transaction: TransactionRefusal {
    TooManyReads { count: 101, max: 100 },
    TooManyWrites { count: 101, max: 100 },
    TooLarge { bytes: 1_048_577, max: 1_048_576 },
} }

examples! { write: WriteRefusal {
    NotLeader { unit: web(), leader: None },
    NotLeader { unit: web(), leader: Some(UnitName::new("web", 1)) },
    NotLeader { unit: web(), leader: Some(web()) },
    UnknownEndpoint { unit: web(), endpoint: own("nosuch") },
    LeaderOnly {},
    Overtaken {},
    InvalidLeaderSettings { problem: LeaderSettingsProblem::ContainsNul { key: own("a") } },
    InvalidLeaderSettings { problem: LeaderSettingsProblem::TooLarge { bytes: 262_145, max: 262_144 } },
    BagTooLarge { unit: web(), relation: 1, bytes: 4_200_000, max: 4_198_400 },
    BagsTooLarge { unit: web(), bytes: 900_000, max: 851_968 },
    PortConflict {
        unit: web(),
        range: "80/tcp".parse().expect("a range"),
        other: db(),
        other_range: "80-90/tcp".parse().expect("a range"),
    },
} }

examples! { secret: SecretRefusal {
    NotFound { name: own("token") },
    UnknownConsumerLabel { label: own("token") },
    PermissionDenied {},
    NotLeader { unit: web() },
    LabelExists { label: own("token") },
    Exists { id: SecretId::from_bits(0) },
    RevisionNotFound { id: SecretId::from_bits(0), revision: 2 },
    TooMany { what: SecretLimit::Revisions, max: 200 },
    NoRoom { bytes: 67_108_865, max: 67_108_864 },
    Sealed { id: SecretId::from_bits(0) },
    Empty {},
    BadContent { key: own("a_b") },
    OfCharm { id: SecretId::from_bits(0) },
    UnknownReader { name: own("web") },
} }

examples! { storage: StorageRefusal {
    NotDeclared { charm: own("web"), name: own("data") },
    InvalidLocation { id: data() },
    WrongCount { name: own("data"), count: 3, min: 1, max: Some(2) },
    UnsuitablePool { name: own("data"), pool: own("ebs") },
    TooSmall { name: own("data"), size_mib: 10, min_mib: 100 },
    TooMany { unit_max: 16, machine_max: 40 },
    UnitNotAlive { unit: web() },
    Attached { id: data(), unit: Some(web()) },
    NotAttached { id: data() },
    BeingRemoved { id: data() },
    OtherMachine { id: data(), machine: own("3") },
    OtherKind { id: data() },
    NotDetachable { id: data() },
    NotReleasable { id: data(), pool: StoragePool::Rootfs },
    InUse { id: data() },
    AttachedToSeveral {},
    UnitHasStorage { unit: web(), id: data() },
    OnMachine { machine: own("3"), storage: vec![data()] },
} }

fn data() -> StorageId {
    StorageId { name: own("data"), number: 0 }
}

examples! { dropped_write: DroppedWrite {
    SettingsOfRemovedRelation { relation: 3 },
    SettingsOutOfScope { relation: 3 },
    SettingsTooLarge { relation: 3 },
    ApplicationStatus { unit: web() },
    RemovedSecret { secret: SecretId::from_bits(0) },
    Entry { relation: 3, refusal: ScopeRefusal::Suspended { unit: web(), ends: ends() }.into() },
} }

/// The examples of all reasons.
fn all() -> Vec<(String, RefusalReason)> {
    fn reasons<R: Into<RefusalReason>>(examples: Vec<(String, R)>) -> Vec<(String, RefusalReason)> {
        examples.into_iter().map(|(name, reason)| (name, reason.into())).collect()
    }
    let not_found = |kind: &EntityKind| {
        (format!("NotFound {{ {kind} }}"), RefusalReason::NotFound { kind: *kind, name: own("web") })
    };
    let added = |kind: &AddedKind| {
        (
            format!("TooManyAdded {{ {kind} }}"),
            RefusalReason::TooManyAdded { count: 1_001, kind: *kind, max: 1_000 },
        )
    };
    [
        EntityKind::ALL.iter().map(not_found).collect(),
        AddedKind::ALL.iter().map(added).collect(),
        vec![(own("NotAuthorised"), RefusalReason::NotAuthorised)],
        vec![(own("TooManySimulated"), RefusalReason::TooManySimulated { count: 21, max: 20 })],
        reasons(action()),
        reasons(application()),
        reasons(instance()),
        reasons(machine()),
        reasons(model()),
        reasons(record()),
        reasons(relation()),
        reasons(scope()),
        reasons(secret()),
        reasons(session()),
        reasons(storage()),
        reasons(transaction()),
        reasons(unit()),
        reasons(write()),
    ]
    .concat()
}

/// Compiles only if every enum of reasons is named here; add the examples of a new one to [`all`], too. Always true. A new one must be named here to compile.
fn is_listed(reason: &RefusalReason) -> bool {
    match reason {
        RefusalReason::Action(_)
        | RefusalReason::Secret(_)
        | RefusalReason::Application(_)
        | RefusalReason::Instance(_)
        | RefusalReason::Machine(_)
        | RefusalReason::Model(_)
        | RefusalReason::Record(_)
        | RefusalReason::Relation(_)
        | RefusalReason::Scope(_)
        | RefusalReason::Session(_)
        | RefusalReason::Storage(_)
        | RefusalReason::Transaction(_)
        | RefusalReason::Unit(_)
        | RefusalReason::Write(_)
        | RefusalReason::NotAuthorised
        | RefusalReason::NotFound { .. }
        | RefusalReason::TooManyAdded { .. }
        | RefusalReason::TooManySimulated { .. } => true,
    }
}

#[test]
fn each_refusal_renders_as_in_the_golden_file() {
    let rendered = |(name, reason): &(String, RefusalReason)| {
        assert!(is_listed(reason));
        let text = text(reason);
        let hint = text.hint.map_or(String::new(), |hint| format!("hint: {hint}\n"));
        format!("# {name}: {:?}\n{}\n{hint}", reason.code(), text.message)
    };
    let dropped = |(name, write): &(String, DroppedWrite)| format!("# {name}\n{}\n", dropped(write));
    let (refusals, writes) = (all(), dropped_write());
    let texts = refusals.iter().map(rendered).chain(writes.iter().map(dropped));
    compare("refusals.txt", &texts.collect::<Vec<_>>().join("\n"));
}
