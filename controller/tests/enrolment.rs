//! A machine that a person brings comes in by a token: once, in time, and as itself (spec/security.md S19).

mod support;

use api::error::ErrorCode;
use api::{
    AddMachines, CreateEnrolmentToken, DestroyModel, Enrol, EnrolmentToken, Fate, Force, GetStatus, GetWhy,
    Handle, ListMachines, ListModels, MachineFate, ProvisioningReport, RemoveApplication, RemoveDeadMachine,
    RemoveMachine, ReportInstance, ReportMachineDead, ReportPresence, ReportUninstalled, RetryProvisioning,
    SetMachineToken,
};
use controller::janitor::Janitor;
use controller::store::memory::MemoryStore;
use state::operations::instance::ENROLMENT_MS;
use state::terms::cause::Actor;
use state::terms::names::Uuid;
use support::*;

async fn invited(story: &Story<MemoryStore, Still>) -> EnrolmentToken {
    let added = story.admin.handle(AddMachines { count: 1, manual: true }).await.expect("added");
    story
        .admin
        .handle(CreateEnrolmentToken { machine: added.names[0].to_owned() })
        .await
        .expect("it is to be brought")
}

/// What comes of introducing a machine by this token.
async fn enrol(story: &Story<MemoryStore, Still>, token: &str, own: &str) -> Result<(), ErrorCode> {
    let session = story.controller.session(token).await.map_err(|error| error.code)?;
    session
        .handle(Enrol { token: own.to_owned(), address: "10.0.0.9".to_owned() })
        .await
        .map_err(|error| error.code)
}

#[tokio::test]
async fn an_invitation_is_good_once_and_for_nothing_else() {
    let story = Story::in_memory().await;
    let invitation = invited(&story).await;
    assert_eq!(invitation.token.len(), 64, "256 bits");
    let guest = story.controller.session(&invitation.token).await.expect("it is known");
    assert_eq!(
        guest.handle(ReportPresence).await.expect_err("it is no machine yet").code,
        ErrorCode::Unauthorised
    );
    assert_eq!(guest.handle(ReportMachineDead).await.expect_err("nor that").code, ErrorCode::Unauthorised);
    let own = "cd".repeat(32);
    assert_eq!(enrol(&story, &invitation.token, &own).await, Ok(()));
    assert_eq!(enrol(&story, &invitation.token, &own).await, Err(ErrorCode::Unauthorised), "used up");
    // let in before the other one enrolled, and its body came after
    let late = guest
        .handle(Enrol { token: "ef".repeat(32).to_owned(), address: "10.0.0.66".to_owned() })
        .await
        .expect_err("used up");
    assert_eq!(late.code, ErrorCode::Unauthorised);
    story
        .controller
        .session(&own)
        .await
        .expect("its own token")
        .handle(ReportPresence)
        .await
        .expect("it is a machine");
    let machines = story.admin.handle(ListMachines).await.expect("all of them");
    let (address, instance) = (machines[0].address.as_str(), machines[0].instance_id.as_deref());
    assert_eq!((address, instance), ("10.0.0.9", Some("manual:10.0.0.9")));
    let again = story
        .admin
        .handle(CreateEnrolmentToken { machine: invitation.name.to_owned() })
        .await
        .expect_err("it is here");
    assert_eq!(again.code, ErrorCode::AlreadyExists);
}

