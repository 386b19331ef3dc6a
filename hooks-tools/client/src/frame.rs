//! The frames of the protocol: a request and its reply.
//!
//! ```text
//! frame    "PH" version:u8 kind:u8 body_bytes:u32  body          numbers are little-endian
//! 'q'      request: call_id:16 context_id cwd tool args          a text is its length:u32 and its bytes;
//! 's'      request, followed by the bytes of stdin               args is their number:u32, then each as a text
//! 'r'      reply: code:u8 stdout, followed by stderr
//! 'n'      reply without body: the tool requires stdin
//! ```
//!
//! Stdin is lazy (spec/hook-tools.md 1.2): the first request contains none. After an 'n' the client reads all of its
//! stdin and sends 's' with the same call id on the same connection. Reading stdin may take any time, so a server
//! counts its time limit for a frame from the first byte of the frame. After a lost connection a client that has read
//! stdin begins with 's'. All requests of one call have the same call id, and no other call has it (design 12).

/// The version of these frames.
pub const VERSION: u8 = 1;
/// Size of a frame's header in bytes. The header contains the length of the frame.
pub const HEADER_BYTES: usize = 8;
/// Largest frame of a request in bytes, without the bytes of stdin (spec/security.md S6).
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Largest stdin of one call in bytes. A bag has at most 4 MiB; escapes make its YAML text a few times longer
/// (`\U0001F600` for 4 bytes).
pub const STDIN_BYTES_MAX: usize = 16 << 20;
/// Largest frame of a reply in bytes: the 16 MiB that a hook may write (S6), and as much again for quoting.
pub const REPLY_BYTES_MAX: usize = 32 << 20;

const MAGIC: [u8; 2] = *b"PH";
const REQUEST: u8 = b'q';
const REQUEST_WITH_STDIN: u8 = b's';
const DONE: u8 = b'r';
const NEED_STDIN: u8 = b'n';

/// The random identifier of one call, which is the same however often the call is sent.
pub type CallId = [u8; 16];

/// Why bytes are not a valid frame, or a value cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The bytes do not begin with the magic number of a frame.
    NotAFrame,
    /// The version of the frame is not `VERSION`.
    Version(u8),
    /// The kind of the frame is unknown, or not expected here.
    Kind(u8),
    /// The size exceeds this bound in bytes.
    TooLarge(usize),
    /// The lengths in the body contradict the length of the frame.
    Malformed,
}

impl core::fmt::Display for FrameError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            FrameError::NotAFrame => f.write_str("not a hook tool's frame"),
            FrameError::Version(version) => write!(f, "frame version {version}, expected {VERSION}"),
            FrameError::Kind(kind) => write!(f, "unexpected kind of frame {kind}"),
            FrameError::TooLarge(bytes_max) => write!(f, "frame larger than {bytes_max} bytes"),
            FrameError::Malformed => f.write_str("malformed frame"),
        }
    }
}

impl core::error::Error for FrameError {}

/// Returns the length in bytes of the frame that begins with `header`, including the header.
///
/// # Errors
/// The header is not that of a frame, or the length exceeds the bound of its kind.
pub fn frame_length(header: &[u8; HEADER_BYTES]) -> Result<usize, FrameError> {
    let [p, h, version, kind, length @ ..] = *header;
    if [p, h] != MAGIC {
        return Err(FrameError::NotAFrame);
    }
    if version != VERSION {
        return Err(FrameError::Version(version));
    }
    let bytes_max = match kind {
        REQUEST => REQUEST_BYTES_MAX,
        REQUEST_WITH_STDIN => REQUEST_BYTES_MAX + STDIN_BYTES_MAX,
        DONE => REPLY_BYTES_MAX,
        NEED_STDIN => HEADER_BYTES,
        _ => return Err(FrameError::Kind(kind)),
    };
    match HEADER_BYTES.checked_add(u32::from_le_bytes(length) as usize) {
        Some(bytes) if bytes <= bytes_max => Ok(bytes),
        _ => Err(FrameError::TooLarge(bytes_max)),
    }
}

/// The caller and the tool of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallHeader<'a> {
    /// See [`CallId`].
    pub call_id: CallId,
    /// `JUJU_CONTEXT_ID`.
    pub context_id: &'a [u8],
    /// The absolute working directory of the client.
    pub cwd: &'a [u8],
    /// The name of the tool.
    pub tool: &'a [u8],
}

/// A decoded request.
#[derive(Clone, Debug)]
pub struct RequestFrame<'a> {
    /// The caller and the tool.
    pub call: CallHeader<'a>,
    /// The arguments in order, without the name of the tool.
    pub args: Args<'a>,
    /// All of stdin; `None` if the request contains no stdin.
    pub stdin: Option<&'a [u8]>,
}

