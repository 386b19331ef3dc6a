//! The tables of `status`. The expected pages are those of the spec (spec/clients.md 3.3), without trailing spaces.

mod samples;

use api::StorageInfo;
use api::text::status_message;
use cli::commands::status::filter;
use cli::render::status_json::machines;
use cli::render::status_summary::summary;
use cli::render::status_table::{PageOptions, lines, page, remark};
use cli::times::Zone;
use samples::{info, info_of, sample, sample_storage};
use state::terms::life::Life;
use state::terms::names::UnitName;
use state::terms::status_message::StatusMessage;
use state::terms::storage::StorageId;
use std::collections::BTreeMap;
use test_support::golden::compare;

const HEAD: &str = "\
Model  Controller  Cloud/Region  Version  Timestamp
dev    here        local/local   3.6.14   10:00:09Z
";

fn options(relations: bool, storage: &BTreeMap<StorageId, StorageInfo>) -> PageOptions<'_> {
    PageOptions { relations, storage, colours: false, width: None }
}

#[test]
fn statuses_have_the_colours_of_the_spec() {
    let storage = BTreeMap::new();
    let coloured = PageOptions { colours: true, ..options(false, &storage) };
    let text = page(&sample(), &Zone::new(true), coloured);
    for (colour, word) in [(32, "active"), (32, "idle"), (32, "started"), (33, "executing")] {
        assert!(text.contains(&format!("\x1b[{colour}m{word}\x1b[0m")), "{word}: {text:?}");
    }
    let plain = text.replace("\x1b[0m", "").replace("\x1b[32m", "").replace("\x1b[33m", "");
    assert_eq!(plain, page(&sample(), &Zone::new(true), options(false, &storage)));
}

/// The layout of Juju's `status --format summary`.
#[test]
fn the_summary_counts_statuses_and_lists_applications() {
    let expected = "\
Running on subnets:  127.0.0.1/32
   Utilizing ports:  8080/tcp
        # Machines:  (1)
           started:  1

           # Units:  (2)
            active:  2

    # Applications:  (2)
            auditor  1/1
             ledger  1/1
";
    assert_eq!(summary(&sample()), expected);
}

#[test]
fn the_page_is_the_sample_of_the_spec() {
    let expected = format!(
        "{HEAD}
App      Version  Status  Scale  Charm    Channel  Rev  Exposed  Message
auditor           active      1  auditor             0  no
ledger   2.1      active      1  ledger              0  no       epoch 1

Unit          Workload  Agent      Machine  Public address  Ports     Message
ledger/0*     active    idle       0        127.0.0.1       8080/tcp  ready
  auditor/0*  active    executing           127.0.0.1                 (config-changed)

Machine  State    Address    Inst id  Base          AZ  Message
0        started  127.0.0.1  box-0    ubuntu@24.04      Running
"
    );
    assert_eq!(page(&sample(), &Zone::new(true), options(false, &BTreeMap::new())), expected);
}

/// The columns that identify a thing and state how it is are kept.
#[test]
fn a_terminal_of_forty_columns_shows_what_is_most_important() {
    let expected = "\
Model  Controller  Version  Timestamp
dev    here        3.6.14   10:00:09Z

App      Version  Status  Scale  Message
auditor           active      1
ledger   2.1      active      1  epoch 1

Unit          Workload  Agent      Message
ledger/0*     active    idle       ready
  auditor/0*  active    executing  (config-changed)

Machine  State    Address    Message
0        started  127.0.0.1  Running
";
    let storage = BTreeMap::new();
    let narrow = PageOptions { width: Some(40), ..options(false, &storage) };
    assert_eq!(page(&sample(), &Zone::new(true), narrow), expected);
    let wide = PageOptions { width: Some(120), ..options(false, &storage) };
    assert_eq!(
        page(&sample(), &Zone::new(true), wide),
        page(&sample(), &Zone::new(true), options(false, &storage))
    );
}