#[tokio::test]
async fn an_invitation_ends_after_a_quarter_of_an_hour_and_with_the_next_one() {
    let story = Story::in_memory().await;
    let first = invited(&story).await;
    let let_in = story.controller.session(&first.token).await.expect("it is known");
    let second = story
        .admin
        .handle(CreateEnrolmentToken { machine: first.name.to_owned() })
        .await
        .expect("it has not come yet");
    let own = "cd".repeat(32);
    let late = let_in
        .handle(Enrol { token: own.to_owned(), address: "10.0.0.66".to_owned() })
        .await
        .expect_err("another was given meanwhile");
    assert_eq!(late.code, ErrorCode::Unauthorised);
    assert_eq!(enrol(&story, &first.token, &own).await, Err(ErrorCode::Unauthorised), "another was given");
    story.pass(u64::try_from(ENROLMENT_MS).expect("positive"));
    assert_eq!(enrol(&story, &second.token, &own).await, Err(ErrorCode::Unauthorised), "late");
    let third = story
        .admin
        .handle(CreateEnrolmentToken { machine: first.name.to_owned() })
        .await
        .expect("it has not come yet");
    story.pass(u64::try_from(ENROLMENT_MS).expect("positive") - 1);
    assert_eq!(enrol(&story, &third.token, &own).await, Ok(()), "the last moment");
}

#[tokio::test]
async fn a_machine_that_its_provider_makes_is_not_invited() {
    let story = Story::in_memory().await;
    let add = AddMachines { count: 1, manual: false };
    let added = story.admin.handle(add).await.expect("added");
    let refused = story
        .admin
        .handle(CreateEnrolmentToken { machine: added.names[0].to_owned() })
        .await
        .expect_err("nobody brings it");
    assert_eq!(refused.code, ErrorCode::Invalid);
}

#[tokio::test]
async fn a_nonce_is_recorded_once_and_an_error_is_shown_until_it_is_over() {
    let story = Story::in_memory().await;
    let add = AddMachines { count: 1, manual: false };
    story.admin.handle(add).await.expect("added");
    let machine = story.admin.handle(ListMachines).await.expect("all")[0].uuid;
    let says = async |what| story.admin.handle(ReportInstance { machine, what }).await;
    let intended = |nonce| ProvisioningReport::Starting { provider: "nspawn".to_owned(), nonce: Uuid(nonce) };
    assert_eq!(says(intended(5)).await, Ok(Uuid(5)));
    assert_eq!(says(intended(6)).await, Ok(Uuid(5)), "a provisioner that died in between (scenario 183)");

    let shown = async || {
        let machine = story.admin.handle(GetStatus).await.expect("there").machines.remove("0").expect("one");
        (machine.instance.current, machine.instance.message)
    };
    says(ProvisioningReport::Failed { message: "no room".to_owned() }).await.expect("noted");
    assert_eq!(shown().await, ("provisioning error".to_owned(), "no room".to_owned()));
    let due = async || story.admin.handle(ListMachines).await.expect("all")[0].retry_ms;
    assert!(due().await.expect("it is tried again") > 0);
    story.admin.handle(RetryProvisioning { machine: "0".to_owned() }).await.expect("it has an error");
    assert_eq!(due().await, Some(0), "now");
    let (instance_id, address) = ("nspawn-dev-0".to_owned(), "10.0.0.2".to_owned());
    says(ProvisioningReport::Started { instance_id, address }).await.expect("noted");
    assert_eq!((shown().await.0.as_str(), due().await), ("pending", None));
    let healthy =
        story.admin.handle(RetryProvisioning { machine: "0".to_owned() }).await.expect_err("it has none");
    assert_eq!(healthy.message, "machine 0 has no provisioning error");
}

