//! The transitions of agents and users while all entities are Alive.

use super::*;

/// Runs the transitions of agents and users while all entities are Alive.
pub(super) async fn run_units<S: Store>(fixture: &mut Fixture<'_, S>) {
    let mut local = fixture.attach("web/0").await;
    let unit = local.unit;
    let machine = fixture.machine_of_unit(unit).await;
    fixture
        .call("assigned_units::set_token", move |draft| {
            assigned_units::set_token(draft, MODEL, machine, unit, "zeroth")
        })
        .await;
    // the second token revokes the first one
    for sha256 in ["first", "second"] {
        fixture
            .call("token::set", move |draft| {
                token::set(draft, unit, &TokenHolder::Unit { model: MODEL, unit }, sha256)
            })
            .await;
    }
    fixture.done(&mut local, Operation::InstallCharm(charm_ref("w2"))).await;
    fixture.done(&mut local, Operation::Hook(Hook::Install)).await;
    let local_endpoint = LocalEndpoint {
        endpoint: "db".into(),
        interface: "sql".into(),
        peer: false,
        implicit: false,
        remote_application: "db".into(),
    };
    let number =
        fixture.store.read(|reader| read(reader, &MODEL.relation(Uuid(50)))).await.expect("it exists").number;
    let settings = BTreeMap::from([("private-address".to_owned(), "127.0.0.1".to_owned())]);
    fixture
        .done(
            &mut local,
            Operation::EnterScope { relation: number, uuid: Uuid(50), local_endpoint, settings },
        )
        .await;
    fixture
        .call("leadership::claim", move |draft| leadership::claim(draft, MODEL, unit, false).map(drop))
        .await;
    let change = BTreeMap::from([("key".to_owned(), "value".to_owned())]);
    let (session, write) = (session_of(&local), LeaderWrite { generation: 1, run: 1, call: 1, change });
    fixture
        .call("leader_settings::write", move |draft| leader_settings::write(draft, session, &write).map(drop))
        .await;
    let mut written = local.record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok, 1000);
    let bag = BTreeMap::from([("key".to_owned(), "value".to_owned())]);
    written.writes = Writes {
        bags: BTreeMap::from([(number, BagWrites { unit: bag.clone(), application: bag })]),
        ..Writes::default()
    };
    fixture.commit(&mut local, written).await;
    let reports = [RunReport {
        number: 1,
        at_ms: 1,
        what: ReportContent::Log { level: Level::Info, text: "hello".into() },
    }];
    let run = local.run + 1;
    fixture
        .call("record_commit::apply_report", move |draft| {
            let report = EarlyReport { run, reports: reports.to_vec(), executing: None, executing_for_ms: 0 };
            let report = Valid::report(report)?;
            record_commit::apply_report(draft, session, &report, LogLines::ALL, 1).map(drop)
        })
        .await;
    // the unit leaves the scope and enters it again
    let mut full = Local { outbox: Vec::new(), ..local.clone() };
    let empty = Local { relations: BTreeMap::new(), ..full.clone() };
    // The resync has more relations than one batch may contain.
    let one = full.relations[&number].clone();
    full.relations.extend((1000..1020).map(|number| (number, one.clone())));
    for (batch, memory) in [(ResyncProgress::default(), empty), (ResyncProgress::Enter { after: None }, full)]
    {
        let mut again = local.record(Operation::Resync, Outcome::Ok, 1000);
        again.resync_local = Some(Box::new(memory));
        let ids = fixture.ids();
        fixture
            .call("resync::apply_batch", move |draft| {
                let again = Valid::record(again.clone())?;
                let part = resync::ResyncBatch { record: &again, position: &batch };
                resync::apply_batch(draft, session, part, created(&mut ids())).map(drop)
            })
            .await;
    }
    fixture
        .call("record_commit::record_refused", move |draft| {
            let reason = TransactionRefusal::TooManyReads { count: 101, max: 100 }.into();
            let refused = RefusedRecord { sequence: 1, run: 1, reason: &reason };
            record_commit::record_refused(draft, session, refused, 1)
        })
        .await;
    let failed = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    let failed = local.record(Operation::Hook(Hook::UpdateStatus), failed, 1000);
    fixture.commit(&mut local, failed).await;
    fixture.call("unit::resolved", move |draft| unit::resolved(draft, MODEL, unit, true)).await;
    for _ in 0..2 {
        fixture
            .call("action::enqueue", move |draft| {
                action::enqueue(draft, MODEL, unit, "backup", &Default::default(), 1).map(drop)
            })
            .await;
    }
    let exec = move |draft: &mut Draft<'_>| action::enqueue_exec(draft, MODEL, unit, "true", 1).map(drop);
    fixture.call("action::enqueue_exec", exec).await;
    let join = move |draft: &mut Draft<'_>| {
        let enqueued = action::enqueue_exec(draft, MODEL, unit, "true", 1)?;
        action::add_to_operation(draft, MODEL, enqueued, 1).map(drop)
    };
    fixture.call("action::add_to_operation", join).await;
    let exec =
        move |draft: &mut Draft<'_>| action::enqueue_machine_exec(draft, MODEL, machine, "true", 1).map(drop);
    fixture.call("action::enqueue_machine_exec", exec).await;
    fixture.call("action::cancel", move |draft| action::cancel(draft, MODEL, 2, 2).map(drop)).await;
    fixture
        .call("action::delete_completed", move |draft| {
            action::delete_completed(draft, &[MODEL.action(2).text().to_owned()]);
            Ok(())
        })
        .await;
    fixture
        .call("action::start", move |draft| {
            action::start(draft, MODEL, unit, 1, 2);
            Ok(())
        })
        .await;
    fixture
        .call("leader_claim::answer", move |draft| {
            leader_claim::answer(draft, session, true, false).map(drop)
        })
        .await;
    fixture
        .call("leadership::claim", move |draft| leadership::claim(draft, MODEL, unit, false).map(drop))
        .await;
    fixture
        .call("leadership::release", move |draft| {
            leadership::release(draft, MODEL, unit);
            Ok(())
        })
        .await;
    let web = fixture.application("web").await;
    let set = BTreeMap::from([("port".to_owned(), "80".to_owned())]);
    fixture
        .call("application_settings::configure", move |draft| {
            application_settings::configure(draft, MODEL, web, &set, &[])
        })
        .await;
    fixture
        .call("application_settings::set_trust", move |draft| {
            application_settings::set_trust(draft, MODEL, web, true);
            Ok(())
        })
        .await;
    fixture
        .call("application_settings::set_exposed", move |draft| {
            application_settings::set_exposed(draft, MODEL, web, true);
            Ok(())
        })
        .await;
    fixture
        .call("constraints::set", move |draft| {
            let wanted = "mem=8G".parse().expect("they are valid");
            constraints::set(draft, MODEL, Some("web"), &wanted)
        })
        .await;
    // The following transitions are called directly, not as parts of a record.
    let db = fixture.unit("db/0").await;
    // db/0 creates its subordinate unit
    for relation in [50, 52] {
        let ids = fixture.ids();
        fixture
            .call("scope::enter", move |draft| {
                scope::enter(
                    draft,
                    MODEL,
                    db,
                    Uuid(relation),
                    &BTreeMap::new(),
                    Creation { now_ms: 1, ids: &mut ids() },
                )
            })
            .await;
    }
    fixture.unit("log/0").await;
    fixture
        .call("relation::suspend", |draft| relation::suspend(draft, MODEL, Uuid(50), "for a while", 1))
        .await;
    fixture.call("relation::resume", |draft| relation::resume(draft, MODEL, Uuid(50))).await;
}