#[test]
fn relations_are_a_section_when_asked_for() {
    let expected = "
Integration provider  Requirer      Interface  Type         Message
ledger:audit          auditor:book  audit      subordinate
ledger:ring           ledger:ring   ring       peer         joining
";
    let text = page(&sample(), &Zone::new(true), options(true, &BTreeMap::new()));
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn each_unit_is_a_line_below_its_principal() {
    let expected = "
- ledger/0: 127.0.0.1 (agent:idle, workload:active) 8080/tcp
  - auditor/0: 127.0.0.1 (agent:executing, workload:active)
";
    assert_eq!(lines(&sample()), expected);
}

#[test]
fn storage_is_a_section_when_asked_for() {
    let expected = "
Storage Unit  Storage ID  Type        Pool    Mountpoint  Size     Status    Message
ledger/0      books/0     filesystem  rootfs  /srv/books  1.0 GiB  attached
              books/1     filesystem  rootfs              512 MiB  detached
";
    let text = page(&sample(), &Zone::new(true), options(true, &sample_storage()));
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn an_empty_model_is_a_head_and_a_remark() {
    let mut status = sample();
    status.applications.clear();
    status.machines.clear();
    status.relations.clear();
    assert_eq!(page(&status, &Zone::new(true), options(true, &BTreeMap::new())), HEAD);
    compare("commands/status_empty.txt", &remark(&status).expect("a remark on an empty model"));
    assert_eq!(remark(&sample()), None);
}

#[test]
fn units_are_ordered_by_number_and_the_scale_counts_healthy_units() {
    let mut status = sample();
    let ledger = status.applications.get_mut("ledger").expect("of the sample");
    let unit = ledger.units[&UnitName::new("ledger", 0)].clone();
    for number in [10, 2] {
        let mut more = unit.clone();
        more.leader = false;
        more.agent = if number == 10 { info("lost", "") } else { info("idle", "") };
        ledger.units.insert(UnitName::new("ledger", number), more);
    }
    let text = page(&status, &Zone::new(true), options(false, &BTreeMap::new()));
    let row = text.lines().find(|line| line.starts_with("ledger ")).expect("a row of ledger");
    assert_eq!(row.split_whitespace().nth(3), Some("2/3"));
    let names: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("Unit "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| name.contains('/'))
        .collect();
    assert_eq!(names, ["ledger/0*", "auditor/0*", "ledger/2", "ledger/10"]);
}

#[test]
fn a_message_of_a_charm_cannot_move_the_cursor() {
    let mut status = sample();
    status.applications.get_mut("ledger").expect("of the sample").status.message =
        StatusMessage::OfCharm("\u{1b}[2J\r\u{202e}ok\nUnit".to_owned());
    let text = page(&status, &Zone::new(true), options(false, &BTreeMap::new()));
    assert!(text.contains("\\u{1b}[2J\\u{d}\\u{202e}ok Unit\n"), "{text}");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

#[test]
fn the_message_of_an_unreachable_agent_replaces_that_of_the_instance() {
    let mut status = sample();
    let machine = status.machines.get_mut("0").expect("the sample has one");
    machine.agent = info_of("down", StatusMessage::AgentNotCommunicating);
    let text = page(&status, &Zone::new(true), options(false, &BTreeMap::new()));
    let row = text.lines().last().expect("machines come last");
    let message = status_message::describe(&StatusMessage::AgentNotCommunicating);
    assert!(row.ends_with(&format!("  {message}")), "{row}");
}

#[test]
fn an_instance_that_the_provider_has_not_started_is_pending() {
    let mut status = sample();
    status.machines.get_mut("0").expect("the sample has one").instance_id = None;
    let text = page(&status, &Zone::new(true), options(false, &BTreeMap::new()));
    let row = text.lines().last().expect("machines come last");
    assert_eq!(row.split_whitespace().nth(3), Some("pending"), "{row}");
    let machines = serde_json::to_value(machines(&status, &Zone::new(true))).expect("it is JSON");
    let machine = &machines["0"];
    assert_eq!(machine["instance-id"], "pending");
    assert!(machine["hostname"].is_null(), "no host exists yet");
}

#[test]
fn a_filter_keeps_matches_with_their_principals_subordinates_and_machines() {
    let keeps = |filters: &[&str]| {
        let mut status = sample();
        let mut bystander = status.applications["ledger"].clone();
        bystander.units.clear();
        status.applications.insert("other".to_owned(), bystander);
        filter(&mut status, &filters.iter().map(|word| word.to_string()).collect::<Vec<_>>());
        let names: Vec<String> = status.applications.into_keys().collect();
        (names.join(" "), status.machines.len())
    };
    // A subordinate is shown with its principal, and a principal with its subordinates.
    for filter in ["ledger", "ledger/0", "ledger/leader"] {
        assert_eq!(keeps(&[filter]), ("auditor ledger".to_owned(), 1), "{filter}");
    }
    assert_eq!(keeps(&["auditor/0"]), ("auditor ledger".to_owned(), 1));
    assert_eq!(keeps(&["other"]), ("other".to_owned(), 0));
    assert_eq!(keeps(&["nothing*"]), (String::new(), 0));
}

#[test]
fn the_head_of_a_dying_model_shows_its_life() {
    let mut status = sample();
    status.model.life = Life::Dying;
    let text = page(&status, &Zone::new(true), options(false, &BTreeMap::new()));
    let lines: Vec<&str> = text.lines().collect();
    let column = lines[0].find("  Notes").expect("the head of the remarks");
    assert!(lines[1][column..].starts_with("  ") && lines[1].ends_with(" dying"), "{text}");
}
