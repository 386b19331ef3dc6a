//! The memory functions that compiled code calls and that libc would otherwise provide.
//!
//! They are written in assembly or with volatile accesses, because the compiler would turn a plain loop into a call of
//! the same function.

use core::arch::asm;

/// Copies `n` bytes.
///
/// # Safety
/// As in C: both areas are `n` bytes long and do not overlap.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    // SAFETY: guaranteed by the caller; the loop accesses exactly n bytes.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("rep movsb", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") n => _,
            options(nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("cbz {n}, 3f", "2:", "ldrb {b:w}, [{from}], #1", "strb {b:w}, [{to}], #1", "subs {n}, {n}, #1",
            "b.ne 2b", "3:", n = inout(reg) n => _, from = inout(reg) from => _, to = inout(reg) to => _,
            b = out(reg) _, options(nostack));
    }
    to
}

/// Copies `n` bytes between areas that may overlap.
///
/// # Safety
/// As in C: both areas are `n` bytes long.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= n {
        // SAFETY: copying upwards never reads bytes that it has written.
        return unsafe { memcpy(to, from, n) };
    }
    // SAFETY: guaranteed by the caller; this copies downwards from the last byte, and n is at least 1 here.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("std", "rep movsb", "cld", inout("rdi") to.wrapping_add(n).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(n).wrapping_sub(1) => _, inout("rcx") n => _, options(nostack));
        #[cfg(target_arch = "aarch64")]
        asm!("2:", "ldrb {b:w}, [{from}, #-1]!", "strb {b:w}, [{to}, #-1]!", "subs {n}, {n}, #1", "b.ne 2b",
            n = inout(reg) n => _, from = inout(reg) from.wrapping_add(n) => _,
            to = inout(reg) to.wrapping_add(n) => _, b = out(reg) _, options(nostack));
    }
    to
}

/// Fills `n` bytes.
///
/// # Safety
/// As in C: the area is `n` bytes long.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, n: usize) -> *mut u8 {
    // SAFETY: guaranteed by the caller; the loop accesses exactly n bytes.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("rep stosb", inout("rdi") to => _, in("al") byte as u8, inout("rcx") n => _,
            options(nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("cbz {n}, 3f", "2:", "strb {b:w}, [{to}], #1", "subs {n}, {n}, #1", "b.ne 2b", "3:",
            n = inout(reg) n => _, to = inout(reg) to => _, b = in(reg) byte, options(nostack));
    }
    to
}

/// Compares `n` bytes.
///
/// # Safety
/// As in C: both areas are `n` bytes long.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    for i in 0..n {
        // SAFETY: i is less than n. The reads are volatile so that this remains a loop.
        let (x, y) = unsafe { (a.wrapping_add(i).read_volatile(), b.wrapping_add(i).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}

/// Compares `n` bytes for equality.
///
/// # Safety
/// As in C: both areas are `n` bytes long.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    // SAFETY: guaranteed by the caller.
    unsafe { memcmp(a, b, n) }
}

/// Returns the length of a text.
///
/// # Safety
/// As in C: the text ends with a zero byte.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut n = 0;
    // SAFETY: guaranteed by the caller; no byte after the first zero is read.
    while unsafe { text.wrapping_add(n).read_volatile() } != 0 {
        n += 1;
    }
    n
}
