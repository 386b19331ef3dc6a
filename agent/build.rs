//! Links `pintle-agent` at a fixed address.
//!
//! A position-independent program is relocated at each start. This takes time, and the relocated pages are private to
//! each process: 250 KB for every agent on a host.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // rustc requests a position-independent program; the later argument takes precedence
    println!("cargo:rustc-link-arg-bins=-no-pie");
}
