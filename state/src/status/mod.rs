//! The statuses of entities, and the settings, secrets, storage and charm revisions as commands print them.
//!
//! Every value is computed from a reader and, where agents matter, a [`PresenceReader`](presence::PresenceReader), so
//! that the controller can cache it until a document or presence from which it was computed changes; [`settled`] is
//! computed from shown statuses. Nothing is stored. The names of the statuses are those that clients of Juju match
//! (spec/clients.md 2.4, 3.4; uniter.md F.5). Called by the controller and by `why`; [`settled`] by the commands `wait`
//! and `status`.

pub mod application;
pub mod application_config;
pub mod charm_revision;
pub mod hook_lock;
pub mod machine;
pub mod model;
pub mod model_config;
pub mod presence;
pub mod relation;
pub mod running;
pub mod secret;
pub mod settled;
pub mod shared_presence;
pub mod storage;
pub mod unit;
