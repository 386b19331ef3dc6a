//! Fault tests: the real programs on loopback, with faults of the network, the disk, the processes and the user's
//! input. They are one binary, because linking takes longer than most of the tests.

mod bad_input;
mod deleted_files;
mod disk;
mod errors;
mod foreign_credentials;
mod half_open;
mod machine_files;
mod namespace;
mod network;
mod obstacles;
mod processes;
mod proxy;
mod raw_client;
mod settings;
mod stalling_proxy;
mod start;
