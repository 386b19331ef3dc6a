//! Reads, packs, unpacks and installs charms.
//!
//! `read` turns a charm folder or a `.charm` archive into what the charm declares and the archive to upload, or reports
//! every problem at once. `install` unpacks an archive beside a unit and swaps it in atomically; an archive is
//! untrusted until its digest and all of its members are checked. The CLI and the controller read charms, the unit
//! agent installs them. All functions block; async callers run them on a thread of their own.
//!
//! Reading order: `read`, `yaml`, `declaration` with `metadata`, `config`, `actions` and `charmcraft` (the charm's
//! files); `folder`, `safe_paths`, `archive`, `git_version`, `venv` with `packages` and `package_cache` (a folder into an archive);
//! `archive_entries`, `unpack`, `install` (an archive into a unit's folder).

#![warn(missing_docs)]

pub mod actions;
pub mod archive;
pub mod archive_entries;
pub mod assumes;
pub mod charmcraft;
pub mod config;
mod declaration;
pub mod folder;
mod git_version;
mod host_python;
mod ignore_rules;
pub mod install;
pub mod metadata;
pub mod package_cache;
mod packages;
pub mod problem;
pub mod read;
pub mod safe_paths;
pub mod unpack;
pub mod venv;
pub mod yaml;

pub use install::{InstallError, Installed, install, unpacked_files, verify};
pub use problem::Problem;
pub use read::{CharmSource, ReadOptions, declared_name, is_charm_folder, read, read_with_progress};
