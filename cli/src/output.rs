//! The output of a command: results go to stdout (or the file of `-o`), remarks and warnings to stderr.
//!
//! Clients parse stdout, so nothing but results may be printed there. Commands print only through [`Output`]. It escapes
//! control characters where a stream is a terminal, whatever a command prints: text of charms is in the output of
//! processes, in YAML and in JSON. Elsewhere every byte is printed as it is.

use crate::arguments::GlobalArguments;
use crate::command_error::CommandError;
use crate::command_flags::CommandFlags;
use crate::needed_flags::needed_flags;
use crate::render::{Colours, Table};
use crate::terminal_escape::{safe_line, safe_text};
use api::WriteWarning;
use api::text::warning;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

type Stream = Mutex<Box<dyn Write + Send>>;

/// Output of one command. A closed pipe on stdout is not an error: the reader (for example `head`) needs no more.
pub struct Output {
    /// The file of `-o`, which receives the result instead of stdout.
    file: Option<ResultFile>,
    stdout: Stream,
    stderr: Stream,
    /// The flags that a command of a hint needs.
    flags: CommandFlags,
    /// Whether stdout is a terminal.
    stdout_is_terminal: bool,
    /// Whether stderr is a terminal.
    stderr_is_terminal: bool,
}

/// The file of a result that may be printed in parts.
struct ResultFile {
    path: PathBuf,
    /// `None` until the first part is printed, which replaces the former content.
    opened: Mutex<Option<File>>,
}

impl ResultFile {
    fn write(&self, text: &str) -> io::Result<()> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match &mut *opened {
            Some(file) => file,
            none => none.insert(File::create(&self.path)?),
        };
        file.write_all(text.as_bytes())
    }
}

impl Output {
    /// An output to the streams of this process, or to the file of `-o`.
    pub fn of_process(global: &GlobalArguments) -> Output {
        let output = Output::new(global.output.clone(), io::stdout(), io::stderr());
        let (stdout, stderr) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Output { flags: needed_flags(global), ..output.on_terminals(stdout, stderr) }
    }

    /// The same output; whether stdout and stderr are terminals is as stated.
    pub fn on_terminals(self, stdout_is_terminal: bool, stderr_is_terminal: bool) -> Output {
        Output { stdout_is_terminal, stderr_is_terminal, ..self }
    }

    /// An output to these streams, which are no terminals. The result goes to `file` instead of `stdout` if there is one.
    pub fn new(
        file: Option<PathBuf>,
        stdout: impl Write + Send + 'static,
        stderr: impl Write + Send + 'static,
    ) -> Output {
        let (stdout, stderr): (Stream, Stream) = (Mutex::new(Box::new(stdout)), Mutex::new(Box::new(stderr)));
        let flags = CommandFlags::default();
        let file = file.map(|path| ResultFile { path, opened: Mutex::new(None) });
        Output { file, stdout, stderr, flags, stdout_is_terminal: false, stderr_is_terminal: false }
    }

    /// Prints a result on stdout, or into the file of `-o`.
    ///
    /// # Errors
    /// The stream or the file cannot be written. A closed pipe ends the process with exit code 0 instead.
    pub fn print(&self, text: &str) -> Result<(), CommandError> {
        self.print_safe(&safe_for(self.is_terminal(), text))
    }

    /// Prints a table, with colours on a terminal.
    ///
    /// # Errors
    /// See [`Output::print`].
    pub fn print_table(&self, table: &Table<'_>, colours: &Colours) -> Result<(), CommandError> {
        match self.has_colours() {
            true => self.print_safe(&table.coloured_text(colours)),
            false => self.print_safe(&table.text()),
        }
    }

    /// Whether results are printed on a terminal.
    pub fn is_terminal(&self) -> bool {
        self.stdout_is_terminal && self.file.is_none()
    }

    /// Whether results are printed on a terminal that shows colours (`NO_COLOR`: no-color.org).
    pub fn has_colours(&self) -> bool {
        let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        self.is_terminal() && !is_unwanted
    }

    /// Prints a result in which text of charms is escaped already.
    ///
    /// # Errors
    /// See [`Output::print`].
    pub fn print_safe(&self, text: &str) -> Result<(), CommandError> {
        if let Some(file) = &self.file {
            return file.write(text).map_err(|error| {
                CommandError::new(format!("cannot write {}: {error}", file.path.display()))
            });
        }
        let mut stdout = lock(&self.stdout);
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
            Err(error) => Err(CommandError::new(format!("cannot write the output: {error}"))),
            Ok(()) => Ok(()),
        }
    }

    /// The flags of this command line that the commands of hints need.
    pub fn flags(&self) -> &CommandFlags {
        &self.flags
    }

    /// Returns a text of Pintle's own with the flags of this command line in the commands that it names.
    pub fn complete(&self, text: &str) -> String {
        self.flags.complete(text)
    }

    /// Prints a remark on stderr. Write errors are ignored, because a remark is not part of the result.
    pub fn print_remark(&self, text: &str) {
        drop(lock(&self.stderr).write_all(safe_for(self.stderr_is_terminal, text).as_bytes()));
    }

    /// Prints what a person can do next, on stderr, if that is a terminal: programs do not read it.
    pub fn print_hint(&self, hint: &str) {
        if self.stderr_is_terminal {
            self.print_remark(&format!("{}\n", self.complete(hint)));
        }
    }

    /// Whether remarks appear on a terminal, where [`Output::rewrite_line`] has an effect.
    pub fn can_rewrite_lines(&self) -> bool {
        self.stderr_is_terminal
    }

    /// Replaces the current line of the terminal by another one. Only if [`Output::can_rewrite_lines`].
    pub fn rewrite_line(&self, line: &str) {
        drop(lock(&self.stderr).write_all(format!("\r{}\x1b[K", safe_line(line)).as_bytes()));
    }

    /// Prints the warnings about a write on stderr.
    pub fn warn_of(&self, warnings: &[WriteWarning]) {
        self.warn(&warnings.iter().map(warning::describe).collect::<Vec<_>>());
    }

    /// Prints `WARNING text` on stderr for each warning.
    pub fn warn(&self, warnings: &[String]) {
        for warning in warnings {
            self.print_remark(&format!("WARNING {}\n", safe_line(&self.complete(warning))));
        }
    }
}

fn lock(stream: &Stream) -> MutexGuard<'_, Box<dyn Write + Send>> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A text as it is printed: without control characters, except line breaks and tabs, on a terminal.
fn safe_for(is_terminal: bool, text: &str) -> Cow<'_, str> {
    match is_terminal {
        true => safe_text(text).into(),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `debug-log` prints a long log page by page.
    #[test]
    fn a_result_in_parts_replaces_the_file_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("result");
        std::fs::write(&file, "from an earlier command").expect("written");
        let output = Output::new(Some(file.clone()), io::sink(), io::sink());
        output.print("one\n").expect("it is ours");
        output.print("two\n").expect("it is ours");
        assert_eq!(std::fs::read_to_string(&file).expect("text"), "one\ntwo\n");
    }
}
