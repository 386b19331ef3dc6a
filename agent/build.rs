//! Linker arguments of `pintle-agent`: a fixed address. A position-independent program is relocated at each start, which
//! takes time, and its relocated pages belong to each process alone: 250 KB of every agent of a host.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // rustc requests a position-independent program. The later argument counts.
    println!("cargo:rustc-link-arg-bins=-no-pie");
}
