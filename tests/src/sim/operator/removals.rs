//! Removals of units, applications, relations and machines, with and without force.

use super::requests::SimOperator;
use crate::sim::fact::Fact;
use crate::sim::network::SimCaller;
use api::{
    Ends, Force, GetStatus, Handle, RelationChoice, RemoveApplication, RemoveMachine, RemoveRelation,
    RemoveUnit,
};
use controller::store::Store;
use state::terms::names::RelationNumber;
use state::terms::status::WorkloadStatus;

/// An entity that an operator removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimRemoval {
    Unit(String),
    Application(String),
    Relation(RelationNumber),
    Machine(String),
}

impl SimOperator {
    pub(super) async fn remove_relation(&self, name: &str) {
        let (a, b) = self.ends(name, self.name());
        let force = self.force();
        self.trace(format!("remove-relation {a} {b}, force {force:?}"));
        let call = |caller: SimCaller| {
            let ends = RelationChoice::Ends(Ends { a: a.clone(), b: b.clone() });
            async move { caller.handle(RemoveRelation { relation: ends, force }).await }
        };
        self.request(call).await;
    }

    /// Whether the storage is removed with its unit. Schedules without storage draw nothing.
    fn destroys_storage(&self) -> bool {
        self.world.profile().storage > 0 && self.world.chance_of(700)
    }

    /// Removes a random unit.
    pub(super) async fn remove_unit(&self) {
        let Some(unit) = self.random_unit().await else { return };
        let (force, destroy_storage) = (self.force(), self.destroys_storage());
        self.trace(format!("remove-unit {unit}, force {force:?}"));
        let call = |caller: SimCaller| {
            let unit = unit.clone();
            async move {
                caller
                    .handle(RemoveUnit { destroy_storage, unit: unit.parse().expect("a unit"), force })
                    .await
            }
        };
        self.request(call).await;
    }

    pub(super) async fn remove_application(&self, name: &str) {
        let (force, destroy_storage) = (self.force(), self.destroys_storage());
        self.trace(format!("remove-application {name}, force {force:?}"));
        let call = |caller: SimCaller| async move {
            caller.handle(RemoveApplication { destroy_storage, application: name.to_owned(), force }).await
        };
        self.request(call).await;
    }

    /// The force of a removal: one in four is forced.
    pub(super) fn force(&self) -> Force {
        match self.world.below(8) {
            0 => Force::AfterWait,
            1 => Force::AtOnce,
            _ => Force::No,
        }
    }

    pub(super) async fn remove_machine(&self) {
        let Some(machine) = self.random_machine().await else { return };
        let (force, keep_instance) = (self.force(), self.world.chance_of(250));
        self.trace(format!("remove-machine {machine}, force {force:?}, keep instance {keep_instance}"));
        let call = |caller: SimCaller| {
            let machine = machine.clone();
            async move {
                let store_generation = caller.controller.store.store_generation();
                caller
                    .handle(RemoveMachine { machine: machine.to_owned(), force, keep_instance })
                    .await
                    .map(|_| store_generation)
            }
        };
        // 1. The request is committed and its response on the way. 2. The store is restored from a backup of
        // before it: the response is about a store generation that is over (cargo sim 71014647).
        let answered = self.request(call).await;
        if keep_instance && answered == Some(self.network.store_generation()) {
            self.world.note(Fact::KeepInstanceAccepted { machine });
        }
    }

    /// Removes every unit in error; for a subordinate its principal.
    pub async fn remove_failed_units(&self) {
        let call = |caller: SimCaller| async move { caller.handle(GetStatus).await };
        let Some(status) = self.request(call).await else { return };
        let units = status.applications.into_values().flat_map(|application| application.units);
        for (unit, shown) in units.filter(|(_, unit)| unit.workload.current == WorkloadStatus::Error) {
            let unit = shown.principal.clone().unwrap_or(unit);
            self.trace(format!("remove-unit {unit}"));
            let call = |caller: SimCaller| {
                let unit = unit.to_string();
                async move {
                    caller
                        .handle(RemoveUnit {
                            destroy_storage: false,
                            unit: unit.parse().expect("a unit"),
                            force: Force::No,
                        })
                        .await
                }
            };
            self.request(call).await;
        }
    }

    pub async fn remove(&self, what: SimRemoval, force: Force) {
        self.trace(format!("remove {what:?}, force {force:?}"));
        let call = |caller: SimCaller| {
            let what = what.clone();
            async move {
                match what {
                    SimRemoval::Unit(unit) => caller
                        .handle(RemoveUnit {
                            destroy_storage: false,
                            unit: unit.parse().expect("a unit"),
                            force,
                        })
                        .await
                        .map(drop),
                    SimRemoval::Application(name) => caller
                        .handle(RemoveApplication {
                            destroy_storage: false,
                            application: name.to_owned(),
                            force,
                        })
                        .await
                        .map(drop),
                    SimRemoval::Relation(number) => {
                        let choice = RelationChoice::Number(number);
                        caller.handle(RemoveRelation { relation: choice, force }).await.map(drop)
                    }
                    SimRemoval::Machine(name) => caller
                        .handle(RemoveMachine { machine: name.to_owned(), force, keep_instance: false })
                        .await
                        .map(drop),
                }
            }
        };
        self.request(call).await;
    }
}
