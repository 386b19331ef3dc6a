//! Requests about relations, except removals: integrate, suspend, resume.
//!
//! The operator chooses existing relations at random and ignores refusals, because another operator may have removed what it
//! chose. Called by `operator`.

use super::requests::SimOperator;
use crate::sim::network::SimCaller;
use api::{Ends, GetStatus, Handle, Integrate, ResumeRelation, SuspendRelation};

impl SimOperator {
    pub(super) async fn integrate(&self, a: &str, b: &str) {
        let (a, b) = self.ends(a, b);
        self.trace(format!("integrate {a} {b}"));
        let call = |caller: SimCaller| {
            let ends = Ends { a: a.clone(), b: b.clone() };
            async move { caller.handle(Integrate(ends)).await }
        };
        self.request(call).await;
    }

    /// Two ends as an operator names them: for a subordinate and its principal either with the implicit
    /// endpoint or with none.
    pub(super) fn ends(&self, a: &str, b: &str) -> (String, String) {
        let is_implicit = (a == "mon") != (b == "mon") && self.world.chance_of(500);
        let end = |name: &str| match (is_implicit, name) {
            (false, _) => name.to_owned(),
            (true, "mon") => "mon:host".to_owned(),
            (true, _) => format!("{name}:juju-info"),
        };
        (end(a), end(b))
    }

    /// Suspends or resumes an existing relation, whatever state it is in.
    pub(super) async fn suspend_or_resume(&self) {
        let call = |caller: SimCaller| async move { caller.handle(GetStatus).await };
        let relations = self.request(call).await.map(|status| status.relations).unwrap_or_default();
        let at = self.world.below(relations.len() as u64) as usize;
        let Some(number) = relations.get(at).map(|relation| relation.number) else { return };
        let suspend = self.world.chance_of(500);
        self.trace(format!("{}-relation {number}", if suspend { "suspend" } else { "resume" }));
        let call = |caller: SimCaller| async move {
            match suspend {
                true => {
                    caller
                        .handle(SuspendRelation {
                            relation: number,
                            message: "suspended by the simulator".to_owned(),
                        })
                        .await
                }
                false => caller.handle(ResumeRelation { relation: number }).await,
            }
        };
        self.request(call).await;
        if suspend && self.world.chance_of(400) {
            // perhaps before all units have observed the suspension
            self.world.sleep(500 + self.world.below(12_000)).await;
            self.trace(format!("resume-relation {number}"));
            let resume =
                |caller: SimCaller| async move { caller.handle(ResumeRelation { relation: number }).await };
            self.request(resume).await;
        }
    }
}
