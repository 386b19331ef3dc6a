//! Makes the fake applications that are related to the application under development those of a file, with ordinary
//! requests: what differs is deployed, related, changed or removed. Repeating it changes nothing. Fake applications of
//! another application under development are kept.

use crate::command_error::CommandError;
use crate::commands::charm_source;
use crate::development::fakes_file::{FakeApplication, UnitMatch, match_units};
use crate::session::CommandSession;
use api::error::ErrorCode;
use api::{
    AddUnits, Deploy, Ends, Force, GetStatus, Integrate, RemoveApplication, RemoveUnit, SetFakeSettings,
    Status, UserPort,
};
use charms::folder::FileEntry;
use charms::read::{ReadOptions, read_archive};
use state::terms::life::Life;
use state::terms::names::UnitName;
use std::collections::{BTreeMap, BTreeSet};

/// Applies the fake applications of a file to the application under development. Returns false if an earlier fake application of the same name
/// is still being removed: then the caller tries again soon.
///
/// # Errors
/// If the application under development does not exist or is being removed, or the controller refuses a request.
pub async fn apply<A: UserPort>(
    fakes: &[FakeApplication],
    application: &str,
    session: &CommandSession<A>,
) -> Result<bool, CommandError> {
    let status = session.api.handle(GetStatus).await?;
    if status.applications.get(application).is_none_or(|found| found.life != Life::Alive) {
        let text =
            format!("cannot apply the fake applications: {application} does not exist, or is being removed");
        return Err(CommandError::new(text).hint("it is deployed again at the next save"));
    }
    let is_wanted = |name: &str| fakes.iter().any(|fake| fake.name == *name);
    for (name, found) in &status.applications {
        // one that is not related yet was left behind by a command that was interrupted
        let mut related = found.relations.values().flatten().peekable();
        let is_of_other =
            related.peek().is_some() && !related.any(|related| related.application == *application);
        if found.fake && !is_of_other && found.life == Life::Alive && !is_wanted(name) {
            remove(name, session).await?;
        }
    }
    let mut is_complete = true;
    for fake in fakes {
        is_complete &= match apply_one(fake, application, &status, session).await {
            // an earlier application or relation of this name is being removed
            Err(failure) if failure.api_code == Some(ErrorCode::NotAlive) => false,
            applied => applied?,
        };
    }
    Ok(is_complete)
}

async fn apply_one<A: UserPort>(
    fake: &FakeApplication,
    application: &str,
    status: &Status,
    session: &CommandSession<A>,
) -> Result<bool, CommandError> {
    let found = status.applications.get(&fake.name);
    if found.is_some_and(|found| found.life != Life::Alive) {
        return Ok(false);
    }
    match found {
        None => deploy(fake, session).await?,
        Some(found) if found.fake => {}
        Some(found) => {
            let text =
                format!("cannot use {}: it is an application of charm {}", fake.name, found.charm_name);
            return Err(CommandError::new(text).hint("name the remote application of the file differently"));
        }
    }
    let endpoint = &fake.endpoint.name;
    let (left, right) = (format!("{application}:{endpoint}"), format!("{}:{endpoint}", fake.name));
    match session.api.handle(Integrate(Ends { a: left.clone(), b: right.clone() })).await {
        Err(error) if error.code == ErrorCode::AlreadyExists => {}
        // the charm of an earlier file has another endpoint
        Err(error) if error.code == ErrorCode::NotFound && found.is_some() => {
            remove(&fake.name, session).await?;
            return Ok(false);
        }
        answer => session.record_write(answer?.revision),
    }
    let set = |unit: Option<UnitName>, settings: &BTreeMap<String, String>| SetFakeSettings {
        application: fake.name.clone(),
        left: left.clone(),
        right: right.clone(),
        unit,
        settings: Some(settings.clone()),
    };
    session.record_write(session.api.handle(set(None, &fake.application_settings)).await?.revision);

    let units = found.map(|found| &found.units);
    let alive = units.into_iter().flatten().filter(|(_, unit)| unit.life == Life::Alive);
    let existing: BTreeSet<u32> = alive.map(|(name, _)| name.number).collect();
    let wanted: BTreeSet<u32> = fake.units.keys().copied().collect();
    let UnitMatch { mut matched, added, removed } = match_units(&wanted, &existing);
    if !added.is_empty() {
        let add = AddUnits {
            application: fake.name.clone(),
            units: u32::try_from(added.len()).unwrap_or(u32::MAX),
            to: None,
            attach_storage: Vec::new(),
        };
        let names = session.api.handle(add).await?;
        session.record_write(names.revision);
        matched.extend(added.into_iter().zip(names.answer.into_iter().map(|name| name.number)));
    }
    for (number, unit) in matched {
        let unit = UnitName::new(&fake.name, unit);
        session.record_write(session.api.handle(set(Some(unit), &fake.units[&number])).await?.revision);
    }
    for number in removed {
        let unit = UnitName::new(&fake.name, number);
        let removal = RemoveUnit { unit, force: Force::No, destroy_storage: false };
        session.record_write(session.api.handle(removal).await?.revision);
    }
    Ok(true)
}

async fn remove<A: UserPort>(fake: &str, session: &CommandSession<A>) -> Result<(), CommandError> {
    let removal =
        RemoveApplication { application: fake.to_owned(), force: Force::No, destroy_storage: false };
    session.record_write(session.api.handle(removal).await?.revision);
    Ok(())
}

/// Deploys the application without units, from a generated charm.
async fn deploy<A: UserPort>(
    fake: &FakeApplication,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let cannot = |text: String| CommandError::new(format!("cannot make the charm of {}: {text}", fake.name));
    let files = [("metadata.yaml", fake.metadata(), false), ("dispatch", "#!/bin/sh\n".to_owned(), true)];
    let files =
        files.map(|(name, text, executable)| (name.to_owned(), FileEntry::from_bytes(text, executable)));
    let archive = charms::archive::pack(&files.into()).map_err(|error| cannot(error.to_string()))?;
    let options = ReadOptions { cache: session.dir.charm_cache(), force: true };
    let source = read_archive(&fake.name, archive, &options).map_err(|problems| {
        cannot(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    })?;
    let sha256 = charm_source::upload(source, session).await?.sha256;
    let deploy =
        Deploy { application: Some(fake.name.clone()), sha256, units: 0, fake: true, ..Deploy::default() };
    session.record_write(session.api.handle(deploy).await?.revision);
    Ok(())
}
