//! The statuses of entities, computed from documents and from the presence of agents.
//!
//! Every status is a pure function of a reader and a [`PresenceReader`](presence::PresenceReader), so that the
//! controller can cache it until a document or presence from which it was computed changes. Nothing is stored. The
//! names and texts are those that clients of Juju match (spec/clients.md 2.4, 3.4; uniter.md F.5). Called by the
//! controller's `status` and by `why`.

pub mod application;
pub mod application_config;
pub mod charm_revision;
pub mod hook_lock;
pub mod machine;
pub mod model;
pub mod model_config;
pub mod presence;
pub mod relation;
pub mod secret;
pub mod settled;
pub mod storage;
pub mod unit;
