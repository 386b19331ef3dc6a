//! Drops the future of the unit agent at every await, under tokio's runtime with a simulated clock.
//!
//! The simulator polls futures itself; this test uses the wakers, channels and selects of tokio. A lost wake-up shows as
//! an agent that continues only with the next heartbeat, a branch that drops a value it has received as an effect that
//! occurs twice or never.

use agent::ports::Clock;
use agent::unit_agent::UnitAgent;
use api::error::ApiError;
use api::{Deploy, Ends, Handle, InModel, Integrate, Request, Stream, UnitWatchEvent, Watch, WatchUnit};
use controller::callers::{AuthenticatedCaller, Controller};
use controller::environment::{Environment, StoredArchive, uuid_v4};
use state::charm::{Charm, Endpoint, Role, Scope};
use state::documents::draft::read;
use state::documents::prelude::{Model, TokenHolder, UserRole};
use state::lifecycle::archive;
use state::terms::names::{UnitName, Uuid};
use state::terms::operation::Operation;
use state::unit::hook_context::{HookContext, Writes};
use state::unit::outcome::{HookResult, RunExit};
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use test_support::memory_store::MemoryStore;
use tests::memory_unit::MemoryUnit;
use tokio::sync::watch;
use tokio::task::yield_now;

const MODEL: Model = Model(Uuid(7));

/// More rounds than the length of any chain of tasks here that wake each other.
const QUIET_ROUNDS: u32 = 20;

/// An agent whose wake-up is lost continues with the next heartbeat; one that was dropped needs some 100 ms to attach.
const LOST_WAKEUP_MS: u64 = api::HEARTBEAT_MS / 3;

/// A clock that advances only when all tasks wait.
#[derive(Clone)]
struct Time {
    now_ms: watch::Sender<u64>,
    /// The times at which tasks sleep until.
    alarms: Arc<Mutex<BTreeSet<u64>>>,
    random: Arc<AtomicU64>,
}

impl Time {
    fn new() -> Time {
        // the machine booted some time ago
        let (now_ms, _) = watch::channel(100_000);
        Time { now_ms, alarms: Arc::default(), random: Arc::new(AtomicU64::new(1)) }
    }
    fn ms(&self) -> u64 {
        *self.now_ms.borrow()
    }
    async fn until(&self, ms: u64) {
        self.alarms.lock().expect("no holder panics").insert(ms);
        let mut now_ms = self.now_ms.subscribe();
        now_ms.wait_for(|now_ms| *now_ms >= ms).await.expect("self keeps the sender");
    }
    /// Never ends: lets every runnable task run, then advances the clock to the next alarm. All wake-ups are in memory,
    /// so a bounded number of rounds suffices.
    async fn advance_when_idle(&self) {
        loop {
            for _ in 0..QUIET_ROUNDS {
                yield_now().await;
            }
            if let Some(next) = self.alarms.lock().expect("no holder panics").pop_first() {
                self.now_ms.send_modify(|now_ms| *now_ms = next.max(*now_ms));
            }
        }
    }
    fn bits(&self) -> u128 {
        let next = self.random.fetch_add(1, Ordering::Relaxed);
        u128::from(next).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
    }
}

impl Clock for Time {
    fn boot(&self) -> String {
        "boot".to_owned()
    }
    fn since_boot_ms(&self) -> u64 {
        self.ms()
    }
    fn wall_ms(&self) -> i64 {
        1_714_550_400_000
    }
    async fn sleep_until(&self, since_boot_ms: u64) {
        self.until(since_boot_ms).await;
    }
    fn random_uuid(&self) -> Uuid {
        uuid_v4(self.bits())
    }
}

impl Environment for Time {
    /// Zero, so that bags are fetched before the hooks about them, and those awaits are cancelled as well.
    fn inline_settings_bytes_max(&self) -> usize {
        0
    }
    fn wall_ms(&self) -> i64 {
        1_714_550_400_000
    }
    fn monotonic_ms(&self) -> u64 {
        self.ms()
    }
    fn random(&self) -> u128 {
        self.bits()
    }
    async fn sleep_until(&self, monotonic_ms: u64) {
        self.until(monotonic_ms).await;
    }
    async fn store_archive(&self, _: Vec<u8>) -> Result<StoredArchive, ApiError> {
        unreachable!("archives are registered by the trial")
    }
    async fn stored_files(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }
    async fn delete_stored_file(&self, _: &str, _: u64) {}
    async fn stored_file(&self, _: &str) -> Option<Vec<u8>> {
        Some(b"archive".to_vec())
    }
    fn on_store_failure(&self, why: &str) {
        panic!("{why}");
    }
}

