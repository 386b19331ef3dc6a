//! Where a command's words go: results to stdout (or the file of `-o`), remarks to stderr.

use crate::command_error::Failure;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Mutex;

/// Output of one command. Results that went to a closed pipe are not an error: whoever reads has read enough.
pub enum Output {
    Process {
        file: Option<PathBuf>,
    },
    /// For tests: (stdout, stderr).
    Memory(Mutex<(String, String)>),
}

impl Output {
    pub fn memory() -> Output {
        Output::Memory(Mutex::default())
    }

    /// What was said into [`Output::memory`].
    pub fn said(&self) -> (String, String) {
        match self {
            Output::Process { .. } => Default::default(),
            Output::Memory(said) => said.lock().expect("no writer panics").clone(),
        }
    }

    /// A result, for stdout.
    pub fn say(&self, text: &str) -> Result<(), Failure> {
        match self {
            Output::Process { file: Some(file) } => std::fs::write(file, text)
                .map_err(|error| Failure::new(format!("cannot write {}: {error}", file.display()))),
            Output::Process { file: None } => {
                let mut stdout = io::stdout().lock();
                match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
                    Err(error) => Err(Failure::new(format!("cannot write the output: {error}"))),
                    Ok(()) => Ok(()),
                }
            }
            Output::Memory(said) => {
                said.lock().expect("no writer panics").0.push_str(text);
                Ok(())
            }
        }
    }

    /// A remark, for stderr. That nobody reads it is no reason to fail.
    pub fn note(&self, text: &str) {
        match self {
            Output::Process { .. } => drop(io::stderr().lock().write_all(text.as_bytes())),
            Output::Memory(said) => said.lock().expect("no writer panics").1.push_str(text),
        }
    }

    /// `WARNING text` for each.
    pub fn warn(&self, warnings: &[String]) {
        for warning in warnings {
            self.note(&format!("WARNING {}\n", crate::terminal::safe_line(warning)));
        }
    }
}
