//! What `pintle dev` uses: the watch on the files of a charm, the display of its hooks, the file of fake applications,
//! which is matched with the fake applications of the model, and the lines that are typed while it runs.
//!
//! These modules send requests only; the controller makes the decisions about the model.

pub mod fake_applications;
pub mod fakes_file;
pub mod file_watch;
pub mod run_display;
pub mod typed_lines;
