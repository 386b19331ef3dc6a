//! Prints the documents that clients parse, made of the sample model of the tests: one JSON map, by the command that
//! answers with each. `tests/jubilant/parse_status.py` gives them to jubilant.

#[path = "../tests/common/mod.rs"]
mod common;

use api::operator::StatusInfo;
use cli::commands::show_model;
use cli::render::{application_config, status_json, task, unit};
use cli::times::Zone;
use common::*;
use serde_json::{Map, Value, json};

fn main() {
    let zone = Zone::new(false);
    let mut bare = sample();
    bare.applications.clear();
    bare.machines.clear();
    bare.model.status = StatusInfo::default();
    let (name, failed) = (sample_unit().name.to_string(), {
        let mut task = sample_task();
        task.status = "failed".to_owned();
        task.message = "the book is frozen".to_owned();
        task.results.insert("return-code".to_owned(), json!(1));
        task
    });
    let named = |name: &str, value: Value| Value::Object(Map::from_iter([(name.to_owned(), value)]));
    let documents = json!({
        "status": status_json::document(&sample(), &zone),
        "status of an empty model": status_json::document(&bare, &zone),
        "show-unit": named(&name, unit::document(&sample_unit(), &unit::Parts::default())),
        "config": application_config::document(&sample_config()),
        "show-model": named("dev", show_model::document(&sample_model(), &sample())),
        "run": named(&name, task::document(&sample_task())),
        "run that fails": named(&name, task::document(&failed)),
    });
    println!("{documents}");
}
