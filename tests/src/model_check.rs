//! An exhaustive model checker of the lifecycle core: two related applications, the real decisions of their agents
//! and the real transitions of the controller, in every order.
//!
//! The space is small enough to be searched completely, so its result does not depend on seeds. A state consists of the
//! documents and the local state of each agent. From each state, every remaining request of a user, every agent and every
//! machine agent may act next; one agent may crash between any two of its steps. Views are up to date and messages
//! arrive: delay and loss are tested by the simulator.
//!
//! This file contains the search, `steps` a state and its next steps, `initial_state` the start, `properties` the
//! checked properties, and `state_digest` the equality of states.

mod bounds;
mod documents;
mod hook_grammar;
mod initial_state;
mod properties;
mod state_digest;
mod steps;

pub use bounds::{Bounds, Space, UserRequest, Violation};
use std::collections::{BTreeMap, VecDeque};
use steps::Actor;

/// Searches the whole space, breadth first, so that the first violation has the shortest path.
pub fn search(bounds: &Bounds) -> Result<Space, Box<Violation>> {
    let start = initial_state::start(bounds).map_err(Box::new)?;
    let mut known: BTreeMap<[u8; 32], usize> = BTreeMap::from([(start.digest(), 0)]);
    // by state number: the step that reached it, its predecessor, and its other predecessors
    let mut reached_by: Vec<(usize, String)> = vec![(0, "both applications are related and at rest".into())];
    let mut reached_from: Vec<Vec<usize>> = vec![Vec::new()];
    let mut at_rest = Vec::new();
    let mut steps = 0;
    let mut queue = VecDeque::from([(0, start)]);
    let violation = |reached_by: &[(usize, String)], mut at: usize, what: String| {
        let mut steps = vec![reached_by[at].1.clone()];
        while at != 0 {
            at = reached_by[at].0;
            steps.push(reached_by[at].1.clone());
        }
        steps.reverse();
        Box::new(Violation { what, steps })
    };
    while let Some((number, state)) = queue.pop_front() {
        if let Some(what) = state.check() {
            return Err(violation(&reached_by, number, what));
        }
        let following = state.steps().map_err(|found| violation(&reached_by, number, found.what))?;
        if following.iter().all(|(step, _)| step.actor == Actor::User) {
            if let Some(what) = state.check_at_rest() {
                return Err(violation(&reached_by, number, what));
            }
            at_rest.push(number);
        }
        for (step, state) in following {
            steps += 1;
            let by_itself = !matches!(step.actor, Actor::User | Actor::Crash);
            let next = reached_by.len();
            let to = *known.entry(state.digest()).or_insert(next);
            if to == next {
                reached_by.push((number, step.text()));
                reached_from.push(Vec::new());
                queue.push_back((next, state));
            }
            if by_itself {
                reached_from[to].push(number);
            }
        }
    }
    // every state leads to a state at rest: there is no cycle without an exit
    let mut comes_to_rest = vec![false; reached_by.len()];
    let mut open = at_rest.clone();
    while let Some(number) = open.pop() {
        if !std::mem::replace(&mut comes_to_rest[number], true) {
            open.extend(&reached_from[number]);
        }
    }
    if let Some(stuck) = comes_to_rest.iter().position(|rests| !rests) {
        return Err(violation(&reached_by, stuck, "it never comes to rest".into()));
    }
    Ok(Space { states: reached_by.len(), steps, at_rest: at_rest.len() })
}