impl<'a> RequestFrame<'a> {
    /// Decodes one complete frame, including the header.
    ///
    /// # Errors
    /// The bytes are not exactly one request within its bounds.
    pub fn decode(frame: &'a [u8]) -> Result<Self, FrameError> {
        let (kind, body) = split_frame(frame)?;
        if kind != REQUEST && kind != REQUEST_WITH_STDIN {
            return Err(FrameError::Kind(kind));
        }
        let mut reader = BodyReader(body);
        let call_id = *reader.0.first_chunk().ok_or(FrameError::Malformed)?;
        reader.skip(size_of::<CallId>())?;
        let call =
            CallHeader { call_id, context_id: reader.text()?, cwd: reader.text()?, tool: reader.text()? };
        let args = Args { left: reader.number()?, packed: reader.0 };
        for _ in 0..args.left {
            reader.text()?;
        }
        let stdin = reader.0;
        if frame.len() - stdin.len() > REQUEST_BYTES_MAX {
            return Err(FrameError::TooLarge(REQUEST_BYTES_MAX));
        }
        if stdin.len() > STDIN_BYTES_MAX {
            return Err(FrameError::TooLarge(STDIN_BYTES_MAX));
        }
        if kind == REQUEST && !stdin.is_empty() {
            return Err(FrameError::Malformed);
        }
        Ok(RequestFrame { call, args, stdin: (kind == REQUEST_WITH_STDIN).then_some(stdin) })
    }
}

/// The arguments of a decoded request.
#[derive(Clone, Debug)]
pub struct Args<'a> {
    left: u32,
    packed: &'a [u8],
}

impl<'a> Iterator for Args<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let mut reader = BodyReader(self.packed);
        let text = reader.text().ok()?; // never an error: decode has read all of them
        self.packed = reader.0;
        Some(text)
    }
}

/// Encodes a request without stdin into `into` and returns its length in bytes.
///
/// # Errors
/// `TooLarge` with the exceeded bound: `REQUEST_BYTES_MAX`, or the length of `into` if that is smaller.
pub fn encode_request<'b>(
    into: &mut [u8],
    call: &CallHeader<'_>,
    args: impl Iterator<Item = &'b [u8]>,
) -> Result<usize, FrameError> {
    let bytes_max = into.len().min(REQUEST_BYTES_MAX);
    let mut writer = FrameWriter { into: into.get_mut(..bytes_max).unwrap_or_default(), used: 0 };
    writer.put(&[0; HEADER_BYTES])?;
    writer.put(&call.call_id)?;
    writer.text(call.context_id)?;
    writer.text(call.cwd)?;
    writer.text(call.tool)?;
    let count_at = writer.used;
    writer.put(&[0; 4])?;
    let mut count = 0u32;
    for arg in args {
        writer.text(arg)?;
        count += 1; // no overflow: each argument takes at least 4 of at most 2^20 bytes
    }
    writer.put_at(count_at, &count.to_le_bytes())?;
    let used = writer.used;
    writer.put_at(0, &header(REQUEST, used - HEADER_BYTES))?;
    Ok(used)
}

/// Changes an encoded request into one with stdin. The caller must send exactly `stdin_bytes` bytes after it.
///
/// # Errors
/// `TooLarge(STDIN_BYTES_MAX)`, or `Malformed` if `request` is shorter than a header.
pub fn announce_stdin(request: &mut [u8], stdin_bytes: usize) -> Result<(), FrameError> {
    if stdin_bytes > STDIN_BYTES_MAX {
        return Err(FrameError::TooLarge(STDIN_BYTES_MAX));
    }
    let body_bytes = request.len().checked_sub(HEADER_BYTES).ok_or(FrameError::Malformed)?;
    let request_header = request.first_chunk_mut().ok_or(FrameError::Malformed)?;
    *request_header = header(REQUEST_WITH_STDIN, body_bytes + stdin_bytes);
    Ok(())
}

/// The reply of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyFrame<'a> {
    /// The tool has run, or was refused with code 1 and the reason on stderr.
    Done {
        /// The exit code.
        code: u8,
        /// The bytes for stdout, which are printed first.
        stdout: &'a [u8],
        /// The bytes for stderr.
        stderr: &'a [u8],
    },
    /// The client must send the call again with stdin.
    NeedStdin,
}

impl<'a> ReplyFrame<'a> {
    /// Size of what precedes the bytes of stdout in the body: the code and a length.
    const DONE_BYTES: usize = 1 + 4;

