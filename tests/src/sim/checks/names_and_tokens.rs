//! I26 and S15: the number of a unit or a machine is given once; a unit that was removed is nobody any more; and a unit
//! proves itself by the token that the controller has for it.

use crate::sim::checks::{Check, Commit, End, place};
use host::digest::sha256;
use state::documents::draft::{Reader, read, read_all};
use state::documents::keys::{GLOBAL, Kind, Model, TokenHolder};
use state::terms::names::Uuid;
use std::collections::BTreeMap;

/// Whom each name was given to, by the key that says so.
#[derive(Default)]
pub struct NamesAndTokens(BTreeMap<String, Uuid>);

/// Tokens of units that are gone.
fn left(reader: &dyn Reader) -> Vec<String> {
    let tokens = read_all::<TokenHolder>(reader, &GLOBAL.all(Kind::Token)).into_iter();
    let of_nobody = tokens.filter_map(|(_, principal)| match principal {
        TokenHolder::Unit { model, unit } => read(reader, &model.unit(unit)).is_none().then_some(unit),
        TokenHolder::User { .. } | TokenHolder::Machine { .. } | TokenHolder::EnrollingMachine { .. } => None,
    });
    of_nobody.map(|unit| format!("{unit} was removed, and its token still lets in who has it")).collect()
}

impl Check for NamesAndTokens {
    fn name(&self) -> &'static str {
        "identities"
    }

    /// What was named since the copy is forgotten, and named again.
    fn restored(&mut self, reader: &dyn Reader, model: Model) {
        let names = [Kind::UnitName, Kind::MachineName].into_iter();
        self.0 = names.flat_map(|kind| read_all::<Uuid>(reader, &model.all(kind))).collect();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes.entries.iter() {
            let ("unit-name" | "machine-name", name) = place(&change.key) else { continue };
            let Some(id) = change.value.as_ref() else { continue };
            let id: Uuid = id.parse().expect("documents are what was written");
            let before = self.0.insert(change.key.clone(), id);
            if let Some(before) = before.filter(|before| *before != id) {
                found.push(format!("{name} is {id}, and was {before}"));
            }
        }
        if commit.whole {
            found.extend(left(commit.reader));
        }
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
        found.extend(left(end.reader));
        for agent in &end.agents {
            let known = read(end.reader, &GLOBAL.token_of(agent.unit));
            let own = agent.token.as_ref().map(|token| sha256(token.as_bytes()));
            if known != own {
                found.push(format!("{}: its token is not the one that the controller knows", agent.name));
            }
        }
    }
}
