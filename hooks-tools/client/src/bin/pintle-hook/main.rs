//! The hook tools: one program, called by many names through links. It carries arguments, working directory and, when
//! asked for it, stdin to the unit agent, and brings back exit code, stdout and stderr. It understands no tool.
//!
//! No standard library and no libc: their start-up costs more than the whole call. Memory is one static area, and
//! mappings for what is rarely large. Spec: hook-tools.md 1.1 and 1.2.

#![no_std]
#![no_main]

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("pintle-hook makes its own system calls and knows those of Linux on x86_64 and aarch64 only");

mod call;
mod complaint;
mod kernel;
mod memory;
mod process;

use core::cell::UnsafeCell;

use call::{Question, Room};
use complaint::complain;
use hook_client::{Call, encode_request};
use process::{Process, Texts};

/// The name of the program itself, which is no tool.
const OWN_NAME: &[u8] = b"pintle-hook";

/// The only static; `begin` makes the only reference to it.
static ROOM: OnlyThread<Room> = OnlyThread(UnsafeCell::new(Room::new()));

/// What may be shared between threads because there is only one.
struct OnlyThread<T>(UnsafeCell<T>);

// SAFETY: this program starts no thread.
unsafe impl<T> Sync for OnlyThread<T> {}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    complain(&[b"pintle-hook is broken"]);
    kernel::exit(1)
}

/// Where the kernel begins: the stack pointer is all it gives.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn _start() -> ! {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!("xor ebp, ebp", "mov rdi, rsp", "and rsp, -16", "call {}", "ud2", sym begin);
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!("mov x29, xzr", "mov x30, xzr", "mov x0, sp", "bl {}", "brk 1", sym begin);
}

/// # Safety
/// Called once, by `_start`, with the stack pointer at the entry.
unsafe extern "C" fn begin(stack: *const usize) -> ! {
    // SAFETY: that stack pointer.
    let process = unsafe { Process::from_stack(stack) };
    // SAFETY: the only reference, made once, in the only thread.
    let room = unsafe { &mut *ROOM.0.get() };
    let code = match tool(&process) {
        Some((tool, args)) => run(&process, tool, args, room),
        None => {
            let usage = b"usage: pintle-hook TOOL [ARGS...], or a link to it with the tool's name\n";
            let _ = kernel::write_pieces(kernel::STDERR, &[usage]);
            2
        }
    };
    kernel::exit(code)
}

/// The tool's name and its arguments: the name this was called by, or else the first argument.
fn tool(process: &Process) -> Option<(&'static [u8], Texts)> {
    let mut args = process.args();
    let name = base_name(args.next()?);
    if name != OWN_NAME {
        return (!name.is_empty()).then_some((name, args));
    }
    let name = args.next()?;
    (!name.is_empty() && !name.starts_with(b"-")).then_some((name, args))
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// The whole program; returns its exit code.
fn run(process: &Process, tool: &[u8], args: Texts, room: &mut Room) -> u8 {
    let Some(context_id) = process.variable(b"JUJU_CONTEXT_ID") else {
        return complain(&[b"JUJU_CONTEXT_ID not set"]);
    };
    let cwd = match kernel::current_directory(&mut room.small) {
        Ok(cwd) => cwd,
        Err(errno) => return complain(&[b"getwd: ", complaint::reason(errno)]),
    };
    let Some(socket) = process.variable(b"JUJU_AGENT_SOCKET_ADDRESS") else {
        return complain(&[b"JUJU_AGENT_SOCKET_ADDRESS not set"]);
    };
    let Some(network) = process.variable(b"JUJU_AGENT_SOCKET_NETWORK") else {
        return complain(&[b"JUJU_AGENT_SOCKET_NETWORK not set"]);
    };
    if network != b"unix" {
        return complain(&[b"JUJU_AGENT_SOCKET_NETWORK is ", network, b": only unix is supported"]);
    }
    let mut call_id = process.random.unwrap_or_default();
    if process.random.is_none()
        && let Err(errno) = kernel::random(&mut call_id)
    {
        return complain(&[b"getrandom: ", complaint::reason(errno)]);
    }
    let call = Call { call_id, context_id, cwd, tool };
    let Ok(request_bytes) = encode_request(&mut room.request, &call, args) else {
        return complain(&[b"arguments too large: more than 1 MiB"]);
    };
    let question = Question { socket, uid: process.uid, request_bytes };
    match call::ask(&question, room) {
        Ok((code, stdout, stderr)) => {
            // Both are tried, stdout first; an answer that could not be delivered is no success.
            let printed = [print(kernel::STDOUT, stdout), print(kernel::STDERR, stderr)];
            match printed {
                [Ok(()), Ok(())] => code,
                [Err(errno), _] => complain(&[b"write stdout: ", complaint::reason(errno)]).max(code),
                [_, Err(errno)] => complain(&[b"write stderr: ", complaint::reason(errno)]).max(code),
            }
        }
        Err(failure) => complaint::explain(&failure, socket),
    }
}

fn print(fd: kernel::Fd, mut bytes: &[u8]) -> Result<(), kernel::Errno> {
    while !bytes.is_empty() {
        match kernel::write(fd, bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(kernel::EAGAIN) => kernel::wait_until_ready(fd, true)?,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
