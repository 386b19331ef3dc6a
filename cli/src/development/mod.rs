//! What `pintle dev` uses: the watch on the files of a charm, the display of its hooks, the fake applications of a
//! scenario, and the lines that are typed while it runs.
//!
//! Nothing here decides about the model; requests are sent, which the controller decides about.

pub mod fake_applications;
pub mod file_watch;
pub mod followed_runs;
pub mod scenario;
pub mod typed_lines;
