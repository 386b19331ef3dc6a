//! The system calls with which the shim starts a hook, signals it and waits for it, and with which `warm_parent` starts
//! a warm parent.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};

use super::{Errno, Fd, number, system, uninterrupted};

/// The signal of the end of a child.
const SIGCHLD: usize = 17;
const SIGXFSZ: usize = 25;
/// The highest number of a signal.
const SIGNAL_MAX: usize = 64;
/// The size of a set of signals in bytes.
const SIGNALS_BYTES: usize = 8;
const SET_MASK: usize = 2;

/// The program of a hook and what it is started with. Its only argument is its path; its environment and its working
/// directory are those of this process.
pub struct Hook<'a> {
    /// The pipe at which the child waits before it becomes the program: one byte opens the gate; the end of the file
    /// means that the program must not run.
    pub gate: Fd,
    /// The path of the program.
    pub program: &'a CStr,
    /// The environment of this process, as it is on the stack.
    pub environment: *const *const c_char,
    /// Standard input, output and error of the hook. None is 0, 1 or 2 here.
    pub descriptors: [Fd; 3],
}

/// Why a hook was not started.
#[derive(Clone, Copy)]
pub enum NotStarted {
    /// The gate was closed without having been opened.
    GateClosed,
    /// A system call failed: after the gate was opened, because the gate cannot be read, or while the end of the hook was
    /// waited for.
    SystemCall(Errno),
}

impl From<Errno> for NotStarted {
    fn from(errno: Errno) -> NotStarted {
        NotStarted::SystemCall(errno)
    }
}

/// How a process has ended.
#[derive(Clone, Copy)]
pub enum End {
    /// The exit code.
    Exit(u32),
    /// The number of the signal that has killed it.
    Signal(u32),
}

/// The stack on which the child runs between `clone` and `execve`. The parent is suspended until then.
#[repr(C, align(16))]
pub struct ChildStack(UnsafeCell<[u8; 16 << 10]>);

impl ChildStack {
    /// An unused stack.
    pub const fn new() -> Self {
        ChildStack(UnsafeCell::new([0; _]))
    }
}

/// The data in the memory that parent and child share: the child reads `hook`, and writes the reason if it cannot start
/// the program.
struct ChildMemory<'a> {
    hook: &'a Hook<'a>,
    not_started: Option<NotStarted>,
}

/// Starts the hook as the leader of a process group, once its gate is open. All signals have their default effect in it
/// and none is blocked, whatever this process inherited: a hook under `nohup` must still end at a hang-up that its
/// charm sends. Returns its pid once its program runs.
///
/// As `vfork` does, this process waits until the child has replaced itself by its program: copying the process first
/// would take longer. The child waits at the gate, so that only the start of the program remains to be done when the
/// gate is opened.
///
/// # Errors
/// If the gate is closed, no process can be created, or the program cannot be started.
pub fn start(hook: &Hook<'_>, stack: &mut ChildStack) -> Result<i32, NotStarted> {
    const SHARED_MEMORY_UNTIL_EXEC: usize = 0x100 | 0x4000 | SIGCHLD;
    let mut memory = ChildMemory { hook, not_started: None };
    let top = stack.0.get().wrapping_add(1).cast::<u8>();
    let result: isize;
    // SAFETY: the child runs `run_child` on its own stack, which is not used otherwise, and never returns from it. This
    // process waits meanwhile, so nothing else accesses the shared memory.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("syscall", "test rax, rax", "jnz 2f", "xor ebp, ebp", "mov rdi, r9", "call {child}", "ud2", "2:",
            child = sym run_child, in("r9") &raw mut memory,
            inlateout("rax") number::CLONE => result, in("rdi") SHARED_MEMORY_UNTIL_EXEC, in("rsi") top,
            in("rdx") 0, in("r10") 0, in("r8") 0, out("rcx") _, out("r11") _);
        #[cfg(target_arch = "aarch64")]
        asm!("svc 0", "cbnz x0, 2f", "mov x29, xzr", "mov x30, xzr", "mov x0, x5", "bl {child}", "brk 1", "2:",
            child = sym run_child, in("x5") &raw mut memory, // `in(reg)` could be x30, which is set before
            in("x8") number::CLONE, inlateout("x0") SHARED_MEMORY_UNTIL_EXEC => result, in("x1") top,
            in("x2") 0, in("x3") 0, in("x4") 0);
    }
    let pid = match result {
        ..0 => {
            pass_gate(hook.gate)?;
            return Err(Errno(result.unsigned_abs() as u16).into());
        }
        pid => pid as i32,
    };
    match memory.not_started {
        None => Ok(pid),
        Some(reason) => {
            let _ = wait(pid);
            Err(reason)
        }
    }
}

/// The child until it is replaced by its program.
///
/// # Safety
/// `memory` is that of `start`, whose process waits.
unsafe extern "C" fn run_child(memory: *mut ChildMemory<'_>) -> ! {
    // SAFETY: guaranteed by the caller.
    let memory = unsafe { &mut *memory };
    memory.not_started = exec(memory.hook).err();
    super::exit(127)
}

/// Waits at the gate, then replaces this process by the hook. Returns only if that fails.
fn exec(hook: &Hook<'_>) -> Result<(), NotStarted> {
    reset_signals();
    pass_gate(hook.gate)?;
    // SAFETY: no pointers.
    unsafe { system(number::SETPGID, [0; 6]) }?;
    for (number, descriptor) in hook.descriptors.into_iter().enumerate() {
        inherit(descriptor, number)?;
    }
    unblock_signals();
    let arguments = [hook.program.as_ptr(), core::ptr::null()];
    // SAFETY: the list ends with a null, and so does the environment on the stack.
    Err(unsafe { replace(hook.program, arguments.as_ptr(), hook.environment) }.into())
}

