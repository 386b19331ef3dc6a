//! What follows the restore of a store from a backup (design 4, 6): the unit agent compares its state with the
//! controller's (`reconciliation`), and a unit that is ahead sends everything that it has published (`resync`).

pub mod reconciliation;
pub mod resync;
