//! The flags that the commands of hints need in the shell of the reader.
//!
//! A data folder or a model that this shell would use anyway, by default or by its environment, is not repeated.

use crate::arguments::GlobalArguments;
use crate::command_flags::CommandFlags;
use crate::data_dir::DataDir;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The flags that a command of a hint needs in the shell that has started this process.
pub fn needed_flags(global: &GlobalArguments) -> CommandFlags {
    flags_in(global, |name| std::env::var_os(name).filter(|value| !value.is_empty()))
}

/// The flags that a command of a hint needs in a shell with these variables: what that shell would use needs no flag.
fn flags_in(global: &GlobalArguments, variable: impl Fn(&str) -> Option<OsString>) -> CommandFlags {
    let of_shell = variable("PINTLE_DATA").map(PathBuf::from);
    let of_shell = DataDir::choose_in(of_shell.as_deref(), &variable).ok();
    let is_other = |data: &&Path| DataDir::choose_in(Some(data), &variable).ok() != of_shell;
    let data = global.data.as_deref().filter(|data| !data.as_os_str().is_empty()).filter(is_other);
    let is_other = |model: &&str| variable("JUJU_MODEL").as_deref() != Some(OsStr::new(model));
    let model = global.model.as_deref().filter(|model| !model.is_empty()).filter(is_other);
    CommandFlags::new(data, model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_needs_only_flags_that_the_shell_of_the_reader_lacks() {
        let flags = |data: Option<&str>, model: Option<&str>, variables: &[(&str, &str)]| {
            let (data, model) = (data.map(PathBuf::from), model.map(str::to_owned));
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            flags_in(&GlobalArguments { data, model, ..GlobalArguments::default() }, variable)
        };
        let with = |data: Option<&str>, model| CommandFlags::new(data.map(Path::new), model);
        let home = ("HOME", "/home/a");
        let exported = [home, ("PINTLE_DATA", "/d"), ("JUJU_MODEL", "shop")];
        assert_eq!(flags(Some("/d"), Some("shop"), &exported), with(None, None));
        assert_eq!(flags(Some("/e"), Some("dev"), &exported), with(Some("/e"), Some("dev")));
        assert_eq!(flags(Some("/d"), Some("shop"), &[home]), with(Some("/d"), Some("shop")));
        assert_eq!(
            flags(Some("/home/a/.local/share/pintle"), None, &[home]),
            with(None, None),
            "the default"
        );
        assert_eq!(flags(Some("/d"), None, &[]), with(Some("/d"), None));
        assert_eq!(flags(None, None, &[home]), with(None, None));
    }
}
