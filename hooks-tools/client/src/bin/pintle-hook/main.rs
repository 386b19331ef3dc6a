//! The program behind the name of every hook tool (spec/hook-tools.md 1.1 and 1.2), and the shim between the unit agent
//! and a hook.
//!
//! As a tool it sends its name, arguments, working directory and, if the tool requires it, stdin to the unit agent, and
//! prints the stdout and stderr of the reply. It contains no code of any tool. With `--shim` or `--forked` it is the shim:
//! see `shim`. With `--warm-parent` it starts a warm parent: see `warm_parent`.
//!
//! The program uses neither the standard library nor libc, because their start-up costs more than a whole call. Its
//! memory is one static area for a tool and one for a shim, and mappings for the rare large reply and for stdin.

#![no_std]
#![no_main]

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("pintle-hook makes its own system calls, for Linux on x86_64 and aarch64 only");

mod call;
mod error_output;
mod kernel;
mod memory;
mod process;
mod shim;
mod warm_parent;

use core::cell::UnsafeCell;

use call::{Buffers, CallRequest};
use error_output::print_error;
use hook_client::shim::{FORKED_ARGUMENT, SHIM_ARGUMENT, WARM_PARENT_ARGUMENT};
use hook_client::{CallHeader, encode_request};
use process::{ProcessStart, Texts};
use shim::{Run, ShimBuffers};

/// The name of the program itself, which is not a tool.
const OWN_NAME: &[u8] = b"pintle-hook";

/// The memory of a tool. `begin` creates the only reference to it.
static BUFFERS: SingleThreaded<Buffers> = SingleThreaded(UnsafeCell::new(Buffers::new()));

/// The memory of a shim. `begin` creates the only reference to it.
static SHIM_BUFFERS: SingleThreaded<ShimBuffers> = SingleThreaded(UnsafeCell::new(ShimBuffers::new()));

/// A value in a static variable of a program that has one thread.
struct SingleThreaded<T>(UnsafeCell<T>);

// SAFETY: this program starts no thread.
unsafe impl<T> Sync for SingleThreaded<T> {}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    print_error(&[b"internal error in pintle-hook"]);
    kernel::exit(1)
}

/// The entry point. It passes the stack pointer, which is all that the kernel provides, to `begin`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn _start() -> ! {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!("xor ebp, ebp", "mov rdi, rsp", "and rsp, -16", "call {}", "ud2", sym begin);
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!("mov x29, xzr", "mov x30, xzr", "mov x0, sp", "bl {}", "brk 1", sym begin);
}

/// Runs the program and exits.
///
/// # Safety
/// Called once, by `_start`, with the stack pointer at the entry point.
unsafe extern "C" fn begin(stack: *const usize) -> ! {
    // SAFETY: `stack` is the stack pointer at the entry point.
    let process = unsafe { ProcessStart::from_stack(stack) };
    if let Some(run) = shim(&process) {
        // SAFETY: this is the only reference, created once, in the only thread.
        let buffers = unsafe { &mut *SHIM_BUFFERS.0.get() };
        kernel::exit(shim::run(&process, &run, buffers));
    }
    if let Some(args) = option(&process, WARM_PARENT_ARGUMENT) {
        kernel::exit(warm_parent::start(&process, args));
    }
    // SAFETY: this is the only reference, created once, in the only thread.
    let buffers = unsafe { &mut *BUFFERS.0.get() };
    let code = match tool(&process) {
        Some((tool, args)) => run(&process, tool, args, buffers),
        None => {
            let usage = b"usage: pintle-hook TOOL [ARGS...], or a link to it with the tool's name\n";
            let _ = kernel::write_pieces(kernel::STDERR, &[usage]);
            2
        }
    };
    kernel::exit(code)
}

