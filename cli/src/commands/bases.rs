//! `--base` of `deploy` and `add-machine`: which base a machine will have, and the warning if that is another one.

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::session::CommandSession;
use crate::supervisor::provider::bases::{Bases, of_root};
use crate::supervisor::settings::UpSettings;
use api::{GetStatus, UserPort};
use state::charm::{Base, Charm};

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

/// The base to request for an application of a charm, with the bases that machines can have by the settings of `up`.
///
/// # Errors
/// If the settings of `up` cannot be read.
pub fn requested(dir: &DataDir, flag: Option<&Base>, charm: &Charm) -> Result<Option<Base>, CommandError> {
    let bases = Bases::of_settings(&UpSettings::read(dir)?, dir);
    Ok(charm.requested_base(flag, |base| bases.has(base)).cloned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_that_the_machine_does_not_have_is_a_warning_that_names_the_real_one() {
        let base = |text: &str| Base::parse(text).expect("a base");
        let (flag, real) = (base("ubuntu@22.04/stable"), base("debian@12"));
        let warnings = warning(Some(&flag), Some(real.clone()));
        assert!(
            warnings[0].starts_with("ubuntu@22.04 ") && warnings[0].contains("debian@12"),
            "{warnings:?}"
        );
        assert_eq!(warning(Some(&flag), Some(base("ubuntu@22.04"))), [""; 0]);
        assert_eq!(warning(None, Some(real)), [""; 0]);
    }

    #[test]
    fn the_base_of_a_local_machine_is_that_of_this_host() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(folder.path())).expect("a path");
        let host = of_root(std::path::Path::new("/"));
        let wanted = Base::parse("nothing@1").expect("a base");
        assert_eq!(of_new_machine(&dir, Some(&wanted)).expect("settings"), host);
        let charm = Charm { bases: vec![wanted.clone()], ..Charm::default() };
        assert_eq!(requested(&dir, None, &charm).expect("settings"), None);
        assert_eq!(requested(&dir, Some(&wanted), &Charm::default()).expect("settings"), Some(wanted));
    }
}
