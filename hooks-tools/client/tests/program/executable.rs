//! Test of the executable file itself.

use super::PROGRAM;
use std::fs;

#[test]
fn the_program_is_statically_linked() {
    let program = fs::read(PROGRAM).unwrap();
    assert!(program.starts_with(b"\x7fELF"));
    let number = |at: usize, bytes: usize| {
        program[at..at + bytes].iter().rev().fold(0, |n, b| n << 8 | usize::from(*b))
    };
    // The ELF header: program headers begin at [32], each of [54] bytes, [56] of them; each begins with its type.
    let (start, bytes, count) = (number(32, 8), number(54, 2), number(56, 2));
    let kinds: Vec<usize> = (0..count).map(|i| number(start + i * bytes, 4)).collect();
    let (load, dynamic, interpreter) = (1, 2, 3);
    assert!(kinds.contains(&load));
    assert!(!kinds.contains(&dynamic) && !kinds.contains(&interpreter));
}
