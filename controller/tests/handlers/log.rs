//! The log of a model: its order, its filters and its bound.

use crate::support::*;
use api::{Handle, LogQuery, Report};
use controller::janitor::Janitor;
use controller::store::Store;
use state::documents::draft::{Draft, Reader};
use state::documents::prelude::{LogDoc, LogSource, TokenHolder};
use state::terms::names::{UnitName, Uuid};
use state::transitions::log_retention::{DEBUG_LOG_BYTES_MAX, line_bytes};
use state::unit::hook_context::{Level, ReportContent};
use state::unit::record::RunReport;
use test_support::memory_store::MemoryStore;

#[tokio::test]
async fn log_lines_are_returned_in_the_order_in_which_they_were_stored() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 2).await;
    let (a, b) = (fixture.attach_agent("web/0").await, fixture.attach_agent("web/1").await);
    let log_line = |call: u32, level: Level, text: &str| RunReport {
        number: call,
        at_ms: 100 - i64::from(call),
        what: ReportContent::Log { level, text: text.to_owned() },
    };
    let report = |reports| Report { epoch: 1, run: 1, reports, executing: None, executing_for_ms: 0 };
    b.api.handle(report(vec![log_line(1, Level::Info, "one")])).await.expect("the request is accepted");
    a.api
        .handle(report(vec![log_line(1, Level::Warning, "two"), log_line(2, Level::Info, "three")]))
        .await
        .expect("the request is accepted");
    let texts = |page: &api::LogPage| page.lines.iter().map(|l| l.text.clone()).collect::<Vec<_>>();
    let all = fixture.admin.handle(LogQuery::default()).await.expect("a page");
    assert_eq!(texts(&all), ["one", "two", "three"]);
    assert_eq!((&all.lines[1].unit, &all.lines[1].source), (&UnitName::new("web", 0), &LogSource::JujuLog));
    let query = LogQuery { level: Some(Level::Warning), ..LogQuery::default() };
    assert_eq!(texts(&fixture.admin.handle(query).await.expect("a page")), ["two"]);
    let query = LogQuery { newest: Some(1), ..LogQuery::default() };
    assert_eq!(texts(&fixture.admin.handle(query).await.expect("a page")), ["three"]);
    let query = LogQuery { include: vec!["web/1".into()], ..LogQuery::default() };
    assert_eq!(texts(&fixture.admin.handle(query).await.expect("a page")), ["one"]);

    let query = LogQuery { after: Some(all.cursor), wait: true, ..LogQuery::default() };
    let tail = fixture.admin.handle(query);
    let append = async {
        b.api.handle(report(vec![log_line(2, Level::Info, "four")])).await.expect("the request is accepted")
    };
    let (page, ()) = tokio::join!(tail, append);
    assert_eq!(texts(&page.expect("a page")), ["four"], "only what is new");
}

/// A page has 1,000 lines: 20 runs of 60 lines are two pages, by the change log as well as by a scan.
#[tokio::test]
async fn the_pages_of_a_long_log_have_each_line_once() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let agent = fixture.attach_agent("web/0").await;
    let line = |run: u64, number: u32| RunReport {
        number,
        at_ms: 1,
        what: ReportContent::Log { level: Level::Info, text: format!("{run} {number}") },
    };
    for run in 1..=20 {
        let reports = (1..=60).map(|number| line(run, number)).collect();
        let report = Report { epoch: 1, run, reports, executing: None, executing_for_ms: 0 };
        agent.api.handle(report).await.expect("the request is accepted");
    }
    let (mut texts, mut query) = (Vec::new(), LogQuery::default());
    loop {
        let page = fixture.admin.handle(query).await.expect("a page");
        texts.extend(page.lines.into_iter().map(|line| line.text));
        if !page.more {
            break;
        }
        query = LogQuery { after: Some(page.cursor), ..LogQuery::default() };
    }
    let expected: Vec<String> =
        (1..=20).flat_map(|run| (1..=60).map(move |number| format!("{run} {number}"))).collect();
    assert_eq!(texts, expected);
}

/// Returns a report of 60 lines of 4 KB. Five such reports are more than a log may grow by before it is measured.
pub fn large_report(run: u64) -> Report {
    let what = ReportContent::Log { level: Level::Info, text: "t".repeat(4_000) };
    let reports = (1..=60).map(|call| RunReport { number: call, at_ms: 1, what: what.clone() }).collect();
    Report { epoch: 1, run, reports, executing: None, executing_for_ms: 0 }
}

/// Whether a request has woken the janitor.
async fn is_janitor_awake(fixture: &Fixture<MemoryStore, FakeEnvironment>) -> bool {
    tokio::select! { biased; () = fixture.controller.wait_for_sweep(u64::MAX) => true, () = async {} => false }
}

