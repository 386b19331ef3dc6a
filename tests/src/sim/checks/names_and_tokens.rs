//! A unit or machine number is assigned once, and only an existing unit is authenticated (I26, S15).
//!
//! The token of a removed unit is revoked, and the token of a unit is the one that the controller has stored.

use super::check::{Check, Commit, FinalState, parts};
use host::digest::sha256;
use state::documents::draft::{Reader, read, read_all};
use state::documents::prelude::{GLOBAL, KeyParts, Kind, Model, TokenHolder};
use state::terms::names::Uuid;
use std::collections::BTreeMap;

/// The entity to which each name was assigned, by key of the document.
#[derive(Default)]
pub struct NamesAndTokens(BTreeMap<String, Uuid>);

/// Violations for tokens of units that do not exist.
fn leftover_tokens(reader: &dyn Reader) -> Vec<String> {
    let tokens = read_all::<TokenHolder>(reader, &GLOBAL.prefix(Kind::Token)).into_iter();
    let orphaned = tokens.filter_map(|(_, principal)| match principal {
        TokenHolder::Unit { model, unit } => read(reader, &model.unit(unit)).is_none().then_some(unit),
        TokenHolder::User { .. }
        | TokenHolder::Machine { .. }
        | TokenHolder::RemovedMachine { .. }
        | TokenHolder::EnrollingMachine { .. } => None,
    });
    orphaned.map(|unit| format!("{unit} was removed, but its token is still accepted")).collect()
}

impl Check for NamesAndTokens {
    fn name(&self) -> &'static str {
        "names-and-tokens"
    }

    /// Names that were assigned after the backup are free again.
    fn store_restored(&mut self, reader: &dyn Reader, model: Model) {
        let names = [Kind::UnitName, Kind::MachineName].into_iter();
        self.0 = names.flat_map(|kind| read_all::<Uuid>(reader, &model.prefix(kind))).collect();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes.entries.iter() {
            let KeyParts { kind: Kind::UnitName | Kind::MachineName, rest: name, .. } = parts(&change.key)
            else {
                continue;
            };
            let Some(id) = change.value.as_ref() else { continue };
            let id: Uuid = id.parse().expect("documents are what was written");
            let before = self.0.insert(change.key.clone(), id);
            if let Some(before) = before.filter(|before| *before != id) {
                found.push(format!("{name} is assigned to {id} and was assigned to {before} before"));
            }
        }
        if commit.is_full_check {
            found.extend(leftover_tokens(commit.reader));
        }
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        found.extend(leftover_tokens(end.reader));
        for agent in &end.agents {
            let known = read(end.reader, &GLOBAL.token_digest(agent.unit));
            let own = agent.token.as_ref().map(|token| sha256(token.as_bytes()));
            if known != own {
                found
                    .push(format!("{}: its token is not the one that the controller has stored", agent.name));
            }
        }
    }
}
