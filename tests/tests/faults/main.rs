//! What a user's Pintle must survive: the real programs on loopback, with the network, the disk, the processes and
//! the user's input at fault. One binary: linking it takes longer than most of its tests.

mod bad_input;
mod disk;
mod door;
mod errors;
mod half_open;
mod network;
mod processes;
mod proxy;
mod settings;
mod strangers;
mod wire;
