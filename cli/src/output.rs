//! The output of a command: results go to stdout (or the file of `-o`), remarks and warnings to stderr.
//!
//! Clients parse stdout, so nothing but results may be printed there. Commands print only through [`Output`].

use crate::command_error::CommandError;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Mutex;

/// Output of one command. A closed pipe on stdout is not an error: the reader (for example `head`) needs no more.
pub enum Output {
    /// The streams of this process.
    Process {
        /// The file of `-o`, which receives the result instead of stdout.
        file: Option<PathBuf>,
    },
    /// For tests: (stdout, stderr).
    Memory(Mutex<(String, String)>),
}

impl Output {
    /// An output that stores what is printed, for tests.
    pub fn memory() -> Output {
        Output::Memory(Mutex::default())
    }

    /// What was printed to [`Output::memory`]: (stdout, stderr).
    pub fn printed(&self) -> (String, String) {
        match self {
            Output::Process { .. } => Default::default(),
            Output::Memory(printed) => printed.lock().expect("no writer panics").clone(),
        }
    }

    /// Prints a result on stdout.
    pub fn print(&self, text: &str) -> Result<(), CommandError> {
        match self {
            Output::Process { file: Some(file) } => std::fs::write(file, text)
                .map_err(|error| CommandError::new(format!("cannot write {}: {error}", file.display()))),
            Output::Process { file: None } => {
                let mut stdout = io::stdout().lock();
                match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
                    Err(error) => Err(CommandError::new(format!("cannot write the output: {error}"))),
                    Ok(()) => Ok(()),
                }
            }
            Output::Memory(printed) => {
                printed.lock().expect("no writer panics").0.push_str(text);
                Ok(())
            }
        }
    }

    /// Prints a remark on stderr. Write errors are ignored, because a remark is not part of the result.
    pub fn print_remark(&self, text: &str) {
        match self {
            Output::Process { .. } => drop(io::stderr().lock().write_all(text.as_bytes())),
            Output::Memory(printed) => printed.lock().expect("no writer panics").1.push_str(text),
        }
    }

    /// Prints `WARNING text` on stderr for each warning.
    pub fn warn(&self, warnings: &[String]) {
        for warning in warnings {
            self.print_remark(&format!("WARNING {}\n", crate::terminal_escape::safe_line(warning)));
        }
    }
}
