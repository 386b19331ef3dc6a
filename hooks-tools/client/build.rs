//! How `pintle-hook` is linked: its own entry point, no libc, one fixed address. Only that program, nobody else.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for argument in [
        "-nostartfiles",
        "-nostdlib",
        "-static",
        // rustc asks for a position independent program; nobody would relocate it, so the later word wins.
        "-no-pie",
        // The library `core` names the function that unwinds; panics abort here, it is never called.
        "-Wl,--defsym=rust_eh_personality=0",
        "-Wl,--no-eh-frame-hdr",
        // Fewer segments and pages to map: a tool's life is mostly its launch.
        "-Wl,-z,norelro",
        "-Wl,-z,noseparate-code",
        "-Wl,--build-id=none",
    ] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
}
