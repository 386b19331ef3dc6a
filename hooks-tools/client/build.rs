//! Linker arguments of `pintle-hook`: its own entry point, no libc, a fixed address. They apply to that program only.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for argument in [
        "-nostartfiles",
        "-nostdlib",
        "-static",
        // rustc requests a position-independent program, but nothing would relocate it; the later argument takes
        // precedence.
        "-no-pie",
        // `core` refers to the function that unwinds. It is never called, because panics abort.
        "-Wl,--defsym=rust_eh_personality=0",
        "-Wl,--no-eh-frame-hdr",
        // Fewer segments and pages to map: most of the run time of a tool is its launch.
        "-Wl,-z,norelro",
        "-Wl,-z,noseparate-code",
        "-Wl,--build-id=none",
    ] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
}