/// Every hook increments a counter in the charm's state and in the bag of each relation.
fn count_hook(context: &HookContext) -> HookResult {
    let count = |text: Option<&String>| text.map_or(0, |text| text.parse::<u32>().expect("a number")) + 1;
    let n = count(context.charm_state.get("n")).to_string();
    let mut writes = Writes::default();
    writes.state.insert("n".into(), Some(n.clone()));
    for relation in context.relations.keys() {
        writes.bags.entry(*relation).or_default().unit.insert("n".into(), n.clone());
    }
    HookResult { writes, ..HookResult::without_writes(RunExit::Code(0)) }
}

/// The controller's handlers, with an await before and after each takes effect.
struct Link(AuthenticatedCaller<MemoryStore, Time>);

struct LinkStream(<AuthenticatedCaller<MemoryStore, Time> as Watch<WatchUnit>>::Stream);

impl Stream for LinkStream {
    type Item = UnitWatchEvent;

    async fn next(&mut self) -> Result<UnitWatchEvent, ApiError> {
        let shown = self.0.next().await;
        yield_now().await;
        shown
    }
}

async fn with_yields<T>(call: impl Future<Output = T>) -> T {
    yield_now().await;
    let answer = call.await;
    yield_now().await;
    answer
}

impl<R: Request> Handle<R> for Link
where
    AuthenticatedCaller<MemoryStore, Time>: Handle<R>,
{
    async fn handle(&self, request: R) -> Result<R::Response, ApiError> {
        with_yields(self.0.handle(request)).await
    }
}

impl Watch<WatchUnit> for Link {
    type Stream = LinkStream;

    async fn watch(&self, request: WatchUnit) -> Result<LinkStream, ApiError> {
        with_yields(self.0.watch(request)).await.map(LinkStream)
    }
}

fn charm_with(role: Role) -> Charm {
    let (name, endpoint) = if role == Role::Requirer { ("web", "db") } else { ("db", "server") };
    let interface = "sql".to_owned();
    let endpoint = Endpoint {
        name: endpoint.to_owned(),
        role,
        interface,
        scope: Scope::Global,
        limit: None,
        optional: false,
    };
    Charm { name: name.to_owned(), endpoints: [(endpoint.name.clone(), endpoint)].into(), ..Charm::default() }
}

/// One unit, and the agents that have run for it.
struct SimulatedUnit {
    name: UnitName,
    unit: Uuid,
    disk: MemoryUnit,
}

type Agent = UnitAgent<MemoryUnit, Link, MemoryUnit, Time>;

impl SimulatedUnit {
    fn agent(&self, controller: &Arc<Controller<MemoryStore, Time>>) -> Agent {
        let link = Link(controller.caller(TokenHolder::Unit { model: MODEL, unit: self.unit }));
        let world = (self.disk.clone(), link, self.disk.clone(), controller.environment.clone());
        UnitAgent::new(world, self.disk.local(), None)
    }
}

/// Polls `agent` until it has returned `awaits` times as pending, then drops it. Returns whether it reached that count.
async fn run_until(agent: &Agent, awaits: u64, settled: impl Future<Output = ()>) -> bool {
    let (mut running, mut settled) = (pin!(agent.run()), pin!(settled));
    let mut left = awaits;
    poll_fn(|context| {
        if let Poll::Ready(end) = running.as_mut().poll(context) {
            panic!("the agent ended: {end:?}");
        }
        left = left.saturating_sub(1);
        if left == 0 {
            return Poll::Ready(true);
        }
        settled.as_mut().poll(context).map(|()| false)
    })
    .await
}

/// How a trial has ended.
struct TrialEnd {
    /// Whether the agent of web/0 reached the number of awaits at which it is dropped.
    was_dropped: bool,
    /// The operations of web/0 and of db/0.
    operations: Vec<Vec<Operation>>,
    elapsed_ms: u64,
}