/// Gives all signals their default effect. KILL and STOP cannot be set, and have it.
pub fn reset_signals() {
    (1..=SIGNAL_MAX).for_each(default_effect);
}

/// Blocks no signal.
pub fn unblock_signals() {
    set_mask(0);
}

/// Makes an open file the file `number` of the next program. They differ.
///
/// # Errors
/// If the file is not open.
pub fn inherit(file: Fd, number: Fd) -> Result<(), Errno> {
    // SAFETY: no pointers.
    unsafe { uninterrupted(number::DUP3, [file, number, 0, 0, 0, 0]) }.map(drop)
}

/// Replaces this process by a program. Returns only if that fails.
///
/// # Safety
/// Both lists end with a null.
pub unsafe fn replace(
    program: &CStr,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> Errno {
    let exec = [program.as_ptr() as usize, arguments as usize, environment as usize, 0, 0, 0];
    // SAFETY: the kernel reads the path, the arguments and the environment only.
    match unsafe { system(number::EXECVE, exec) } {
        Err(errno) => errno,
        Ok(_) => super::ENOENT,
    }
}

/// Lets the kernel kill this process, and the program that replaces it, when its parent ends.
pub fn end_with_parent() {
    const PR_SET_PDEATHSIG: usize = 1;
    const SIGKILL: usize = 9;
    // SAFETY: no pointers.
    let _ = unsafe { system(number::PRCTL, [PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0, 0]) };
}

/// Waits until the gate is open.
///
/// # Errors
/// If the gate is closed without having been opened, or the descriptor cannot be read.
pub fn pass_gate(gate: Fd) -> Result<(), NotStarted> {
    if super::read(gate, &mut [0])? == 0 { Err(NotStarted::GateClosed) } else { Ok(()) }
}

/// Resets a signal to its default effect.
fn default_effect(signal: usize) {
    let action = [0usize; 4];
    // SAFETY: the kernel reads that action only: no handler, no flags.
    let _ =
        unsafe { system(number::RT_SIGACTION, [signal, action.as_ptr() as usize, 0, SIGNALS_BYTES, 0, 0]) };
}

/// Blocks these signals and no others.
fn set_mask(signals: u64) {
    let mask = [SET_MASK, &raw const signals as usize, 0, SIGNALS_BYTES, 0, 0];
    // SAFETY: the kernel reads that set only.
    let _ = unsafe { system(number::RT_SIGPROCMASK, mask) };
}

/// Returns a file that can be read after a child has ended.
///
/// # Errors
/// If this process has too many open files.
pub fn child_end_signals() -> Result<Fd, Errno> {
    const CLOSED_ON_EXEC: usize = 0o2_000_000;
    let ends = 1u64 << (SIGCHLD - 1);
    // If SIGCHLD were ignored, the exit code of the child would be lost.
    default_effect(SIGCHLD);
    // A write beyond the limit of the size of files must not kill the shim before it has stored the outcome. The hook
    // gets an empty mask.
    set_mask(ends | 1 << (SIGXFSZ - 1));
    let new = [usize::MAX, &raw const ends as usize, SIGNALS_BYTES, CLOSED_ON_EXEC, 0, 0];
    // SAFETY: the kernel reads that set only.
    unsafe { system(number::SIGNALFD, new) }
}

/// Waits until a child has ended.
///
/// # Errors
/// If this process has no such child.
pub fn wait(pid: i32) -> Result<End, Errno> {
    loop {
        if let Some(end) = wait4(pid, 0)? {
            return Ok(end);
        }
    }
}

/// Returns how a child has ended, if it has.
///
/// # Errors
/// If this process has no such child.
pub fn find_end(pid: i32) -> Result<Option<End>, Errno> {
    const DO_NOT_WAIT: usize = 1;
    wait4(pid, DO_NOT_WAIT)
}

fn wait4(pid: i32, options: usize) -> Result<Option<End>, Errno> {
    let mut status = 0u32;
    let wait = [pid as usize, &raw mut status as usize, options, 0, 0, 0];
    // SAFETY: the kernel writes that number only.
    let found = unsafe { uninterrupted(number::WAIT4, wait) }?;
    Ok(match (found, status & 0x7f) {
        (0, _) => None,
        (_, 0) => Some(End::Exit(status >> 8 & 0xff)),
        (_, signal) => Some(End::Signal(signal)),
    })
}

/// One of the two processes after [`fork`].
pub enum Side {
    Parent,
    Child,
}

/// Continues as two processes with the same open files.
///
/// # Errors
/// If there are too many processes.
pub fn fork() -> Result<Side, Errno> {
    // SAFETY: no pointers; the new process has a copy of all memory, this stack included.
    let pid = unsafe { system(number::CLONE, [SIGCHLD, 0, 0, 0, 0, 0]) }?;
    Ok(if pid == 0 { Side::Child } else { Side::Parent })
}

/// Kills all processes of the group that the process `leader` leads.
pub fn kill_group(leader: i32) {
    const SIGKILL: usize = 9;
    // SAFETY: no pointers.
    let _ = unsafe { system(number::KILL, [(-leader) as usize, SIGKILL, 0, 0, 0, 0]) };
}

/// Returns the pid of this process.
pub fn own_pid() -> u32 {
    // SAFETY: no pointers. It never fails.
    unsafe { system(number::GETPID, [0; 6]) }.unwrap_or_default() as u32
}
