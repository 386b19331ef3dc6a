//! Reading a charm: a folder or a `.charm` archive in, everything it declares out, or everything that is wrong with
//! it. And the other end of its way: unpacking it safely beside a unit and swapping it in.
//!
//! Reading order: `read` (the whole), `yaml`, `declared` with `metadata`, `config`, `actions`, `charmcraft` (what the
//! files say); `folder`, `names`, `archive` (a folder into an archive), `venv` (Python packages); `members`, `unpack`,
//! `install` (an archive into a unit's folder).
//!
//! Blocking and without async: callers run it on a thread of its own.

pub mod actions;
pub mod archive;
pub mod assumes;
pub mod charmcraft;
pub mod config;
mod declared;
pub mod folder;
pub mod install;
pub mod members;
pub mod metadata;
pub mod names;
pub mod problem;
pub mod read;
pub mod unpack;
pub mod venv;
pub mod yaml;

pub use install::{InstallError, Installed, install, verify};
pub use problem::Problem;
pub use read::{ReadOptions, Source, read};
