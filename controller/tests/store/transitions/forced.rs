//! The transitions of forced removals, each once on the store under test.

use super::*;
use state::transitions::force_timer::{TimerTime, timer_started_ms};

/// Removes a unit, its relation, the related application with its unit, and the machine of that unit by force. No agent
/// acts.
pub(super) async fn force_removal<S: Store>(fixture: &mut Fixture<'_, S>) {
    for (name, sha256) in [("front", "w2"), ("back", "d1")] {
        fixture.deploy(name, sha256).await;
    }
    fixture
        .call("relation::add", |draft| relation::add(draft, MODEL, ["front", "back"], Uuid(70), 1).map(drop))
        .await;
    let (front, back) = (fixture.unit("front/0").await, fixture.unit("back/0").await);
    let (application, machine) = (fixture.application("back").await, fixture.machine_of_unit(back).await);
    for name in ["front/0", "back/0"] {
        fixture.attach(name).await;
    }
    for unit in [front, back] {
        let ids = fixture.ids();
        fixture
            .call("scope::enter", move |draft| {
                scope::enter(
                    draft,
                    MODEL,
                    unit,
                    Uuid(70),
                    &BTreeMap::new(),
                    Creation { now_ms: 1, ids: &mut ids() },
                )
            })
            .await;
    }
    let force = Force::AtOnce;
    fixture.call("unit::destroy", move |draft| unit::destroy(draft, MODEL, front, 60).map(drop)).await;
    fixture
        .call("force_timer::start_budget_timer", move |draft| {
            force_timer::start_budget_timer(draft, MODEL, front, 1_000, 1);
            Ok(())
        })
        .await;
    fixture
        .call("force_timer::store_timers", move |draft| {
            force_timer::store_timers(
                draft,
                MODEL,
                &[ForceTimer { id: front, timer_started_ms: 1, waited_ms: 500 }],
            );
            Ok(())
        })
        .await;
    fixture
        .call("force::destroy_unit", move |draft| {
            force::destroy_unit(draft, MODEL, front, force, 9).map(drop)
        })
        .await;
    fixture
        .call("force::destroy_relation", move |draft| {
            force::destroy_relation(draft, MODEL, Uuid(70), force, 9).map(drop)
        })
        .await;
    fixture
        .call("force::destroy_application", move |draft| {
            force::destroy_application(draft, MODEL, application, force, 9).map(drop)
        })
        .await;
    fixture
        .call("force::destroy_machine", move |draft| force::destroy_machine(draft, MODEL, machine, force, 9))
        .await;
    // The unit is fenced, leaves its scopes, becomes Dead and is removed. Then follow the relation, and the application,
    // which waits for its unit, and the machine.
    for (id, batches) in [(front, 4), (Uuid(70), 2), (application, 2), (back, 3), (application, 1)] {
        for _ in 0..batches {
            fixture
                .call("force::force_batch", move |draft| force::force_batch(draft, MODEL, id, 9).map(drop))
                .await;
        }
    }
    for _ in 0..2 {
        fixture
            .call("force::timed_force_batch", move |draft| {
                let forced = draft.get(&MODEL.forced_removal(machine)).expect("it is not removed yet");
                let at = TimerTime { timer_started_ms: timer_started_ms(&forced), now_ms: 9 };
                force::timed_force_batch(draft, MODEL, machine, at).map(drop)
            })
            .await;
    }
    assert_eq!(
        fixture.all(Kind::ForcedRemoval).await,
        [machine],
        "the provider has not released its instance yet"
    );
}
