//! The output of a hook: split into lines, and stored in `output.log` with the name of the stream in front of each.
//!
//! A full disk loses output, but does not fail the hook. Beyond the bound the end of the output is kept in memory, because
//! it shows how the hook has failed; what is between is read and counted, so that the hook never blocks (I39). The
//! beginning and the end of each stream of an action or of commands are also stored unmodified.

use hook_client::shim::{
    ENTRY_BYTES_MAX, LINE_BYTES_MAX, OUTPUT, OUTPUT_BYTES_MAX, OUTPUT_TAIL_BYTES_MAX, STDERR,
    STDERR_LEFT_OUT, STDOUT, STDOUT_LEFT_OUT, STREAM_BEGINNING_BYTES_MAX, encode_entry,
};

use super::files::RunFolder;
use crate::error_output::{Digits, decimal};
use crate::kernel::files::Open;
use crate::kernel::{self, Errno, Fd};

/// The memory for the output.
pub struct OutputBuffers {
    lines: [[u8; LINE_BYTES_MAX]; 2],
    entry: [u8; ENTRY_BYTES_MAX],
    tails: [[u8; OUTPUT_TAIL_BYTES_MAX]; 2],
    unmodified_tails: [[u8; OUTPUT_TAIL_BYTES_MAX]; 2],
}

impl OutputBuffers {
    /// Zeroed buffers.
    pub const fn new() -> Self {
        OutputBuffers { lines: [[0; _]; 2], entry: [0; _], tails: [[0; _]; 2], unmodified_tails: [[0; _]; 2] }
    }
}

/// The two streams of a hook and where they are stored.
pub struct Output<'a> {
    log: Log<'a>,
    streams: [Stream<'a>; 2],
}

impl<'a> Output<'a> {
    /// `pipes` are stdout and stderr of the hook.
    pub fn new(run_folder: RunFolder, [stdout, stderr]: [Fd; 2], buffers: &'a mut OutputBuffers) -> Self {
        let OutputBuffers {
            lines: [first, second],
            entry,
            tails: [first_tail, second_tail],
            unmodified_tails,
        } = buffers;
        let [first_unmodified, second_unmodified] = unmodified_tails;
        let streams = [
            Stream::new(STDOUT, stdout, first, [first_tail, first_unmodified]),
            Stream::new(STDERR, stderr, second, [second_tail, second_unmodified]),
        ];
        Output { log: Log { run_folder, file: None, bytes: 0, is_full: false, dropped: 0, entry }, streams }
    }

    /// Also stores the beginning and the end of each stream as they are, in a file of its name.
    pub fn keep_unmodified(&mut self) {
        for stream in &mut self.streams {
            stream.unmodified.file = self.log.run_folder.open(stream.name, Open::Truncate).ok();
        }
    }

    /// The pipes that have not ended.
    pub fn pipes(&self) -> [Option<Fd>; 2] {
        self.streams.each_ref().map(|stream| stream.pipe)
    }

    /// Reads once from a pipe that has something to read. 0 is stdout, 1 is stderr.
    pub fn read(&mut self, stream: usize) {
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.read(&mut self.log);
        }
    }

    /// Stores what is left: last lines without a newline, the number of bytes that were discarded, and the tail of each
    /// stream that was kept in memory.
    pub fn finish(&mut self) {
        for stream in &mut self.streams {
            stream.store_rest(&mut self.log);
            stream.unmodified.finish(stream.name, self.log.run_folder);
        }
        let tails = self.streams.each_ref().map(|stream| &stream.tail);
        self.log.finish(tails);
    }
}

/// One stream of a hook.
struct Stream<'a> {
    name: &'static str,
    /// The pipe, until it has ended.
    pipe: Option<Fd>,
    unmodified: Unmodified<'a>,
    /// The beginning of a line.
    line: &'a mut [u8; LINE_BYTES_MAX],
    length: usize,
    tail: Tail<'a>,
}

/// The unmodified bytes of a stream.
struct Unmodified<'a> {
    /// The file, unless they are not stored.
    file: Option<Fd>,
    /// The number of bytes of the beginning that the file may still receive.
    room_bytes: usize,
    tail: Tail<'a>,
}

impl<'a> Stream<'a> {
    fn new(
        name: &'static str,
        pipe: Fd,
        line: &'a mut [u8; LINE_BYTES_MAX],
        tails: [&'a mut [u8; OUTPUT_TAIL_BYTES_MAX]; 2],
    ) -> Self {
        let [tail, unmodified_tail] = tails.map(|buffer| Tail { buffer, length: 0, dropped: 0 });
        let unmodified =
            Unmodified { file: None, room_bytes: STREAM_BEGINNING_BYTES_MAX, tail: unmodified_tail };
        Stream { name, pipe: Some(pipe), unmodified, line, length: 0, tail }
    }

    fn read(&mut self, log: &mut Log<'_>) {
        let Some(pipe) = self.pipe else { return };
        let room = self.line.get_mut(self.length..).unwrap_or_default();
        let read = kernel::read(pipe, room).ok().and_then(|bytes| room.get(..bytes)).unwrap_or_default();
        if read.is_empty() {
            kernel::close(pipe);
            self.pipe = None;
            return self.store_rest(log);
        }
        self.length += read.len();
        self.unmodified.store(read);
        self.store_lines(log);
    }

    /// Stores the lines that are complete or as long as a line may be.
    fn store_lines(&mut self, log: &mut Log<'_>) {
        let bytes = self.line.get(..self.length).unwrap_or_default();
        let mut stored = 0;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if line.ends_with(b"\n") || line.len() == LINE_BYTES_MAX {
                log.store(self.name, line, &mut self.tail);
                stored += line.len();
            }
        }
        self.line.copy_within(stored..self.length, 0);
        self.length -= stored;
    }