/// Returns the name and the arguments of the tool. The name is that of the link, or the first argument of
/// `pintle-hook`.
fn tool(process: &ProcessStart) -> Option<(&'static [u8], Texts)> {
    let mut args = process.args();
    let name = base_name(args.next()?);
    if name != OWN_NAME {
        return (!name.is_empty()).then_some((name, args));
    }
    let name = args.next()?;
    (!name.is_empty() && !name.starts_with(b"-")).then_some((name, args))
}

/// Returns the arguments after this option, if it is the first one of `pintle-hook`.
fn option(process: &ProcessStart, name: &str) -> Option<Texts> {
    let mut args = process.args();
    (base_name(args.next()?) == OWN_NAME && args.next()? == name.as_bytes()).then_some(args)
}

/// Returns the run whose shim this process is, if it is one.
fn shim(process: &ProcessStart) -> Option<Run> {
    let (mut args, is_forked) = match option(process, SHIM_ARGUMENT) {
        Some(args) => (args, false),
        None => (option(process, FORKED_ARGUMENT)?, true),
    };
    let (folder, program) = (args.next()?, args.next()?);
    let forked_pid = if is_forked { Some(decimal_pid(args.next()?)?) } else { None };
    args.next().is_none().then_some(Run { folder, program, forked_pid })
}

/// Parses the pid of a process that can be a hook: above 1.
fn decimal_pid(text: &[u8]) -> Option<i32> {
    core::str::from_utf8(text).ok()?.parse().ok().filter(|pid| *pid > 1)
}

/// The last part of a path.
fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Calls the tool and prints its output. Returns the exit code.
fn run(process: &ProcessStart, tool: &[u8], args: Texts, buffers: &mut Buffers) -> u8 {
    let Some(context_id) = process.variable(b"JUJU_CONTEXT_ID") else {
        return print_error(&[b"JUJU_CONTEXT_ID not set"]);
    };
    let cwd = match kernel::current_directory(&mut buffers.small) {
        Ok(cwd) => cwd,
        Err(errno) => return print_error(&[b"getwd: ", error_output::reason(errno)]),
    };
    let Some(socket) = process.variable(b"JUJU_AGENT_SOCKET_ADDRESS") else {
        return print_error(&[b"JUJU_AGENT_SOCKET_ADDRESS not set"]);
    };
    let Some(network) = process.variable(b"JUJU_AGENT_SOCKET_NETWORK") else {
        return print_error(&[b"JUJU_AGENT_SOCKET_NETWORK not set"]);
    };
    if network != b"unix" {
        return print_error(&[b"JUJU_AGENT_SOCKET_NETWORK is ", network, b": only unix is supported"]);
    }
    let mut call_id = process.random.unwrap_or_default();
    if process.random.is_none()
        && let Err(errno) = kernel::random(&mut call_id)
    {
        return print_error(&[b"getrandom: ", error_output::reason(errno)]);
    }
    let header = CallHeader { call_id, context_id, cwd, tool };
    let Ok(request_bytes) = encode_request(&mut buffers.request, &header, args) else {
        return print_error(&[b"arguments too large: more than 1 MiB"]);
    };
    let request = CallRequest { socket, uid: process.uid, request_bytes };
    match call::call(&request, buffers) {
        Ok((code, stdout, stderr)) => {
            // Both are written, stdout first. A call whose output cannot be written is not a success.
            let printed = [print(kernel::STDOUT, stdout), print(kernel::STDERR, stderr)];
            match printed {
                [Ok(()), Ok(())] => code,
                [Err(errno), _] => print_error(&[b"write stdout: ", error_output::reason(errno)]).max(code),
                [_, Err(errno)] => print_error(&[b"write stderr: ", error_output::reason(errno)]).max(code),
            }
        }
        Err(error) => error_output::print_call_error(&error, socket),
    }
}

/// Writes all bytes.
fn print(fd: kernel::Fd, mut bytes: &[u8]) -> Result<(), kernel::Errno> {
    while !bytes.is_empty() {
        match kernel::write(fd, bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(kernel::EAGAIN) => kernel::poll(&mut [kernel::Poll::write(fd)], None)?,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
