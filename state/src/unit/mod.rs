//! The unit agent: what its disk remembers, what it is shown, what it does next.
//!
//! Reading order: `operation` (what can be done), `activity` (what is being done, as reported), `snapshot` (what is shown), `local` (what is remembered, and its
//! only transitions), `record` (what is sent), `resolve`, `relations` and `retry` (what is next), `hook` (what a hook sees
//! and writes), `context` and `environment` (how it is given to the hook's process).

pub mod activity;
pub mod context;
pub mod dispatch;
pub mod dry_run;
pub mod environment;
pub mod hook;
pub mod hook_name;
pub mod local;
pub mod omitted_bags;
pub mod operation;
pub mod outcome;
pub mod pending_reports;
pub mod record;
pub mod relations;
pub mod resolve;
pub mod retry;
pub mod snapshot;
pub mod writes;
