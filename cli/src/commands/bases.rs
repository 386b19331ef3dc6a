//! `--base` of `deploy` and `add-machine`: the base that a machine will have, and a warning if it is not the requested
//! one.

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

/// The base of a new machine for which `requested` is requested; none if the os-release file of its base system does
/// not name one.
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

/// How other base systems are added.
const OTHER_BASES: &str = "other base systems: pintle up --provider nspawn --base-root";

/// The warning that a machine does not have the base of `--base`.
pub fn warning(flag: Option<&Base>, real: Option<&Base>) -> Option<String> {
    let flag = flag.filter(|flag| !real.is_some_and(|real| real.is_same_release(flag)))?;
    let real = real.map_or("without a known base".to_owned(), ToString::to_string);
    Some(format!("{flag} is not available: the machine is {real} ({OTHER_BASES})"))
}

/// The warning that a charm declares other bases than that of its machine. It is none if the base of the machine is
/// not known, and no refusal: most charms declare a release of Ubuntu and run on others as well.
pub fn charm_warning(charm: &Charm, real: Option<&Base>) -> Option<String> {
    let real = real.filter(|real| charm.is_for_other_bases_than(real))?;
    let mut declared: Vec<String> = charm.bases.iter().map(ToString::to_string).collect();
    declared.dedup();
    Some(format!(
        "charm {:?} is for {}: the machine is {real} ({OTHER_BASES})",
        charm.name,
        declared.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_that_the_machine_does_not_have_is_a_warning_that_names_the_real_one() {
        let base = |text: &str| Base::parse(text).expect("a base");
        let (flag, real) = (base("ubuntu@22.04/stable"), base("debian@12"));
        let text = warning(Some(&flag), Some(&real)).expect("a warning");
        assert!(text.starts_with("ubuntu@22.04 ") && text.contains("debian@12"), "{text}");
        assert_eq!(warning(Some(&flag), Some(&base("ubuntu@22.04"))), None);
        assert_eq!(warning(None, Some(&real)), None);
    }

    #[test]
    fn a_charm_for_other_bases_than_its_machine_is_a_warning_that_names_both() {
        let base = |text: &str| Base::parse(text).expect("a base");
        let of = |bases: &[&str]| Charm {
            bases: bases.iter().map(|text| base(text)).collect(),
            ..Charm::default()
        };
        let real = base("debian@12");
        let text = charm_warning(&of(&["ubuntu@22.04", "ubuntu@24.04"]), Some(&real)).expect("a warning");
        assert!(text.contains("ubuntu@22.04, ubuntu@24.04") && text.contains("debian@12"), "{text}");
        assert_eq!(charm_warning(&of(&["ubuntu@22.04", "debian@12/stable"]), Some(&real)), None);
        assert_eq!(charm_warning(&of(&["ubuntu@22.04"]), None), None, "unknown");
        assert_eq!(charm_warning(&of(&[]), Some(&real)), None);
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