/// Stores log lines of some 4 KiB for a unit: 20 in each of `runs` runs.
pub async fn write_lines<S: Store>(
    fixture: &Fixture<S, FakeEnvironment>,
    id: Uuid,
    runs: std::ops::RangeInclusive<u64>,
) {
    let (model, unit, text) = (fixture.model, UnitName::new("web", 0), "t".repeat(4_000));
    let line = LogDoc { at_ms: 1, level: Level::Info, unit, source: LogSource::JujuLog, text };
    for run in runs {
        let line = line.clone();
        let write = move |draft: &mut Draft<'_>| {
            (0..20).for_each(|call| draft.put(&model.log(id, run, call), &line));
            Ok(())
        };
        fixture.controller.run(write).await.expect("written");
    }
}

/// Returns the bytes of a unit's lines, and the key of the oldest line.
pub async fn stored_lines<S: Store>(fixture: &Fixture<S, FakeEnvironment>, unit: Uuid) -> (u64, String) {
    let prefix = fixture.model.logs_of(unit);
    let scan = move |reader: &dyn Reader| reader.scan(&prefix, "", usize::MAX);
    let (lines, _) = fixture.controller.store.read_available(scan).await;
    (lines.iter().map(line_bytes).sum(), lines[0].key.clone())
}

#[tokio::test]
async fn a_flood_of_one_unit_evicts_only_its_own_oldest_lines() {
    let fixture = Fixture::in_memory().await;
    let model = fixture.model;
    let (quiet, flood) = (Uuid(1), Uuid(2));
    // 20 lines of 4 KiB are 80 KiB: the flood alone exceeds the bound by some 20 %.
    write_lines(&fixture, quiet, 1..=2).await;
    write_lines(&fixture, flood, 1..=125).await;
    let (before, _) = stored_lines(&fixture, quiet).await;
    fixture.run_janitor().await;
    assert_eq!(stored_lines(&fixture, quiet).await, (before, model.log(quiet, 1, 0).text().to_owned()));
    let (bytes, oldest) = stored_lines(&fixture, flood).await;
    let room = DEBUG_LOG_BYTES_MAX - before;
    assert!(bytes <= room && bytes > room - 8_192, "{bytes} of {room}");
    assert!(oldest.as_str() > model.log(flood, 20, 0).text(), "the oldest lines were deleted: {oldest}");
}

#[tokio::test]
async fn a_fast_flood_is_measured_without_pauses() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let agent = fixture.attach_agent("web/0").await;
    let unit = fixture.unit("web/0").await;
    write_lines(&fixture, unit, 1..=125).await;
    let mut janitor = Janitor::default();
    assert_eq!(janitor.sweep(&fixture.controller).await, Ok(false), "nothing tells that the log is large");
    for run in 200..206 {
        agent.api.handle(large_report(run)).await.expect("the request is accepted");
    }
    let mut sweeps = 0;
    while janitor.sweep(&fixture.controller).await.expect("the sweep succeeds") {
        sweeps += 1;
    }
    assert!(sweeps > 0, "the next page is read at once");
    assert!(stored_lines(&fixture, unit).await.0 <= DEBUG_LOG_BYTES_MAX);
}

#[tokio::test]
async fn only_lines_that_were_stored_wake_the_janitor() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let fenced = fixture.attach_agent("web/0").await;
    let session = TokenHolder::Unit { model: fixture.model, unit: fixture.unit("web/0").await };
    let agent = Agent::attach(fixture.controller.caller(session), 2).await;
    for run in 200..206 {
        fenced.api.handle(large_report(run)).await.expect_err("a newer agent is attached");
    }
    assert!(!is_janitor_awake(&fixture).await, "refused reports store nothing");
    for _ in 0..6 {
        let report = Report { epoch: agent.epoch, ..large_report(200) };
        agent.api.handle(report).await.expect("the request is accepted");
    }
    assert!(!is_janitor_awake(&fixture).await, "the same lines are stored once");
    for run in 201..206 {
        let report = Report { epoch: agent.epoch, ..large_report(run) };
        agent.api.handle(report).await.expect("the request is accepted");
    }
    assert!(is_janitor_awake(&fixture).await);
}

/// Each sweep deletes at most a thousand lines, and half of the sweeps measure. The flood stores as many in each of them.
#[tokio::test]
async fn a_flood_that_is_faster_than_the_janitor_is_bounded_at_each_commit_and_its_lost_lines_are_counted() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let agent = fixture.attach_agent("web/0").await;
    let unit = fixture.unit("web/0").await;
    let mut janitor = Janitor::default();
    for round in 0..12 {
        for run in 1..=16 {
            agent.api.handle(large_report(round * 16 + run)).await.expect("the request is accepted");
        }
        let (bytes, _) = stored_lines(&fixture, unit).await;
        assert!(bytes <= 2 * DEBUG_LOG_BYTES_MAX, "{bytes} bytes in round {round}");
        janitor.sweep(&fixture.controller).await.expect("the sweep succeeds");
    }
    fixture.run_janitor().await;
    agent.api.handle(large_report(1_000)).await.expect("the request is accepted");
    let counted = fixture.model.dropped_lines(unit, 1_000, 1).text().to_owned();
    assert!(fixture.controller.read(move |reader| reader.get(&counted).is_some()).await);
}
