//! A session with the fake controller. It keeps the output of its commands, and stores their notes in a
//! temporary folder.

use super::fake::{FakeClient, FakeController};
use cli::data_dir::DataDir;
use cli::model_notes::ModelNotes;
use cli::output::Output;
use cli::session::CommandSession;
use std::io::{self, Write};
use std::ops::Deref;
use std::sync::{Arc, Mutex};

/// A stream that keeps what is written to it.
#[derive(Clone, Default)]
struct Stream(Arc<Mutex<Vec<u8>>>);

impl Stream {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no writer panics").clone()).expect("commands print text")
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panics").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub struct FakeSession {
    session: CommandSession<FakeClient>,
    stdout: Stream,
    stderr: Stream,
    _folder: tempfile::TempDir,
}

impl FakeSession {
    /// A session in the model dev.
    pub fn new(api: FakeController) -> FakeSession {
        FakeSession::in_model(api, "dev")
    }

    /// A session with this model selected. The fake controller has one model, dev.
    pub fn in_model(api: FakeController, model: &str) -> FakeSession {
        let folder = tempfile::tempdir().expect("a folder");
        let (stdout, stderr) = (Stream::default(), Stream::default());
        let session = CommandSession {
            api: FakeClient::new(api, model),
            model: model.to_owned(),
            output: Output::new(None, stdout.clone(), stderr.clone()),
            notes: ModelNotes(folder.path().join("notes")),
            dir: DataDir::choose(Some(&folder.path().join("data"))).expect("a path"),
        };
        FakeSession { session, stdout, stderr, _folder: folder }
    }

    /// The same session on a terminal.
    pub fn on_a_terminal(mut self) -> FakeSession {
        let output = Output::new(None, self.stdout.clone(), self.stderr.clone());
        self.session.output = output.on_terminals(true, true);
        self
    }

    /// What the commands have printed: (stdout, stderr).
    pub fn printed(&self) -> (String, String) {
        (self.stdout.text(), self.stderr.text())
    }
}

impl Deref for FakeSession {
    type Target = CommandSession<FakeClient>;

    fn deref(&self) -> &CommandSession<FakeClient> {
        &self.session
    }
}
