//! The transitions of a provisioned machine and of a manual one.

use super::*;
use state::lifecycle::machine::MachineRequest;
use state::terms::hardware::Hardware;
use state::transitions::requested_removal::{self, MachineRemovalOptions};

/// Runs the transitions of a provisioned machine and of a manual one.
pub(super) async fn provision<S: Store>(fixture: &mut Fixture<'_, S>) {
    let (provisioned, manual) = (Uuid(61), Uuid(62));
    let base =
        || Some(Base { name: "ubuntu".to_owned(), channel: "22.04".to_owned(), architectures: Vec::new() });
    let hardware = || Some(Hardware { arch: "amd64".to_owned(), cores: 2, mem_mib: 4096 });
    fixture
        .call("machine::add_requested", move |draft| {
            let constraints = "mem=1G".parse().expect("they are constraints");
            let request = MachineRequest { base: base(), constraints, ..MachineRequest::default() };
            machine::add_requested(draft, MODEL, provisioned, request, 1).map(drop)
        })
        .await;
    fixture
        .call("instance::reserve_nonce", move |draft| {
            instance::reserve_nonce(draft, MODEL, provisioned, ProviderKind::Nspawn, Uuid(63)).map(drop)
        })
        .await;
    fixture
        .call("instance::record_failure", move |draft| {
            instance::record_failure(draft, MODEL, provisioned, "no room", 2)
        })
        .await;
    fixture.call("instance::retry_now", move |draft| instance::retry_now(draft, MODEL, provisioned)).await;
    fixture
        .call("instance::record_started", move |draft| {
            instance::record_started(draft, MODEL, provisioned, "nspawn-1", "10.0.0.2")
        })
        .await;
    let report = ProvisioningReport::Started {
        instance_id: "nspawn-1".into(),
        address: "10.0.0.2".into(),
        base: base(),
        hardware: hardware(),
    };
    fixture
        .call("instance::record", move |draft| {
            instance::record(draft, MODEL, provisioned, &report, 2).map(drop)
        })
        .await;
    let agent_token = "c".repeat(64);
    fixture
        .call("instance::set_token", move |draft| {
            instance::set_token(draft, MODEL, provisioned, &agent_token)
        })
        .await;
    fixture
        .call("requested_removal::remove_machine", move |draft| {
            let options = MachineRemovalOptions { force: Force::No, keep_instance: true };
            requested_removal::remove_machine(draft, MODEL, provisioned, options, 3)
        })
        .await;
    fixture
        .call("machine::add_requested", move |draft| {
            let request = MachineRequest::manual();
            machine::add_requested(draft, MODEL, manual, request, 1).map(drop)
        })
        .await;
    fixture
        .call("instance::issue_enrolment_token", move |draft| {
            instance::issue_enrolment_token(draft, MODEL, manual, &"a".repeat(64), 9)
        })
        .await;
    fixture
        .call("instance::enrol", move |draft| {
            let enrolment = Enrolment {
                enrolment_token: "a".repeat(64),
                token: "b".repeat(64),
                address: "10.0.0.3".to_owned(),
                base: None,
                hardware: hardware(),
            };
            instance::enrol(draft, MODEL, manual, &enrolment, 2)
        })
        .await;
    fixture.call("machine::destroy", move |draft| machine::destroy(draft, MODEL, manual)).await;
    fixture
        .call("instance::record_absent", move |draft| {
            instance::record_absent(draft, MODEL, manual, 3).map(drop)
        })
        .await;
    fixture
        .call("instance::record_agent_uninstalled", move |draft| {
            instance::record_agent_uninstalled(draft, MODEL, manual)
        })
        .await;
}
