//! Tests of what two controllers tell each other, without etcd.

use super::super::*;
use super::*;
use crate::store::shared_presence::Stated;
use state::terms::activity::Activity;
use state::terms::health::{ProcessEnd, UnitAgentExit};
use state::terms::hook_name::HookName;

const UNIT: Uuid = Uuid(1);

/// The statements about one agent, as two controllers exchange them.
struct Scene {
    controllers: [Presence; 2],
    /// By topic: the controller that has stated it, and the statement.
    stated: BTreeMap<Topic, (usize, Statement, Revision)>,
    revision: Revision,
    /// Whether the first controller is cut off.
    is_cut_off: bool,
}

impl Scene {
    fn new() -> Scene {
        let controllers = [Presence::new(0), Presence::new(0)];
        controllers.iter().for_each(Presence::share);
        Scene { controllers, stated: BTreeMap::new(), revision: 0, is_cut_off: false }
    }

    fn known_to(&self, to: usize, topic: Topic) -> Option<Stated> {
        let (by, statement, revision) = self.stated.get(&topic)?.clone();
        Some(Stated { statement, is_own: by == to, revision })
    }

    fn deliver(&self, to: usize, topic: Topic, now_ms: u64) {
        if to == 1 || !self.is_cut_off {
            self.controllers[to].receive(UNIT, topic, self.known_to(to, topic).as_ref(), now_ms);
        }
    }

    /// A controller states what it knows.
    fn state(&mut self, by: usize, now_ms: u64) {
        for (_, wanted) in self.snapshot(by, now_ms).wanted() {
            let topic = wanted.topic();
            let Some(change) = wanted.change(self.known_to(by, topic).as_ref()) else { continue };
            self.revision += 1;
            match change {
                Some(statement) => drop(self.stated.insert(topic, (by, statement, self.revision))),
                None => drop(self.stated.remove(&topic)),
            }
            [0, 1].into_iter().for_each(|to| self.deliver(to, topic, now_ms));
        }
    }

    /// The lease of the first controller ends.
    fn end_first(&mut self, now_ms: u64) {
        let ended: Vec<Topic> =
            self.stated.iter().filter(|(_, (by, ..))| *by == 0).map(|(topic, _)| *topic).collect();
        for topic in ended {
            self.stated.remove(&topic);
            [0, 1].into_iter().for_each(|to| self.deliver(to, topic, now_ms));
        }
    }

    fn snapshot(&self, of: usize, now_ms: u64) -> PresenceSnapshot {
        self.controllers[of].snapshot(now_ms, 0)
    }

    fn executing(&self, of: usize) -> Option<u64> {
        self.snapshot(of, 5_000).executing(UNIT).map(|executing| executing.run)
    }
}

fn run(number: u64) -> Option<ExecutingRun> {
    Some(ExecutingRun { run: number, activity: Activity::hook(HookName::UpdateStatus), since_ms: 5 })
}

/// The agent reports what it runs to the controller to which it moves; an idle one reports nothing.
#[test]
fn what_an_agent_has_run_ends_with_its_controller() {
    let mut scene = Scene::new();
    scene.controllers[0].set_executing(UNIT, run(5), 1_000);
    scene.state(0, 1_000);
    assert_eq!(scene.executing(1), Some(5));
    scene.controllers[0].clear_executing(UNIT, 5); // the controller dies before it states that
    scene.end_first(2_000);
    assert_eq!(scene.executing(1), None);
    scene.state(1, 2_000);
    scene.controllers[1].record_request(UNIT, 3_000);
    assert_eq!(scene.executing(1), None);
}

#[test]
fn an_older_statement_brings_no_run_back_whose_record_was_applied() {
    let mut scene = Scene::new();
    scene.controllers[0].set_executing(UNIT, run(5), 1_000);
    scene.state(0, 1_000);
    scene.controllers[1].clear_executing(UNIT, 5); // the agent has moved
    scene.controllers[1].record_request(UNIT, 2_000);
    // before the first controller learns that, it states something else that it knows of the agent
    scene.controllers[0].set_missing_file(UNIT, Some("digest".to_owned()));
    scene.state(0, 2_000);
    assert_eq!(scene.executing(1), None);
    scene.controllers[1].set_executing(UNIT, run(5), 3_000); // a repeated report
    assert_eq!(scene.executing(1), None);
    scene.controllers[1].set_executing(UNIT, run(6), 4_000);
    assert_eq!(scene.executing(1), Some(6));
}

/// 1. The controller of a machine agent is cut off, and its statements end. 2. The machine agent moves: it observes no problem
///    any more, and reports none. 3. The first controller comes back with the report that it has.
#[test]
fn a_report_of_a_controller_that_was_cut_off_does_not_come_back() {
    let mut scene = Scene::new();
    let health = UnitHealth { set_aside: vec!["runs.yaml".to_owned()], ..UnitHealth::default() };
    scene.controllers[0].set_health(UNIT, Some(health), 1_000);
    scene.state(0, 1_000);
    let shown = |scene: &Scene| [0, 1].map(|of| scene.snapshot(of, 9_000).health(UNIT).is_some());
    assert_eq!(shown(&scene), [true, true]);
    scene.is_cut_off = true;
    scene.end_first(2_000);
    scene.controllers[1].set_health(UNIT, None, 3_000);
    scene.state(1, 3_000);
    scene.is_cut_off = false;
    scene.deliver(0, Topic::Health, 4_000);
    scene.state(0, 4_000);
    scene.state(1, 4_000);
    assert_eq!(shown(&scene), [false, false]);
}

/// 1. The process of an agent has ended, and the next one has sent requests to the first controller. 2. That one dies.
#[test]
fn the_end_of_a_process_stays_outdated_when_the_controller_of_its_agent_ends() {
    let mut scene = Scene::new();
    let exit = UnitAgentExit {
        end: ProcessEnd::Code(101),
        fault: None,
        last_error: None,
        since_ms: 1,
        at_ms: 1,
        count: 1,
    };
    let health = UnitHealth { exit: Some(exit), ..UnitHealth::default() };
    scene.controllers[1].set_health(UNIT, Some(health), 1_000);
    scene.state(1, 1_000);
    let shown = |scene: &Scene| scene.snapshot(1, 9_000).health(UNIT).is_some();
    assert!(shown(&scene));
    scene.controllers[0].record_request(UNIT, 2_000);
    scene.state(0, 2_000);
    assert!(!shown(&scene));
    scene.end_first(3_000);
    assert!(!scene.snapshot(1, 9_000).has_reported(UNIT));
    assert!(!shown(&scene));
}

/// A run that ends while documents are read may be in neither them nor what is known afterwards, and the boot of an attach in
/// neither them nor what was known before.
#[test]
fn a_view_finds_the_runs_before_it_reads_and_the_boots_after() {
    let attached = BootChange::Attached("second".to_owned());
    let seen = |is_shared: bool| {
        let presence = Presence::new(0);
        if is_shared {
            presence.share();
        }
        presence.set_executing(UNIT, run(5), 1_000);
        let before = presence.before_read(1_000, 0);
        presence.clear_executing(UNIT, 5);
        presence.change_boots(UNIT, &attached, 7);
        let snapshot = presence.snapshot_when_read(before);
        (snapshot.executing(UNIT).map(|executing| executing.run), snapshot.boot(UNIT))
    };
    assert_eq!(seen(true), (Some(5), "second".to_owned()));
    assert_eq!(seen(false).0, Some(5));
}