    /// Stores a last line that has no newline.
    fn store_rest(&mut self, log: &mut Log<'_>) {
        if self.length > 0 {
            log.store(self.name, self.line.get(..self.length).unwrap_or_default(), &mut self.tail);
            self.length = 0;
        }
    }
}

impl Unmodified<'_> {
    /// Stores these bytes, or keeps them for the end. Nothing more is stored if the file cannot be written.
    fn store(&mut self, bytes: &[u8]) {
        let Some(file) = self.file else { return };
        let (beginning, rest) = bytes.split_at_checked(self.room_bytes).unwrap_or((bytes, &[]));
        self.room_bytes -= beginning.len();
        self.tail.keep_bytes(rest);
        if write_all(file, beginning).is_err() {
            kernel::close(file);
            self.file = None;
        }
    }

    /// Stores the end, and how much is left out before it.
    fn finish(&mut self, name: &str, run_folder: RunFolder) {
        let Some(file) = self.file.take() else { return };
        let _ = write_all(file, self.tail.buffer.get(..self.tail.length).unwrap_or_default());
        kernel::close(file);
        if self.tail.dropped > 0 {
            let left_out = if name == STDOUT { STDOUT_LEFT_OUT } else { STDERR_LEFT_OUT };
            let _ = run_folder
                .write_atomic(left_out, &[decimal(self.tail.dropped as u64, &mut Digits::default())]);
        }
    }
}

/// The last entries of `output.log`, or the last unmodified bytes, of a stream beyond the bound. Each stream has its own,
/// because a flood of one must not displace the tail of the other.
struct Tail<'a> {
    buffer: &'a mut [u8; OUTPUT_TAIL_BYTES_MAX],
    length: usize,
    /// The number of older bytes, which were discarded.
    dropped: usize,
}

impl Tail<'_> {
    /// Keeps an entry. The older half of the others is discarded while there is no room.
    fn keep(&mut self, entry: &[u8]) {
        while self.length > 0 && self.length + entry.len() > self.buffer.len() {
            let half = self.length.min(self.buffer.len() / 2);
            let newer = self.buffer.get(half..self.length).unwrap_or_default();
            let line_end = newer.iter().position(|byte| *byte == b'\n');
            let start = line_end.map_or(self.length, |at| half + at + 1);
            self.buffer.copy_within(start..self.length, 0);
            self.length -= start;
            self.dropped += start;
        }
        self.add(entry);
    }

    /// Keeps bytes that are no entry. The older half of the others is discarded if there is no room.
    fn keep_bytes(&mut self, bytes: &[u8]) {
        if self.length + bytes.len() > self.buffer.len() {
            let start = self.length.min(self.buffer.len() / 2);
            self.buffer.copy_within(start..self.length, 0);
            self.length -= start;
            self.dropped += start;
        }
        self.add(bytes);
    }

    fn add(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        match self.buffer.get_mut(self.length..end) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.length = end;
            }
            None => self.dropped += bytes.len(),
        }
    }
}

/// The amount of the beginning of the output in bytes: the tails of both streams follow.
const BEGINNING_BYTES_MAX: usize = OUTPUT_BYTES_MAX - 2 * OUTPUT_TAIL_BYTES_MAX;

/// The file `output.log`, which is created with the first line, and what was stored in it.
struct Log<'a> {
    run_folder: RunFolder,
    file: Option<Fd>,
    bytes: usize,
    /// Whether the bound of the beginning is reached.
    is_full: bool,
    /// The number of bytes that could not be written.
    dropped: usize,
    entry: &'a mut [u8; ENTRY_BYTES_MAX],
}

impl Log<'_> {
    /// The file, which is opened if it is not.
    fn file(&mut self) -> Result<Fd, Errno> {
        let file = match self.file {
            Some(file) => file,
            None => self.run_folder.open(OUTPUT, Open::Append)?,
        };
        self.file = Some(file);
        Ok(file)
    }

    fn store(&mut self, stream: &str, line: &[u8], tail: &mut Tail<'_>) {
        let file = self.file();
        let entry = encode_entry(stream, line, self.entry);
        self.is_full |= self.bytes + entry.len() > BEGINNING_BYTES_MAX;
        if self.is_full {
            return tail.keep(entry);
        }
        match file.and_then(|file| write_all(file, entry)) {
            Ok(()) => self.bytes += entry.len(),
            Err(_) => self.dropped += entry.len(),
        }
    }

    fn finish(&mut self, tails: [&Tail<'_>; 2]) {
        let dropped = tails.iter().fold(self.dropped, |dropped, tail| dropped + tail.dropped);
        // Errors are ignored: on a full disk this part of the log is lost.
        if dropped > 0 {
            let mut digits = Digits::default();
            let dropped = decimal(dropped as u64, &mut digits);
            let pieces = [STDERR.as_bytes(), b": ", dropped, b" more bytes of output were discarded\n"];
            let _ = self.file().and_then(|file| kernel::write_pieces(file, &pieces));
        }
        for tail in tails.into_iter().filter(|tail| tail.length > 0) {
            let kept = tail.buffer.get(..tail.length).unwrap_or_default();
            let _ = self.file().and_then(|file| write_all(file, kept));
        }
    }
}

/// Writes all bytes to a file.
fn write_all(file: Fd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        bytes = bytes.get(kernel::write(file, bytes)?..).unwrap_or_default();
    }
    Ok(())
}
