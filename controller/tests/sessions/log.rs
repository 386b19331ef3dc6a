//! The log of a model: its order, its filters and its bound.

use crate::support::*;
use api::{Handle, LogQuery, Report};
use controller::janitor::MODEL_LOG_LINES_MAX;
use state::documents::draft::{Draft, Reader};
use state::documents::keys::LogDoc;
use state::terms::names::{UnitName, Uuid};
use state::unit::hook::{Level, ReportContent};
use state::unit::record::RunReport;

#[tokio::test]
async fn log_lines_are_returned_in_the_order_in_which_they_were_stored() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 2).await;
    let (a, b) = (fixture.attach_agent("web/0").await, fixture.attach_agent("web/1").await);
    let log_line = |call: u32, level: Level, text: &str| RunReport {
        call,
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
    assert_eq!(
        (all.lines[1].entity.as_str(), all.lines[1].module.as_str()),
        ("unit-web-0", "unit.web/0.juju-log")
    );
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

#[tokio::test]
async fn a_models_log_keeps_its_newest_lines() {
    let fixture = Fixture::in_memory().await;
    let model = fixture.model;
    let unit = UnitName::new("web", 0);
    let line = LogDoc { at_ms: 1, level: Level::Info, module: "m".into(), unit, text: "t".into() };
    // Lines of run 1 are the oldest; keys of later runs sort after them.
    let runs = (MODEL_LOG_LINES_MAX / 50 + 1) as u64;
    for run in 1..=runs {
        let line = line.clone();
        let write = move |draft: &mut Draft<'_>| {
            (0..50).for_each(|call| draft.put(&model.log(Uuid(1), run, call), &line));
            Ok(())
        };
        fixture.controller.run(write).await.expect("written");
    }
    fixture.sweep_all_logs().await;
    let (count, first) = fixture
        .controller
        .read(move |reader: &dyn Reader| {
            let lines = reader.scan(&model.logs(), "", usize::MAX);
            (lines.len(), lines[0].key.clone())
        })
        .await;
    assert_eq!((count, first), (MODEL_LOG_LINES_MAX, model.log(Uuid(1), 2, 0).text().to_owned()));
}
