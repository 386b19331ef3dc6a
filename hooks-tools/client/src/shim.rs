//! The files that the shim of a hook leaves in the folder of a run, and their format (design 12).
//!
//! The shim is `pintle-hook --shim RUN-FOLDER PROGRAM`. It writes the files; the unit agent reads them. The shim of a hook
//! that a warm parent has forked is `pintle-hook --forked RUN-FOLDER PROGRAM PID`.

use core::str::Utf8Chunk;

/// The argument that makes `pintle-hook` a shim.
pub const SHIM_ARGUMENT: &str = "--shim";

/// The argument that makes `pintle-hook` the shim of a hook that its warm parent has forked. The warm parent forks a child
/// that forks the hook and then becomes the shim, so that the hook is a child of its shim, as any hook is. The pid of the
/// hook follows the program. The shim inherits the ends of two pipes from which it reads the hook's output, as files 3 and
/// 4, and as file 5 the end of a pipe: the hook waits for one byte from it, and ends if it is closed instead.
pub const FORKED_ARGUMENT: &str = "--forked";

/// What the shim of a forked hook writes into its standard error, the socket of the run, before it does anything else: from
/// then on no handler of a fork can delay it.
pub const FORKED_SHIM_WAITS: u8 = b's';

/// The argument that makes `pintle-hook` start a warm parent: the path of the file that Python imports first, the path of
/// the charm's program or its interpreter, and its arguments, of which the first is its name. The program inherits what a
/// hook inherits, and as file 3 the socket that was the standard input.
pub const WARM_PARENT_ARGUMENT: &str = "--warm-parent";

/// The pid file of the shim, in the folder of the run. The shim writes it before it starts the hook.
pub const SHIM_PID: &str = "shim.pid";
/// The pid file of the hook.
pub const HOOK_PID: &str = "hook.pid";
/// The file of the hook's output.
pub const OUTPUT: &str = "output.log";
/// The file of the outcome: [`EXIT`] and the code, [`SIGNAL`] and the number, or [`FAILED`], the errno and what failed if
/// the hook could not be started. The words are separated by blanks, and blanks may follow. It exists once the hook has
/// ended.
pub const OUTCOME: &str = "outcome";
/// The file that reserves the space of the outcome while the hook runs: blanks and a newline. It becomes [`OUTCOME`].
pub const RESERVED_OUTCOME: &str = "outcome.reserved";
/// The number of blanks in [`RESERVED_OUTCOME`]: more than the longest outcome of a hook that was started, `signal`, a
/// blank and a number of at most 10 digits.
pub const OUTCOME_BYTES: usize = 32;
/// The first word of the outcome of a hook that has exited.
pub const EXIT: &str = "exit";
/// The first word of the outcome of a hook that was killed.
pub const SIGNAL: &str = "signal";
/// The first word of the outcome of a hook that could not be started.
pub const FAILED: &str = "failed";

/// The length of a line of output in bytes; longer lines are split (spec/hook-tools.md 5.6).
pub const LINE_BYTES_MAX: usize = 4096;
/// The amount of one run's output that is kept, in bytes: its beginning and its end. The rest is read and counted, so that
/// the hook never blocks (I39).
pub const OUTPUT_BYTES_MAX: usize = 4 << 20;
/// The amount of the end of each stream of output that is too long, in bytes: some 600 lines of a traceback. The longest
/// entry fits.
pub const OUTPUT_TAIL_BYTES_MAX: usize = 64 << 10;
const _: () = assert!(ENTRY_BYTES_MAX <= OUTPUT_TAIL_BYTES_MAX);
/// The amount of each stream of an action that is kept unmodified, in bytes: its beginning, and of a longer one at least
/// 32 KiB and at most [`OUTPUT_TAIL_BYTES_MAX`] of its end. The action's result contains 32 KiB of both.
pub const STREAM_BYTES_MAX: usize = OUTPUT_BYTES_MAX;
/// The interval between two attempts to write to a full disk, in milliseconds.
pub const DISK_FULL_RETRY_MS: u32 = 500;

/// The length of the longest entry of the log in bytes: each byte of a line may be escaped as `\u{7f}`; around it are
/// the name of the stream and the newline.
pub const ENTRY_BYTES_MAX: usize = LINE_BYTES_MAX * 6 + 16;

/// The name of the standard output of a hook in the log of its output.
pub const STDOUT: &str = "stdout";
/// The name of the standard error of a hook in the log of its output.
pub const STDERR: &str = "stderr";
/// The file that has the number of bytes that are left out between the beginning and the end of the unmodified standard
/// output, from [`STREAM_BEGINNING_BYTES_MAX`] on. It exists only if there are any.
pub const STDOUT_LEFT_OUT: &str = "stdout.left-out";
/// The same of the standard error.
pub const STDERR_LEFT_OUT: &str = "stderr.left-out";
/// The amount of the beginning of each unmodified stream in bytes: its end follows.
pub const STREAM_BEGINNING_BYTES_MAX: usize = STREAM_BYTES_MAX - OUTPUT_TAIL_BYTES_MAX;

/// The line of an entry of the log, if the entry belongs to this stream: the inverse of [`encode_entry`], except that
/// escape sequences are kept.
pub fn decode_entry<'a>(stream: &str, entry: &'a str) -> Option<&'a str> {
    entry.strip_prefix(stream)?.strip_prefix(": ")
}

/// Encodes one line of output, with or without its newline, as an entry of the log: the name of its stream in front;
/// control characters except the tab are escaped, because a terminal or a reader of lines could interpret them
/// (security S42); bytes that are not UTF-8 are replaced. Returns the entry, cut off if the line is longer than
/// [`LINE_BYTES_MAX`].
pub fn encode_entry<'a>(stream: &str, line: &[u8], into: &'a mut [u8; ENTRY_BYTES_MAX]) -> &'a [u8] {
    let mut entry = Entry { bytes: into, length: 0 };
    entry.push(stream.as_bytes());
    entry.push(b": ");
    for chunk in line.strip_suffix(b"\n").unwrap_or(line).utf8_chunks() {
        entry.push_escaped(&chunk);
    }
    entry.push(b"\n");
    let Entry { bytes, length } = entry;
    bytes.get(..length).unwrap_or_default()
}

/// An entry that is being encoded.
struct Entry<'a> {
    bytes: &'a mut [u8; ENTRY_BYTES_MAX],
    length: usize,
}

impl Entry<'_> {
    fn push(&mut self, bytes: &[u8]) {
        let end = self.length.saturating_add(bytes.len());
        if let Some(room) = self.bytes.get_mut(self.length..end) {
            room.copy_from_slice(bytes);
            self.length = end;
        }
    }

    fn push_escaped(&mut self, chunk: &Utf8Chunk<'_>) {
        for c in chunk.valid().chars() {
            if c.is_control() && c != '\t' {
                c.escape_unicode().for_each(|c| self.push_char(c));
            } else {
                self.push_char(c);
            }
        }
        if !chunk.invalid().is_empty() {
            self.push_char(char::REPLACEMENT_CHARACTER);
        }
    }

    fn push_char(&mut self, c: char) {
        self.push(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// Returns the start time of a process, in clock ticks since boot, as `/proc/PID/stat` shows it: field 22. The name, in
/// parentheses, may itself contain spaces and parentheses: fields are counted after the last one.
#[must_use]
pub fn start_time(stat: &[u8]) -> Option<&[u8]> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = stat.get(name_end + 1..)?.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
    // The first of these fields is number 3 of proc(5).
    fields.nth(22 - 3).filter(|field| field.iter().all(u8::is_ascii_digit))
}
