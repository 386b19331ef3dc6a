//! The operating systems of machines: which base systems exist, and which one a machine gets.
//!
//! A machine gets the base system that was requested for it if the provider has it, and otherwise the default one. The
//! os-release file of a system names its base.

use super::base_system;
use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::supervisor::settings::{BaseRoot, UpSettings};
use state::charm::Base;
use state::terms::provider_kind::ProviderKind;
use std::fs;
use std::path::{Path, PathBuf};

/// Where a base system comes from, as `--base-root` names it: `ubuntu@22.04=PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseSource {
    base: Base,
    /// A root folder, a tarball of one, or the URL of an archive mirror.
    from: String,
}

/// The folder of the nspawn provider in the data folder. The machines are not in it.
pub(super) fn own_folder(dir: &DataDir) -> PathBuf {
    dir.path().join("nspawn")
}

impl BaseSource {
    /// Parses the value of `--base-root`.
    ///
    /// # Errors
    /// If the text is not of the form NAME@RELEASE=PATH.
    pub fn parse(text: &str) -> Result<BaseSource, String> {
        let parts = text.split_once('=').and_then(|(base, from)| Some((Base::parse(base)?, from)));
        match parts {
            Some((base, from)) if !from.is_empty() => Ok(BaseSource { base, from: from.to_owned() }),
            _ => Err("expected NAME@RELEASE=PATH, for example ubuntu@22.04=/srv/jammy.tar.xz".to_owned()),
        }
    }

    /// Creates the base system in the data folder, unless it is a folder already.
    ///
    /// # Errors
    /// If it cannot be created, has another base than its name, or cannot boot.
    pub fn make(&self, dir: &DataDir, progress: &dyn Fn(&str)) -> Result<BaseRoot, CommandError> {
        let (base, from) = (self.base.clone(), Path::new(&self.from));
        if from.is_dir() {
            let root = std::path::absolute(from)
                .map_err(|error| CommandError::new(format!("cannot use {}: {error}", self.from)))?;
            check(&root, &base)?;
            return Ok(BaseRoot { base, root });
        }
        let root = own_folder(dir).join("bases").join(base.to_string());
        if !root.is_dir() {
            progress(&format!("creating the base system {base} from {}", self.from));
            match self.from.contains("://") {
                true => base_system::make_from_mirror(&root, &base, &self.from, progress)?,
                false => base_system::make_from_tarball(&root, from)?,
            }
        }
        // A system that cannot be used is deleted, so that the next attempt creates it again.
        check(&root, &base).inspect_err(|_| drop(fs::remove_dir_all(&root)))?;
        Ok(BaseRoot { base, root })
    }
}

/// Checks that the system in `root` has this base, and that it can boot.
fn check(root: &Path, base: &Base) -> Result<(), CommandError> {
    let cannot =
        |text: String| Err(CommandError::new(format!("cannot use {} as {base}: {text}", root.display())));
    match of_root(root) {
        Some(found) if found.is_same_release(base) => {}
        Some(found) => return cannot(format!("its os-release says {found}")),
        None => return cannot("it has no os-release".to_owned()),
    }
    let systemd = ["usr/lib/systemd/systemd", "lib/systemd/systemd"];
    if !systemd.iter().any(|path| root.join(path).exists()) {
        return cannot("it has no systemd".to_owned());
    }
    Ok(())
}

/// The base of the system in `root`, from its os-release file; none if it does not name one.
pub fn of_root(root: &Path) -> Option<Base> {
    // `etc/os-release` is mostly a link, and an absolute one would lead out of the root.
    let text = ["etc/os-release", "usr/lib/os-release"].iter().find_map(|file| {
        let path = root.join(file);
        let is_own = root == Path::new("/") || !fs::read_link(&path).is_ok_and(|target| target.is_absolute());
        if is_own { fs::read_to_string(path).ok() } else { None }
    });
    Base::of_os_release(&text?)
}

/// The base systems that new machines of a data folder can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bases {
    /// The root of machines that request none.
    pub default: PathBuf,
    /// The other base systems.
    pub others: Vec<BaseRoot>,
}

impl Bases {
    /// The base systems of the settings of `up`: for the local provider, this host.
    pub fn of_settings(settings: &UpSettings, dir: &DataDir) -> Bases {
        match settings.provider {
            ProviderKind::Local => Bases { default: PathBuf::from("/"), others: Vec::new() },
            ProviderKind::Nspawn => {
                let folder = settings.default_root.clone().unwrap_or_else(|| own_folder(dir).join("base"));
                // If only other base systems are given, no default is created: the first of them is the default.
                let first = settings
                    .base_roots
                    .first()
                    .filter(|_| settings.default_root.is_none() && !folder.is_dir());
                let default = first.map_or(folder, |first| first.root.clone());
                Bases { default, others: settings.base_roots.clone() }
            }
        }
    }

