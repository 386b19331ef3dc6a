//! Requests about applications and their units, except removals.

use super::archive::{RESOURCE, charm};
use super::requests::SimOperator;
use crate::sim::network::SimCaller;
use api::{
    AddUnits, AttachResources, CancelAction, ConfigChange, Configure, Deploy, EnqueueAction, EnqueueExec,
    Handle, ListActions, Refresh, UploadArchive, UploadResource,
};
use serde_json::Value;
use std::collections::BTreeMap;

impl SimOperator {
    pub(super) async fn deploy(&self, name: &str, units: u32) {
        if self.units().await.len() as u64 >= self.world.profile().units_max {
            return;
        }
        let to = if name == "mon" { None } else { self.random_machine().await };
        self.trace(format!("deploy {name} -n {units} --to {to:?}"));
        let Some(sha256) = self.upload(name, 0).await else { return };
        let units = if to.is_some() { 1 } else { units };
        let call = |caller: SimCaller| {
            let deploy = Deploy {
                application: Some(name.to_owned()),
                sha256: sha256.clone(),
                units,
                to: to.clone(),
                config: BTreeMap::new(),
                ..Deploy::default()
            };
            async move { caller.handle(deploy).await }
        };
        self.request(call).await;
    }

    pub(super) async fn add_unit(&self, name: &str) {
        if self.units().await.len() as u64 >= self.world.profile().units_max {
            return;
        }
        let to = self.random_machine().await;
        self.trace(format!("add-unit {name} --to {to:?}"));
        let call = |caller: SimCaller| {
            let add = AddUnits {
                attach_storage: Vec::new(),
                application: name.to_owned(),
                units: 1,
                to: to.clone(),
            };
            async move { caller.handle(add).await }
        };
        self.request(call).await;
    }

    pub(super) async fn refresh(&self, name: &str) {
        self.trace(format!("refresh {name}"));
        let Some(sha256) = self.upload(name, 1 + self.world.below(3)).await else { return };
        let (forced, trusted) = (self.world.chance_of(300), self.world.chance_of(100));
        let call = |caller: SimCaller| {
            let (application, sha256) = (name.to_owned(), sha256.clone());
            let (config, resources) = Default::default();
            let refresh =
                Refresh { application, sha256, forced, only_if_changed: false, trusted, config, resources };
            async move { caller.handle(refresh).await }
        };
        self.request(call).await;
    }

    /// Attaches one of three files, which may be the current one.
    pub(super) async fn attach_resource(&self, name: &str) {
        let content = format!("content {}", self.world.below(3));
        self.trace(format!("attach-resource {name} {content}"));
        let upload = |caller: SimCaller| {
            let file = UploadResource(content.clone().into_bytes());
            async move { caller.handle(file).await.map(|stored| stored.sha256) }
        };
        let Some(sha256) = self.request(upload).await else { return };
        let attach = |caller: SimCaller| {
            let resources = BTreeMap::from([(RESOURCE.to_owned(), sha256.clone())]);
            let attach = AttachResources { application: name.to_owned(), resources };
            async move { caller.handle(attach).await }
        };
        self.request(attach).await;
    }

    async fn upload(&self, name: &str, version: u64) -> Option<String> {
        let has_storage = self.world.profile().storage > 0;
        let call = |caller: SimCaller| async move {
            let archive = charm(name, version, has_storage);
            caller.handle(UploadArchive(archive)).await.map(|uploaded| uploaded.sha256)
        };
        self.request(call).await
    }

    pub(super) async fn configure(&self, name: &str) {
        self.trace(format!("config {name}"));
        let set = BTreeMap::from([("level".to_owned(), self.world.below(3).to_string())]);
        let change = ConfigChange { set, reset: Vec::new() };
        let call = |caller: SimCaller| {
            let change = change.clone();
            async move { caller.handle(Configure { application: name.to_owned(), change }).await }
        };
        self.request(call).await;
    }

    /// Runs an action of a random unit, or commands in its context.
    pub(super) async fn run_action(&self) {
        let Some(unit) = self.random_unit().await else { return };
        if self.world.chance_of(300) {
            self.trace(format!("exec {unit}"));
            let exec = |caller: SimCaller| {
                let exec = EnqueueExec {
                    unit: unit.parse().expect("a unit"),
                    commands: "true".to_owned(),
                    operation: None,
                };
                async move { caller.handle(exec).await }
            };
            self.request(exec).await;
            return;
        }
        self.trace(format!("run {unit} act"));
        let call = |caller: SimCaller| {
            let params = BTreeMap::<_, Value>::new();
            let run = EnqueueAction {
                unit: unit.parse().expect("a unit"),
                action: "act".to_owned(),
                params,
                operation: None,
            };
            async move { caller.handle(run).await }
        };
        self.request(call).await;
        if self.world.chance_of(300) {
            // the action is pending, runs, or has ended by then
            self.world.sleep(self.world.below(3_000)).await;
            self.cancel_action().await;
        }
    }

    /// Cancels the newest action that has not ended. It may start at the same time.
    pub(super) async fn cancel_action(&self) {
        let all = self.request(|caller| async move { caller.handle(ListActions).await }).await;
        let Some(open) = all.into_iter().flatten().rev().find(|action| !action.status.is_final()) else {
            return;
        };
        self.trace(format!("cancel action {}", open.id));
        self.request(|caller| async move { caller.handle(CancelAction { id: open.id }).await }).await;
    }
}
