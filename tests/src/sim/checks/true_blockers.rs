//! Every Dying entity that cannot finish has at least one blocker, and every blocker is true (I52).
//!
//! A blocker is true if it leads to an obstacle that is in place, and removing that obstacle makes progress. A
//! blocker leads to an obstacle if the actor it names is the one that the obstacle obstructs, or is a unit or
//! machine one of whose own blockers leads there. So a blocker that names an unobstructed actor is false, and so is
//! a cycle. An entity that names itself must be obstructed itself.

use super::check::Check;
use super::stuck_system::{Obstacle, StuckSystem, WhyAnswer, acting, blocker_text};
use state::terms::cause::{Cause, Duty};
use state::terms::life::Life;
use std::collections::BTreeSet;

#[derive(Default)]
pub struct TrueBlockers {
    /// The dying entities at the last rest, with their blockers.
    before: BTreeSet<String>,
    /// The obstacles that were named then.
    named_obstacles: BTreeSet<Obstacle>,
}

impl Check for TrueBlockers {
    fn name(&self) -> &'static str {
        "true-blockers"
    }

    fn check_explanations(&mut self, stuck: &StuckSystem<'_>, found: &mut Vec<String>) {
        let mut named_obstacles = BTreeSet::new();
        for answer in stuck.answers {
            let Some(why) = &answer.why else {
                found.push(format!("{answer} why gave no answer"));
                continue;
            };
            if why.causes.is_empty() && (answer.life != Life::Alive || stuck.is_agent_down(&answer.entity)) {
                found.push(format!("{answer} no blocker is reported"));
            }
            if why.life != answer.life {
                found.push(format!("{answer} why reports life {}", why.life));
            }
            // an Alive machine that stays for the storage that a user has detached is no sign of an obstacle
            let is_kept = |cause: &&Cause| {
                answer.life == Life::Alive && matches!(cause.duty, Duty::RemoveStorage { .. })
            };
            for cause in why.causes.iter().filter(|cause| !is_kept(cause)) {
                if acting(cause).is_some_and(|acting| stuck.answer(&acting).is_none()) {
                    found.push(format!(
                        "{}: {}, but that actor does not exist",
                        answer.entity,
                        blocker_text(cause)
                    ));
                }
                let reachable_obstacles = match acting(cause).as_ref() == Some(&answer.entity) {
                    true => stuck.named_obstacles(cause),
                    false => stuck.reachable_obstacles(cause, &mut BTreeSet::new()),
                };
                if reachable_obstacles.is_empty() {
                    let obstacles = stuck.obstacles;
                    let what = blocker_text(cause);
                    found.push(format!(
                        "{}: {what}, but no obstacle in place explains it: {obstacles:?}",
                        answer.entity
                    ));
                }
                // with two obstacles, removing the first need not make progress (cargo sim 30003786)
                if answer.life != Life::Alive && reachable_obstacles.len() == 1 {
                    named_obstacles.extend(reachable_obstacles);
                }
            }
        }
        let now: BTreeSet<String> = stuck.dying_answers().map(WhyAnswer::to_string).collect();
        if let Some(removed) =
            stuck.removed.filter(|removed| self.named_obstacles.contains(removed) && now == self.before)
        {
            found.push(format!("{removed:?} was named and removed, but nothing progressed: {now:?}"));
        }
        (self.before, self.named_obstacles) = (now, named_obstacles);
    }
}
