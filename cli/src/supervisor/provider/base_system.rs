//! The base system of containers: a minimal Debian with the packages that classic charms expect.
//!
//! `pintle up` makes it once for a data folder; the root of each machine is an overlay over it.

use super::mounts::{mount_path, require_mount_path, unmount_below};
use crate::command_error::CommandError;
use crate::supervisor::host_programs;
use std::fs;
use std::io;
use std::path::Path;

/// Packages of the base system in addition to Debian's minimal set: those that classic charms expect.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,python3,python3-yaml,python3-venv,iproute2,ca-certificates,procps,\
                        netbase,sudo,lsb-release,rsync,cron,logrotate,perl,adduser,curl,openssl";
/// The release of Debian of the base system.
const SUITE: &str = "bookworm";

/// Creates the base system at `base` with debootstrap, in about two minutes. The folder gets its name only when it is
/// complete.
///
/// # Errors
/// If debootstrap is missing or fails.
pub fn make_base(base: &Path) -> Result<(), CommandError> {
    let to_error = |error: io::Error| CommandError::new(format!("cannot create {}: {error}", base.display()));
    let name = base
        .file_name()
        .ok_or_else(|| CommandError::new(format!("invalid base folder {}", base.display())))?;
    let parent = base.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(to_error)?;
    // No other program uses this name, so the remains of an earlier attempt can be deleted.
    let temporary = mount_path(parent)?.join(format!(".{}.pintle-new", name.to_string_lossy()));
    require_mount_path(&temporary)?;
    if temporary.exists() {
        unmount_below(&temporary)?;
        fs::remove_dir_all(&temporary).map_err(to_error)?;
    }
    let (include, path) = (format!("--include={PACKAGES}"), temporary.display().to_string());
    let mut args = vec!["--variant=minbase", &include, SUITE, &path];
    // A Debian host uses the mirror from which it installs its own packages.
    let targets =
        host_programs::run("apt-get", &["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]);
    let targets = targets.unwrap_or_default();
    let is_debian = fs::read_to_string("/etc/os-release").is_ok_and(|text| text.contains("\nID=debian\n"));
    args.extend(targets.lines().find(|uri| is_debian && !uri.contains("security")));
    host_programs::run("debootstrap", &args)?;
    fs::rename(&temporary, base).map_err(to_error)
}
