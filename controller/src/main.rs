//! The executable `pintle-controller`; see `controller::program`.

fn main() {
    controller::program::main();
}
