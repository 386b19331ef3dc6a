//! Creates the base systems of containers: with debootstrap from an archive mirror, or from a tarball.
//!
//! `pintle up` creates them once for a data folder; the root of each machine is an overlay over one of them. A base
//! system is created under a temporary name and renamed when it is complete.

use super::mounts::{mount_path, require_mount_path, unmount_below};
use crate::command_error::CommandError;
use crate::supervisor::host_programs;
use host::program::{COPY, QUICK};
use state::charm::Base;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Packages of a base system in addition to the minimal set: those that classic charms expect. debootstrap does not
/// resolve virtual packages: python3-cffi-backend and libpam-systemd provide what software-properties-common requires.
const PACKAGES: &str = "systemd,systemd-sysv,libpam-systemd,dbus,python3,python3-yaml,python3-venv,\
                        python3-cffi-backend,iproute2,iputils-ping,ca-certificates,gnupg,\
                        software-properties-common,procps,netbase,sudo,lsb-release,rsync,cron,logrotate,perl,\
                        adduser,curl,openssl";
/// Most of the time debootstrap unpacks and configures packages; the rest depends on the mirror. On two cores with a
/// near mirror it took from 3 to 6 minutes, and 9 while the host was busy.
pub const ESTIMATE: &str = "This is done once and takes 3 to 9 minutes, or longer if the mirror is slow.";

/// The steps of `debootstrap` that are shown: some 220 packages, each retrieved, unpacked and configured.
const STEPS_ABOUT: usize = 670;

/// A release that debootstrap can create.
struct Release {
    base: (&'static str, &'static str),
    /// The name of the release in the archive.
    suite: &'static str,
}

/// The releases by their names in archives. The first one is the base system of machines that request none.
const RELEASES: [Release; 6] = [
    Release { base: ("debian", "12"), suite: "bookworm" },
    Release { base: ("debian", "11"), suite: "bullseye" },
    Release { base: ("ubuntu", "24.04"), suite: "noble" },
    Release { base: ("ubuntu", "22.04"), suite: "jammy" },
    Release { base: ("ubuntu", "20.04"), suite: "focal" },
    Release { base: ("ubuntu", "18.04"), suite: "bionic" },
];

/// Creates the default base system at `root`. `progress` receives each step.
///
/// # Errors
/// If debootstrap is missing or fails.
pub fn make_default(root: &Path, progress: &dyn Fn(&str)) -> Result<(), CommandError> {
    // A Debian host uses the mirror from which it installs its own packages.
    let targets = host_programs::run_in_foreground(
        "apt-get",
        &["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian"],
        QUICK,
    );
    let targets = targets.unwrap_or_default();
    let is_debian = fs::read_to_string("/etc/os-release").is_ok_and(|text| text.contains("\nID=debian\n"));
    let mirror = targets.lines().find(|uri| is_debian && !uri.contains("security"));
    bootstrap(root, &RELEASES[0], mirror, progress)
}

/// Creates a base system at `root` from the archive at the URL `mirror`.
///
/// # Errors
/// If the release is unknown, or debootstrap is missing or fails.
pub fn make_from_mirror(
    root: &Path,
    base: &Base,
    mirror: &str,
    progress: &dyn Fn(&str),
) -> Result<(), CommandError> {
    let known = RELEASES.iter().find(|release| release.base == (base.name.as_str(), base.release()));
    let Some(release) = known else {
        let names: Vec<String> =
            RELEASES.iter().map(|release| format!("{}@{}", release.base.0, release.base.1)).collect();
        let text = format!("cannot create {base} from a mirror: known are {}", names.join(", "));
        return Err(CommandError::new(text).hint("give a root folder or a tarball"));
    };
    bootstrap(root, release, Some(mirror), progress)
}

/// Creates a base system at `root` from a tarball of a root file system.
///
/// # Errors
/// If the tarball cannot be unpacked.
pub fn make_from_tarball(root: &Path, tarball: &Path) -> Result<(), CommandError> {
    make(root, |temporary| {
        let to_error =
            |error: io::Error| CommandError::new(format!("cannot create {}: {error}", temporary.display()));
        fs::create_dir(temporary).map_err(to_error)?;
        let (tarball, to) = (tarball.display().to_string(), temporary.display().to_string());
        let keep = ["--numeric-owner", "--xattrs", "--xattrs-include=*"];
        let args = [&["-xpf", &tarball, "-C", &to], &keep[..]].concat();
        host_programs::run_in_foreground("tar", &args, COPY).map(drop)
    })
}

fn bootstrap(
    root: &Path,
    release: &Release,
    mirror: Option<&str>,
    progress: &dyn Fn(&str),
) -> Result<(), CommandError> {
    host_programs::require(&[("debootstrap", "debootstrap")])?;
    make(root, |temporary| {
        let (include, path) = (format!("--include={PACKAGES}"), temporary.display().to_string());
        let mut args = vec!["--variant=minbase", &include];
        if release.base.0 == "ubuntu" {
            args.push("--components=main,universe");
        }
        args.extend([release.suite, &path]);
        args.extend(mirror);
        let packages = std::cell::Cell::new(0);
        // It writes a line for each package; COPY allows for a package of 30 MB at 50 KiB/s.
        host_programs::run_with_lines("debootstrap", &args, COPY, &|line| {
            if let Some((verb, name)) = line.strip_prefix("I: ").and_then(|line| line.split_once(' ')) {
                let is_package = ["Retrieving", "Unpacking", "Configuring"].contains(&verb);
                packages.set(packages.get() + usize::from(is_package));
                let name = name.split([' ', '.']).next().unwrap_or_default();
                if is_package {
                    let (step, verb) = (packages.get(), verb.to_lowercase());
                    let all = step.max(STEPS_ABOUT);
                    progress(&format!("step {step} of about {all}: {verb} {name}"));
                }
            }
        })?;
        delete_packages(&temporary.join("var/cache/apt/archives"))
    })
}

/// Deletes the package files that debootstrap leaves in `folder`: a fifth of a base system.
fn delete_packages(folder: &Path) -> Result<(), CommandError> {
    let to_error = |error: io::Error| {
        CommandError::new(format!("cannot delete packages in {}: {error}", folder.display()))
    };
    for entry in fs::read_dir(folder).map_err(to_error)? {
        let path = entry.map_err(to_error)?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            fs::remove_file(&path).map_err(to_error)?;
        }
    }
    Ok(())
}

/// Creates `root`: calls `fill` to create a temporary folder, which is then renamed.
fn make(root: &Path, fill: impl FnOnce(&Path) -> Result<(), CommandError>) -> Result<(), CommandError> {
    let to_error = |error: io::Error| CommandError::new(format!("cannot create {}: {error}", root.display()));
    let name = root
        .file_name()
        .ok_or_else(|| CommandError::new(format!("invalid base folder {}", root.display())))?;
    let parent = root.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(to_error)?;
    // No other program uses this name, so the remains of an earlier attempt can be deleted.
    let temporary: PathBuf = mount_path(parent)?.join(format!(".{}.pintle-new", name.to_string_lossy()));
    require_mount_path(&temporary)?;
    if temporary.exists() {
        unmount_below(&temporary)?;
        fs::remove_dir_all(&temporary).map_err(to_error)?;
    }
    fill(&temporary)?;
    fs::rename(&temporary, root).map_err(to_error)
}