#[tokio::test]
async fn scenario_184_a_dying_machine_that_never_was_is_dead_by_its_providers_word_and_nothing_is_started() {
    let story = Story::in_memory().await;
    let add = AddMachines { count: 1, manual: false };
    story.admin.handle(add).await.expect("added");
    let machine = story.admin.handle(ListMachines).await.expect("all")[0].uuid;
    let early = story.admin.handle(ReportInstance { machine, what: ProvisioningReport::Absent }).await;
    assert_eq!(early.expect_err("it is alive").code, ErrorCode::Invalid);
    story
        .admin
        .handle(RemoveMachine { machine: "0".to_owned(), force: api::Force::No, keep_instance: false })
        .await
        .expect("no unit is on it");
    let intended = ProvisioningReport::Starting { provider: "nspawn".to_owned(), nonce: Uuid(5) };
    let late = story.admin.handle(ReportInstance { machine, what: intended }).await;
    assert_eq!(late.expect_err("it is going").code, ErrorCode::NotAlive);
    story
        .admin
        .handle(ReportInstance { machine, what: ProvisioningReport::Absent })
        .await
        .expect("it is Dying");
    story.admin.handle(RemoveDeadMachine { machine }).await.expect("it is Dead");
    assert_eq!(story.admin.handle(ListMachines).await.expect("all"), []);
    assert_eq!(story.admin.handle(MachineFate { machine }).await, Ok(Fate::Tombstone));
}

#[tokio::test]
async fn a_kept_instance_is_its_users_once_its_agent_has_taken_itself_away() {
    let story = Story::in_memory().await;
    let add = AddMachines { count: 1, manual: false };
    story.admin.handle(add).await.expect("added");
    let machine = story.admin.handle(ListMachines).await.expect("all")[0].uuid;
    let intended = ProvisioningReport::Starting { provider: "nspawn".to_owned(), nonce: Uuid(5) };
    let (instance_id, address) = ("nspawn-0".to_owned(), "10.0.0.2".to_owned());
    for what in [intended, ProvisioningReport::Started { instance_id, address }] {
        story.admin.handle(ReportInstance { machine, what }).await.expect("it is alive");
    }
    let own = "cd".repeat(32);
    story.admin.handle(SetMachineToken { machine, token: own.to_owned() }).await.expect("it is there");
    story
        .admin
        .handle(RemoveMachine { machine: "0".to_owned(), force: Force::No, keep_instance: true })
        .await
        .expect("nothing is on it");
    assert!(story.admin.handle(ListMachines).await.expect("all")[0].kept);
    let session = story.controller.session(&own).await.expect("it is Dying");
    session.handle(ReportMachineDead).await.expect("it has no units");
    let why = story.admin.handle(GetWhy { entity: "machine/0".to_owned() }).await.expect("it is there");
    assert_eq!(why.causes[0].actor, Actor::MachineAgent("0".to_owned()));
    let left = async || story.admin.handle(ListMachines).await.expect("all")[0].left;
    assert!(!left().await);
    session.handle(ReportUninstalled).await.expect("it takes itself away");
    assert!(left().await, "its provider hands it over");
    let why = story.admin.handle(GetWhy { entity: "machine/0".to_owned() }).await.expect("it is there");
    assert_eq!(why.causes[0].actor, Actor::Provisioner);
    story.admin.handle(RemoveDeadMachine { machine }).await.expect("it was handed over");
    assert_eq!(story.admin.handle(MachineFate { machine }).await, Ok(Fate::Tombstone));
}

/// Handed over before its provider listed it, it may run an agent that has not heard of its end.
#[tokio::test]
async fn an_agent_in_a_kept_instance_that_was_not_waited_for_learns_that_its_machine_was_removed() {
    let story = Story::in_memory().await;
    story.admin.handle(AddMachines { count: 1, manual: false }).await.expect("added");
    let machine = story.admin.handle(ListMachines).await.expect("all")[0].uuid;
    let intended = ProvisioningReport::Starting { provider: "nspawn".to_owned(), nonce: Uuid(5) };
    let (instance_id, address) = ("nspawn-0".to_owned(), "10.0.0.2".to_owned());
    for what in [intended, ProvisioningReport::Started { instance_id, address }] {
        story.admin.handle(ReportInstance { machine, what }).await.expect("it is alive");
    }
    let own = "cd".repeat(32);
    story.admin.handle(SetMachineToken { machine, token: own.to_owned() }).await.expect("it is there");
    story
        .admin
        .handle(RemoveMachine { machine: "0".to_owned(), force: Force::No, keep_instance: true })
        .await
        .expect("nothing is on it");
    story
        .admin
        .handle(ReportInstance { machine, what: ProvisioningReport::Absent })
        .await
        .expect("it is not listed");
    story.admin.handle(RemoveDeadMachine { machine }).await.expect("it was handed over");
    assert_eq!(let_in(&story, &own).await, Err(ErrorCode::Removed));
}

