//! The width of the terminal. Progress lines are cut to it, and on a narrow terminal the help of each argument stands below its
//! name (`fitted`).

use clap::Command;
use std::os::fd::AsFd;
use terminal_size::{Width, terminal_size_of};

/// The columns of a terminal that does not tell its size.
const COLUMNS_DEFAULT: u16 = 80;
/// The fewest columns at which the help of an argument is beside its name. The longest name takes half of them; on a
/// narrower terminal the help would wrap at almost every word.
const HELP_BESIDE_COLUMNS: u16 = 80;

/// The columns of the terminal of a stream; a default if it is no terminal.
pub fn columns(stream: impl AsFd) -> u16 {
    let width = terminal_size_of(stream).map(|(Width(columns), _)| columns);
    width.filter(|columns| *columns > 0).unwrap_or(COLUMNS_DEFAULT)
}

/// The command line with its help in the form for a terminal of this many columns.
pub fn fitted(command: Command, columns: u16) -> Command {
    let is_narrow = columns < HELP_BESIDE_COLUMNS;
    command.next_line_help(is_narrow).mut_subcommands(|verb| verb.next_line_help(is_narrow))
}
