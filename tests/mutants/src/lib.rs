//! Mutants of the product: faults that the checks of the simulator must detect.
//!
//! The sources of the product contain no mutant. `table/*.toml` lists each mutant with the original code, its
//! replacement and the check that must detect it ([`table`]). `cargo sim --mutants` generates a copy of the workspace
//! in which every function that has mutants contains all its variants behind a switch ([`tree`]), and builds the
//! simulator there: one build has all mutants, and [`choose`] selects one for the current thread.

use std::cell::Cell;

mod schemata;
pub mod table;
pub mod tree;

/// Whether this is the build of the generated tree, in which the product contains the mutants.
pub const GENERATED: bool = cfg!(feature = "generated");

thread_local! {
    static CHOSEN: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Whether the mutant in this row of [`table::mutants`] was chosen. Only generated sources call this.
#[inline]
pub fn is(row: usize) -> bool {
    CHOSEN.get() == Some(row)
}

/// Chooses a mutant for the current thread, or the original code.
///
/// # Panics
///
/// If a mutant is chosen in an ordinary build, which has none.
pub fn choose(row: Option<usize>) {
    assert!(row.is_none() || GENERATED, "an ordinary build has no mutants of the product: use `cargo sim`");
    CHOSEN.set(row);
}