    /// Returns the length in bytes of the encoded frame.
    ///
    /// # Errors
    /// `TooLarge(REPLY_BYTES_MAX)`.
    pub fn encoded_length(&self) -> Result<usize, FrameError> {
        let bytes = match self {
            ReplyFrame::NeedStdin => HEADER_BYTES,
            ReplyFrame::Done { stdout, stderr, .. } => {
                (HEADER_BYTES + Self::DONE_BYTES).saturating_add(stdout.len()).saturating_add(stderr.len())
            }
        };
        if bytes > REPLY_BYTES_MAX {
            return Err(FrameError::TooLarge(REPLY_BYTES_MAX));
        }
        Ok(bytes)
    }

    /// Encodes the frame into `into` and returns its length in bytes.
    ///
    /// # Errors
    /// `TooLarge`: the frame exceeds `REPLY_BYTES_MAX` or the length of `into`.
    pub fn encode(&self, into: &mut [u8]) -> Result<usize, FrameError> {
        let bytes = self.encoded_length()?;
        let mut writer = FrameWriter { into, used: 0 };
        match self {
            ReplyFrame::NeedStdin => writer.put(&header(NEED_STDIN, 0))?,
            ReplyFrame::Done { code, stdout, stderr } => {
                writer.put(&header(DONE, bytes - HEADER_BYTES))?;
                writer.put(&[*code])?;
                writer.text(stdout)?;
                writer.put(stderr)?;
            }
        }
        Ok(writer.used)
    }

    /// Decodes one complete frame, including the header.
    ///
    /// # Errors
    /// The bytes are not exactly one reply within its bounds.
    pub fn decode(frame: &'a [u8]) -> Result<Self, FrameError> {
        let (kind, body) = split_frame(frame)?;
        match kind {
            NEED_STDIN => Ok(ReplyFrame::NeedStdin),
            DONE => {
                let (&code, body) = body.split_first().ok_or(FrameError::Malformed)?;
                let mut reader = BodyReader(body);
                let stdout = reader.text()?;
                Ok(ReplyFrame::Done { code, stdout, stderr: reader.0 })
            }
            _ => Err(FrameError::Kind(kind)),
        }
    }
}

/// Returns kind and body of a frame, whose length must be the one in its header.
fn split_frame(frame: &[u8]) -> Result<(u8, &[u8]), FrameError> {
    let (header, body) = frame.split_first_chunk::<HEADER_BYTES>().ok_or(FrameError::Malformed)?;
    if frame_length(header)? != frame.len() {
        return Err(FrameError::Malformed);
    }
    Ok((header[3], body))
}

/// Encodes a header. A body is shorter than 2^26 bytes by the bounds above, so its length fits.
fn header(kind: u8, body_bytes: usize) -> [u8; HEADER_BYTES] {
    let [a, b, c, d] = (body_bytes as u32).to_le_bytes();
    let [p, h] = MAGIC;
    [p, h, VERSION, kind, a, b, c, d]
}

/// The unread rest of a body.
struct BodyReader<'a>(&'a [u8]);

impl<'a> BodyReader<'a> {
    fn skip(&mut self, bytes: usize) -> Result<&'a [u8], FrameError> {
        let (skipped, rest) = self.0.split_at_checked(bytes).ok_or(FrameError::Malformed)?;
        self.0 = rest;
        Ok(skipped)
    }

    fn number(&mut self) -> Result<u32, FrameError> {
        let (number, rest) = self.0.split_first_chunk().ok_or(FrameError::Malformed)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*number))
    }

    fn text(&mut self) -> Result<&'a [u8], FrameError> {
        let bytes = self.number()? as usize;
        self.skip(bytes)
    }
}

/// Writes a frame into a buffer.
struct FrameWriter<'a> {
    into: &'a mut [u8],
    used: usize,
}

impl FrameWriter<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        self.put_at(self.used, bytes)?;
        self.used += bytes.len();
        Ok(())
    }

    fn put_at(&mut self, at: usize, bytes: &[u8]) -> Result<(), FrameError> {
        let bytes_max = self.into.len();
        let end = at.checked_add(bytes.len()).ok_or(FrameError::TooLarge(bytes_max))?;
        self.into.get_mut(at..end).ok_or(FrameError::TooLarge(bytes_max))?.copy_from_slice(bytes);
        Ok(())
    }

    fn text(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        self.put(&(bytes.len() as u32).to_le_bytes())?; // the bytes of a longer text do not fit
        self.put(bytes)
    }
}
