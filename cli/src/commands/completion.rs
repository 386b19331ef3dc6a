//! `completion SHELL`: the script that lets a shell complete commands, flags and the names of the model.
//!
//! `man FOLDER`: the manual pages of all commands.

use crate::command_error::CommandError;
use crate::output::Output;
use clap::{Args, Command};
use clap_complete::env::Shells;
use std::path::{Path, PathBuf};

/// The environment variable with which a shell requests completions; its value is the name of the shell.
pub const VARIABLE: &str = "PINTLE_COMPLETE";

/// Arguments of `completion`.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// The shell
    pub shell: Shell,
}

/// The shells for which there is a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The folder of the pages; it is created
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}

/// Prints the script of a shell. It completes the name under which this program was called.
///
/// # Errors
/// If it cannot be printed.
pub fn run(args: &CompletionArgs, output: &Output) -> Result<(), CommandError> {
    let program = std::env::args_os().next().map(PathBuf::from);
    let called = program.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    let name = called.unwrap_or("pintle");
    let shell = match args.shell {
        Shell::Bash => "bash",
        Shell::Zsh => "zsh",
        Shell::Fish => "fish",
    };
    let shells = Shells::builtins();
    let completer = shells.completer(shell).expect("the library has it");
    let mut script = Vec::new();
    completer
        .write_registration(VARIABLE, name, name, name, &mut script)
        .map_err(|error| CommandError::new(format!("cannot write the script: {error}")))?;
    output.print(&String::from_utf8_lossy(&script))
}

/// Writes the manual pages of a command line.
///
/// # Errors
/// If a page cannot be written.
pub fn man(args: &ManArgs, command: Command, output: &Output) -> Result<(), CommandError> {
    let folder = &args.folder;
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
    written.map_err(|error| {
        CommandError::new(format!("cannot write manual pages to {}: {error}", folder.display()))
    })?;
    output.print(&format!("The manual pages are in {}; read one with: man pintle-deploy\n", folder.display()))
}
