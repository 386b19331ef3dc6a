//! `--base` of `deploy` and `add-machine`: which base a machine will have, and the warning if that is another one.

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::session::CommandSession;
use crate::supervisor::provider::bases::{Bases, of_root};
use crate::supervisor::settings::UpSettings;
use api::{GetStatus, UserPort};
use state::charm::Base;

/// Parses the value of `--base`.
///
/// # Errors
/// If it is not of the form NAME@RELEASE.
pub fn parse(text: &str) -> Result<Base, String> {
    Base::parse(text).ok_or_else(|| "expected NAME@RELEASE, for example ubuntu@22.04".to_owned())
}

/// The base that a new machine has for which `requested` is requested; none if its system does not name one.
///
/// # Errors
/// If the settings of `up` cannot be read.
pub fn of_new_machine(dir: &DataDir, requested: Option<&Base>) -> Result<Option<Base>, CommandError> {
    Ok(of_root(Bases::of_settings(&UpSettings::read(dir)?, dir).choose(requested)))
}

/// The base to request for an application: that of `--base`, or else the first one of its charm that machines can have.
///
/// # Errors
/// If the settings of `up` cannot be read.
pub fn requested(dir: &DataDir, flag: Option<&Base>, charm: &[Base]) -> Result<Option<Base>, CommandError> {
    let bases = Bases::of_settings(&UpSettings::read(dir)?, dir);
    Ok(flag.or_else(|| bases.first_of(charm)).cloned())
}

/// The base of an existing machine; none if there is no such machine, or its base is unknown.
///
/// # Errors
/// If the controller does not answer.
pub async fn of_machine<A: UserPort>(
    session: &CommandSession<A>,
    name: &str,
) -> Result<Option<Base>, CommandError> {
    let status = session.api.handle(GetStatus).await?;
    Ok(status.machines.get(name).map(|machine| machine.base.clone()).filter(|base| !base.name.is_empty()))
}

/// The warning that a machine does not have the base of `--base`.
pub fn warning(flag: Option<&Base>, real: Option<Base>) -> Vec<String> {
    let flag = flag.filter(|flag| !real.as_ref().is_some_and(|real| real.is_same_release(flag)));
    let real = real.map_or("without a known base".to_owned(), |real| real.to_string());
    let hint = "other base systems: pintle up --provider nspawn --base-root";
    flag.map(|flag| format!("{flag} is not available: the machine is {real} ({hint})")).into_iter().collect()
}