    /// The root of a machine for which `requested` was requested.
    pub fn choose(&self, requested: Option<&Base>) -> &Path {
        let found =
            requested.and_then(|base| self.others.iter().find(|other| other.base.is_same_release(base)));
        found.map_or(&self.default, |found| &found.root)
    }

    /// Whether a machine can have this base.
    pub fn has(&self, base: &Base) -> bool {
        of_root(self.choose(Some(base))).is_some_and(|found| found.is_same_release(base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(at: &Path, release: &str) -> PathBuf {
        fs::create_dir_all(at.join("usr/lib/systemd")).expect("created");
        fs::create_dir_all(at.join("etc")).expect("created");
        fs::write(at.join("usr/lib/os-release"), format!("NAME=x\nID=ubuntu\nVERSION_ID=\"{release}\"\n"))
            .expect("written");
        // an absolute link, which would lead to the file of this host
        std::os::unix::fs::symlink("/usr/lib/os-release", at.join("etc/os-release")).expect("linked");
        fs::write(at.join("usr/lib/systemd/systemd"), "").expect("written");
        at.to_owned()
    }

    #[test]
    fn a_root_is_used_only_as_what_its_os_release_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(&folder.path().join("data"))).expect("a path");
        let root = system(&folder.path().join("root"), "22.04");
        let make = |base: &str| {
            BaseSource::parse(&format!("{base}={}", root.display())).expect("parses").make(&dir, &|_| {})
        };
        let made = make("ubuntu@22.04").expect("it is that");
        assert_eq!((made.base.to_string().as_str(), &made.root), ("ubuntu@22.04", &root));
        let refused = make("ubuntu@24.04").expect_err("it is another").message;
        assert!(refused.contains("ubuntu@24.04: ") && refused.ends_with("ubuntu@22.04"), "{refused}");
        fs::remove_file(root.join("usr/lib/systemd/systemd")).expect("removed");
        assert!(make("ubuntu@22.04").expect_err("it cannot boot").message.ends_with("systemd"));
        for wrong in ["ubuntu", "ubuntu@22.04", "ubuntu=x", "@1=x", "ubuntu@22.04="] {
            assert!(BaseSource::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_tarball_becomes_a_base_system_of_the_data_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(&folder.path().join("data"))).expect("a path");
        let root = system(&folder.path().join("root"), "22.04");
        let tarball = folder.path().join("root.tar");
        let (to, from) = (tarball.display().to_string(), root.display().to_string());
        let args = ["-cf", &to, "-C", &from, "."];
        crate::supervisor::host_programs::run_in_foreground("tar", &args, host::program::COPY)
            .expect("packed");
        let source = |base: &str| BaseSource::parse(&format!("{base}={to}")).expect("parses");
        let refused = source("ubuntu@24.04").make(&dir, &|_| {}).expect_err("it is another").message;
        assert!(refused.ends_with("ubuntu@22.04"), "{refused}");
        let made = source("ubuntu@22.04").make(&dir, &|_| {}).expect("unpacked");
        assert_eq!(made.root, own_folder(&dir).join("bases/ubuntu@22.04"));
        assert_eq!(of_root(&made.root), Some(made.base));
        assert!(!own_folder(&dir).join("bases/ubuntu@24.04").exists());
    }

    #[test]
    fn a_machine_gets_the_requested_base_or_the_default() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(&folder.path().join("data"))).expect("a path");
        let root = |release: &str| BaseRoot {
            base: Base::parse(&format!("ubuntu@{release}")).expect("a base"),
            root: system(&folder.path().join(release), release),
        };
        let base_roots = vec![root("22.04"), root("24.04")];
        let settings = UpSettings { provider: ProviderKind::Nspawn, base_roots, ..UpSettings::default() };
        let bases = Bases::of_settings(&settings, &dir);
        let base = |text: &str| Base::parse(text).expect("a base");
        assert_eq!(bases.choose(None), folder.path().join("22.04"), "no other one was created");
        assert_eq!(bases.choose(Some(&base("ubuntu@24.04/stable"))), folder.path().join("24.04"));
        assert_eq!(bases.choose(Some(&base("debian@12"))), folder.path().join("22.04"));
        assert!(!bases.has(&base("ubuntu@20.04")) && bases.has(&base("ubuntu@24.04")));
        fs::create_dir_all(own_folder(&dir).join("base")).expect("created");
        assert_eq!(Bases::of_settings(&settings, &dir).default, own_folder(&dir).join("base"));
    }
}
