//! The output of a command: results go to stdout (or the file of `-o`), remarks and warnings to stderr.
//!
//! Clients parse stdout, so nothing but results may be printed there. Commands print only through [`Output`].

use crate::arguments::GlobalArguments;
use crate::command_error::CommandError;
use crate::command_flags::CommandFlags;
use api::WriteWarning;
use api::text::warning;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

type Stream = Mutex<Box<dyn Write + Send>>;

/// Output of one command. A closed pipe on stdout is not an error: the reader (for example `head`) needs no more.
pub struct Output {
    /// The file of `-o`, which receives the result instead of stdout.
    file: Option<PathBuf>,
    stdout: Stream,
    stderr: Stream,
    /// The flags that a command of a hint needs.
    flags: CommandFlags,
    /// Whether stderr is a terminal.
    is_terminal: bool,
}

impl Output {
    /// An output to the streams of this process, or to the file of `-o`.
    pub fn of_process(global: &GlobalArguments) -> Output {
        let output = Output::new(global.output.clone(), io::stdout(), io::stderr());
        Output { is_terminal: io::stderr().is_terminal(), flags: global.flags(), ..output }
    }

    /// An output to these streams. The result goes to `file` instead of `stdout` if there is one.
    pub fn new(
        file: Option<PathBuf>,
        stdout: impl Write + Send + 'static,
        stderr: impl Write + Send + 'static,
    ) -> Output {
        let (stdout, stderr): (Stream, Stream) = (Mutex::new(Box::new(stdout)), Mutex::new(Box::new(stderr)));
        Output { file, stdout, stderr, flags: CommandFlags::default(), is_terminal: false }
    }

    /// Prints a result on stdout, or into the file of `-o`.
    ///
    /// # Errors
    /// The stream or the file cannot be written. A closed pipe ends the process with exit code 0 instead.
    pub fn print(&self, text: &str) -> Result<(), CommandError> {
        if let Some(file) = &self.file {
            return std::fs::write(file, text)
                .map_err(|error| CommandError::new(format!("cannot write {}: {error}", file.display())));
        }
        let mut stdout = lock(&self.stdout);
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
            Err(error) => Err(CommandError::new(format!("cannot write the output: {error}"))),
            Ok(()) => Ok(()),
        }
    }

    /// Returns a text of Pintle's own with the flags of this command line in the commands that it names.
    pub fn complete(&self, text: &str) -> String {
        self.flags.complete(text)
    }

    /// Prints a remark on stderr. Write errors are ignored, because a remark is not part of the result.
    pub fn print_remark(&self, text: &str) {
        drop(lock(&self.stderr).write_all(text.as_bytes()));
    }

    /// Whether remarks appear on a terminal, where a line can be rewritten.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Prints the warnings about a write on stderr.
    pub fn warn_of(&self, warnings: &[WriteWarning]) {
        self.warn(&warnings.iter().map(warning::describe).collect::<Vec<_>>());
    }

    /// Prints `WARNING text` on stderr for each warning.
    pub fn warn(&self, warnings: &[String]) {
        for warning in warnings {
            let line = crate::terminal_escape::safe_line(&self.complete(warning));
            self.print_remark(&format!("WARNING {line}\n"));
        }
    }
}

fn lock(stream: &Stream) -> MutexGuard<'_, Box<dyn Write + Send>> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}
