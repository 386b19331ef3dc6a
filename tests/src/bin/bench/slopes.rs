//! Measures whether the cost of single operations grows with the size of the model: one scope entry, one settings write,
//! one added unit, one removal and one `show-unit`, in models of three sizes. A cost that does not depend on the size has
//! the ratio 1.
//!
//! The operations go through the handlers of a controller on SQLite, without HTTP. All units are in one relation with an
//! application that has no units, so that a scope entry is the next of thousands.

use super::filled_model::{self, BenchAgent, MODEL, fill};
use super::{Admin, at, open, related_model};
use api::{Handle, RemoveUnit, ShowUnit, UnitChoice};
use state::documents::draft::read;
use state::terms::names::{UnitName, Uuid};
use state::terms::operation::Operation;
use state::unit::writes::{BagWrites, Writes};
use std::fs;
use std::path::Path;
use std::time::Instant;

/// The numbers of units.
const SIZES: [u32; 3] = [100, 1_000, 10_000];
const ROUNDS: usize = 40;
/// What is measured, in the order of the columns of [`of_size`].
const OPERATIONS: [&str; 5] =
    ["one added unit", "one scope entry", "one settings write", "one show-unit", "one removal"];

/// Prints the median of each operation at each size, and the ratios between the sizes.
pub fn bench(dir: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let medians = SIZES.map(|units| {
        let folder = dir.join(format!("slopes-{units}"));
        fs::create_dir_all(&folder).expect("it is our folder");
        runtime.block_on(of_size(&folder, units))
    });
    let [small, middle, large] = medians;
    for (index, name) in OPERATIONS.iter().enumerate() {
        let (small, middle, large) = (small[index], middle[index], large[index]);
        println!(
            "{name}: {small:.2} ms with {} units, {middle:.2} ms with {} ({:.2} times), {large:.2} ms with {} ({:.2} times)",
            SIZES[0],
            SIZES[1],
            middle / small,
            SIZES[2],
            large / small
        );
    }
}

/// The medians of the operations with this many units, in milliseconds.
async fn of_size(folder: &Path, units: u32) -> [f64; OPERATIONS.len()] {
    let store = open(folder);
    let admin = related_model(&store, &folder.join("archives")).await;
    let first = fill(&admin, units).await[0];
    let replica = admin.controller.read(move |reader| read(reader, &MODEL.replica(first))).await;
    let relations = replica.expect("it has run").local.relations;
    let relation = *relations.keys().next().expect("it has entered one");
    let mut times: [Vec<f64>; OPERATIONS.len()] = Default::default();
    for round in 0..ROUNDS {
        let begin = Instant::now();
        let name = filled_model::add(&admin, 1).await.remove(0);
        times[0].push(ms(begin));
        let mut agent = BenchAgent::attach(&admin.controller, uuid(&admin, &name).await).await;
        let entry = agent.run_until(|next| matches!(next, Operation::EnterScope { .. })).await;
        let entry = entry.expect("the unit enters the relation");
        let begin = Instant::now();
        agent.commit(entry, Writes::default()).await;
        times[1].push(ms(begin));
        let hook = agent.run_until(|next| matches!(next, Operation::Hook(_))).await;
        let hook = hook.expect("relation-created follows");
        let change = [("round".to_owned(), round.to_string())].into();
        let own = BagWrites { unit: change, ..BagWrites::default() };
        let begin = Instant::now();
        agent.commit(hook, Writes { bags: [(relation, own)].into(), ..Writes::default() }).await;
        times[2].push(ms(begin));
        let begin = Instant::now();
        let shown = admin.handle(ShowUnit { unit: UnitChoice::Name(name) }).await.expect("it exists");
        times[3].push(ms(begin));
        assert_eq!(shown.relations[0].local_unit.data.get("round"), Some(&round.to_string()));
        // a unit that no agent has attached to is removed at once
        let unit = filled_model::add(&admin, 1).await.remove(0);
        let begin = Instant::now();
        let remove = RemoveUnit { unit: unit.clone(), force: Default::default(), destroy_storage: false };
        admin.handle(remove).await.expect("it exists");
        times[4].push(ms(begin));
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        at(&times, 50)
    })
}

fn ms(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1000.0
}

async fn uuid(admin: &Admin, name: &UnitName) -> Uuid {
    let key = MODEL.unit_name(name);
    admin.controller.read(move |reader| read(reader, &key)).await.expect("it exists")
}