#[tokio::test]
async fn units_that_never_attached_do_not_keep_a_machine_that_never_was() {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    let machine = story.machine_of(story.unit("web/0").await).await;
    story
        .admin
        .handle(RemoveApplication { application: "web".to_owned(), force: api::Force::No })
        .await
        .expect("it is Dying");
    story
        .admin
        .handle(RemoveMachine { machine: "0".to_owned(), force: api::Force::No, keep_instance: false })
        .await
        .expect("its unit is Dying");
    story
        .admin
        .handle(ReportInstance { machine, what: ProvisioningReport::Absent })
        .await
        .expect("nobody serves its unit");
    story.admin.handle(RemoveDeadMachine { machine }).await.expect("it is Dead");
    let status = story.admin.handle(GetStatus).await.expect("there");
    assert!(status.applications.is_empty(), "it went with its last unit");
    assert_eq!(story.admin.handle(ListMachines).await.expect("all"), []);
}

/// A machine that a person brought, under the token it made.
async fn brought(story: &Story<MemoryStore, Still>, own: &str) -> String {
    let invitation = invited(story).await;
    enrol(story, &invitation.token, own).await.expect("it was invited");
    invitation.name
}

async fn let_in(story: &Story<MemoryStore, Still>, own: &str) -> Result<(), ErrorCode> {
    story.controller.session(own).await.map(drop).map_err(|error| error.code)
}

/// Force has its two waits, and all that the janitor does for it.
async fn sweep_to_the_end(story: &Story<MemoryStore, Still>) {
    let mut janitor = Janitor::default();
    for _ in 0..3 {
        while janitor.sweep(&story.controller).await.expect("it sweeps") {}
        story.pass(60_000);
    }
}

#[tokio::test]
async fn a_machine_that_was_removed_while_it_was_away_learns_that_by_its_token_and_nothing_else() {
    let story = Story::in_memory().await;
    let (own, other) = ("cd".repeat(32), "ef".repeat(32));
    let (forced, kept) = (brought(&story, &own).await, brought(&story, &other).await);
    story
        .admin
        .handle(RemoveMachine { machine: forced.to_owned(), force: Force::AtOnce, keep_instance: false })
        .await
        .expect("by force");
    assert_eq!(let_in(&story, &own).await, Ok(()), "it has a minute to come and see");
    sweep_to_the_end(&story).await;
    assert_eq!(let_in(&story, &own).await, Err(ErrorCode::Removed));
    assert_eq!(let_in(&story, &other).await, Ok(()));

    story
        .admin
        .handle(RemoveMachine { machine: kept.to_owned(), force: Force::No, keep_instance: false })
        .await
        .expect("nothing is on it");
    let session = story.controller.session(&other).await.expect("it is Dying");
    session.handle(ReportMachineDead).await.expect("it has no units");
    session.handle(ReportUninstalled).await.expect("it takes itself away");
    assert_eq!(let_in(&story, &other).await, Err(ErrorCode::Unauthorised), "nobody carries that any more");
}

#[tokio::test]
async fn a_machine_learns_that_it_was_removed_with_its_model() {
    let story = Story::in_memory().await;
    let own = "cd".repeat(32);
    brought(&story, &own).await;
    story.admin.handle(DestroyModel { force: Force::AtOnce }).await.expect("by force");
    sweep_to_the_end(&story).await;
    assert_eq!(story.admin.handle(ListModels).await.expect("all").len(), 0);
    assert_eq!(let_in(&story, &own).await, Err(ErrorCode::Removed));
}