/// Runs one trial; the agent of web/0 is dropped after `awaits`, and another one continues.
async fn run_trial(awaits: u64) -> TrialEnd {
    let time = Time::new();
    let start_ms = time.ms();
    let passing = time.clone();
    let passing = tokio::spawn(async move { passing.advance_when_idle().await });
    let controller = Controller::new(MemoryStore::new(Uuid(77)), time.clone(), Uuid(1));
    let made = controller.run(|draft| {
        state::lifecycle::model::create(draft, MODEL.0, "dev", 1)?;
        archive::register(draft, "web", Some(charm_with(Role::Requirer)), 10);
        archive::register(draft, "db", Some(charm_with(Role::Provider)), 10);
        Ok(())
    });
    made.await.expect("a new store");
    let admin = controller
        .caller(TokenHolder::User { name: "admin".to_owned(), role: UserRole::Admin })
        .in_model("dev");
    let mut units = Vec::new();
    for charm in [Role::Requirer, Role::Provider].map(charm_with) {
        let name = &charm.name;
        let config = BTreeMap::new();
        let deploy = Deploy {
            application: None,
            sha256: name.clone(),
            units: 1,
            to: None,
            config,
            ..Deploy::default()
        };
        admin.handle(deploy).await.expect("it deploys");
        let name = UnitName::new(name, 0);
        let key = MODEL.unit_name(&name);
        let unit = controller.read(move |reader| read(reader, &key)).await.expect("the unit exists");
        let disk = MemoryUnit::new(unit, name.clone(), Arc::new(charm), count_hook);
        units.push(SimulatedUnit { name, unit, disk });
    }
    admin
        .handle(Integrate(Ends { a: "web".to_owned(), b: "db".to_owned() }))
        .await
        .expect("the endpoints are compatible");
    let [web, db] = &units[..] else { unreachable!("two were deployed") };

    // every hook changes both bags, so the units trigger each other without end: the trial ends at a count
    let both_have = |count: usize| {
        let (web, db, time) = (web.disk.clone(), db.disk.clone(), time.clone());
        async move {
            while web.finished().len() < count || db.finished().len() < count {
                let now_ms = time.ms();
                assert!(now_ms < 400_000, "stands still: {:?} {:?}", web.finished(), db.finished());
                time.until(now_ms + 10).await;
            }
        }
    };
    let other = db.agent(&controller);
    let mut other = pin!(other.run());
    let mut both = pin!(async {
        let first = web.agent(&controller);
        let was_dropped = run_until(&first, awaits, both_have(12)).await;
        drop(first);
        if was_dropped {
            run_until(&web.agent(&controller), u64::MAX, both_have(12)).await;
        }
        was_dropped
    });
    let was_dropped = poll_fn(|context| {
        if let Poll::Ready(end) = other.as_mut().poll(context) {
            panic!("the other agent ended: {end:?}");
        }
        both.as_mut().poll(context)
    })
    .await;

    let elapsed_ms = time.ms() - start_ms;
    passing.abort();
    for simulated in &units {
        let (local, hooks) = (simulated.disk.local(), simulated.disk.hooks());
        assert_eq!(local.charm_state["n"], hooks.to_string(), "{}: each hook counts once", simulated.name);
        let key = MODEL.replica(simulated.unit);
        let replica = controller.read(move |reader| read(reader, &key)).await.expect("it committed");
        let behind = local.outbox.len() as u64;
        assert!(replica.local.sequence + behind >= local.sequence, "nothing is lost on the way");
    }
    let operations = units.iter().map(|simulated| simulated.disk.finished()).collect();
    TrialEnd { was_dropped, operations, elapsed_ms }
}

fn run_blocking(awaits: u64) -> TrialEnd {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(run_trial(awaits))
}

#[test]
fn an_agent_dropped_at_any_await_resumes_its_work() {
    let undisturbed = run_blocking(u64::MAX);
    assert!(!undisturbed.was_dropped);
    let mut awaits = 1;
    loop {
        let end = run_blocking(awaits);
        if !end.was_dropped {
            break;
        }
        assert!(end.elapsed_ms < undisturbed.elapsed_ms + LOST_WAKEUP_MS, "dropped at await {awaits}");
        for (operations, undisturbed) in end.operations.iter().zip(&undisturbed.operations) {
            // the versions of the settings may differ, which an operation's name does not contain
            let names = |all: &[Operation]| all.iter().take(9).map(Operation::to_string).collect::<Vec<_>>();
            assert_eq!(names(operations), names(undisturbed), "dropped at await {awaits}");
        }
        awaits += 1;
    }
    println!("{awaits} awaits");
    assert!(awaits > 100, "only {awaits} awaits: nothing was tested");
}
