//! The frames: one request, one reply, each with its length in front.
//!
//! ```text
//! frame    "PH" version:u8 kind:u8 body_bytes:u32  body          numbers are little endian
//! 'q'      a request: call_id:16 context_id cwd tool args        a text is its length:u32 and its bytes;
//! 's'      the same, then stdin's bytes up to the end            args is their number:u32, then each as a text
//! 'r'      a reply: code:u8 stdout, then stderr up to the end
//! 'n'      a reply without body: this tool reads its stdin, which was not supplied
//! ```
//!
//! Stdin is lazy (spec/hook-tools.md 1.2): the first request carries none. Told 'n', the client reads all of its stdin
//! and sends 's' with the same call id on the same connection. Reading may take as long as whoever feeds it likes, so
//! a server's time limit for a frame counts from the frame's first byte. After a lost connection a client may begin
//! with 's' at once. The call id is the same in every request of one call and in no other call (design 12).

/// The version of these frames.
pub const VERSION: u8 = 1;
/// What has to be read before a frame's length is known.
pub const HEADER_BYTES: usize = 8;
/// A request's frame without the bytes of stdin (spec/security.md S6).
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Stdin of one call: a bag is 1 MiB at most, its YAML text at worst some escapes longer (`\U0001F600` for 4 bytes).
pub const STDIN_BYTES_MAX: usize = 16 << 20;
/// A reply's frame: everything a hook may have written, 16 MiB (S6), as text with as much again for quoting.
pub const REPLY_BYTES_MAX: usize = 32 << 20;

const MAGIC: [u8; 2] = *b"PH";
const REQUEST: u8 = b'q';
const REQUEST_WITH_STDIN: u8 = b's';
const DONE: u8 = b'r';
const NEED_STDIN: u8 = b'n';

/// What names one call, however often it is sent: random, 128 bits.
pub type CallId = [u8; 16];

/// Why bytes are no frame, or a value becomes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The first bytes are not those of a frame.
    NotAFrame,
    /// A frame of another version than `VERSION`.
    Version(u8),
    /// A frame of a kind that is unknown, or not awaited here.
    Kind(u8),
    /// Over this bound, in bytes.
    TooLarge(usize),
    /// The lengths inside do not fit the frame's.
    Malformed,
}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Refused::NotAFrame => f.write_str("not a hook tool's frame"),
            Refused::Version(version) => write!(f, "frame version {version}, expected {VERSION}"),
            Refused::Kind(kind) => write!(f, "unexpected kind of frame {kind}"),
            Refused::TooLarge(bytes_max) => write!(f, "frame larger than {bytes_max} bytes"),
            Refused::Malformed => f.write_str("malformed frame"),
        }
    }
}

impl core::error::Error for Refused {}

/// The length of the whole frame, header included, that begins with `header`.
///
/// # Errors
/// Everything that can be refused before the rest is read, above all a length over the kind's bound.
pub fn frame_length(header: &[u8; HEADER_BYTES]) -> Result<usize, Refused> {
    let [p, h, version, kind, length @ ..] = *header;
    if [p, h] != MAGIC {
        return Err(Refused::NotAFrame);
    }
    if version != VERSION {
        return Err(Refused::Version(version));
    }
    let bytes_max = match kind {
        REQUEST => REQUEST_BYTES_MAX,
        REQUEST_WITH_STDIN => REQUEST_BYTES_MAX + STDIN_BYTES_MAX,
        DONE => REPLY_BYTES_MAX,
        NEED_STDIN => HEADER_BYTES,
        _ => return Err(Refused::Kind(kind)),
    };
    match HEADER_BYTES.checked_add(u32::from_le_bytes(length) as usize) {
        Some(bytes) if bytes <= bytes_max => Ok(bytes),
        _ => Err(Refused::TooLarge(bytes_max)),
    }
}

/// Who calls what, from where: a request without its arguments and stdin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// See [`CallId`].
    pub call_id: CallId,
    /// `JUJU_CONTEXT_ID`.
    pub context_id: &'a [u8],
    /// The client's working directory, absolute.
    pub cwd: &'a [u8],
    /// The name the client was called by.
    pub tool: &'a [u8],
}

/// What a tool asks, as the agent reads it.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Who calls what.
    pub call: Call<'a>,
    /// The arguments without the tool's name, in order, untouched.
    pub args: Args<'a>,
    /// All of stdin, if supplied.
    pub stdin: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    /// Reads one whole frame, header included.
    ///
    /// # Errors
    /// Whatever is not exactly one request within its bounds.
    pub fn decode(frame: &'a [u8]) -> Result<Self, Refused> {
        let (kind, body) = open(frame)?;
        if kind != REQUEST && kind != REQUEST_WITH_STDIN {
            return Err(Refused::Kind(kind));
        }
        let mut rest = Rest(body);
        let call_id = *rest.0.first_chunk().ok_or(Refused::Malformed)?;
        rest.skip(size_of::<CallId>())?;
        let call = Call { call_id, context_id: rest.text()?, cwd: rest.text()?, tool: rest.text()? };
        let args = Args { left: rest.number()?, packed: rest.0 };
        for _ in 0..args.left {
            rest.text()?;
        }
        let stdin = rest.0;
        if frame.len() - stdin.len() > REQUEST_BYTES_MAX {
            return Err(Refused::TooLarge(REQUEST_BYTES_MAX));
        }
        if stdin.len() > STDIN_BYTES_MAX {
            return Err(Refused::TooLarge(STDIN_BYTES_MAX));
        }
        if kind == REQUEST && !stdin.is_empty() {
            return Err(Refused::Malformed);
        }
        Ok(Request { call, args, stdin: (kind == REQUEST_WITH_STDIN).then_some(stdin) })
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
        let mut rest = Rest(self.packed);
        let text = rest.text().ok()?; // never an error: decode has walked them
        self.packed = rest.0;
        Some(text)
    }
}

/// Writes a request without stdin into `into` and returns how many bytes it took.
///
/// # Errors
/// `TooLarge` with the bound that was passed: `REQUEST_BYTES_MAX`, or `into` if that is smaller.
pub fn encode_request<'b>(
    into: &mut [u8],
    call: &Call<'_>,
    args: impl Iterator<Item = &'b [u8]>,
) -> Result<usize, Refused> {
    let bytes_max = into.len().min(REQUEST_BYTES_MAX);
    let mut space = Space { into: into.get_mut(..bytes_max).unwrap_or_default(), used: 0 };
    space.put(&[0; HEADER_BYTES])?;
    space.put(&call.call_id)?;
    space.text(call.context_id)?;
    space.text(call.cwd)?;
    space.text(call.tool)?;
    let count_at = space.used;
    space.put(&[0; 4])?;
    let mut count = 0u32;
    for arg in args {
        space.text(arg)?;
        count += 1; // each took four bytes of at most 2^20
    }
    space.put_at(count_at, &count.to_le_bytes())?;
    let used = space.used;
    space.put_at(0, &header(REQUEST, used - HEADER_BYTES))?;
    Ok(used)
}

/// Makes a request that `encode_request` wrote one with stdin: exactly `stdin_bytes` more must follow it on the wire.
///
/// # Errors
/// `TooLarge(STDIN_BYTES_MAX)`; `Malformed` if `request` cannot be a request.
pub fn announce_stdin(request: &mut [u8], stdin_bytes: usize) -> Result<(), Refused> {
    if stdin_bytes > STDIN_BYTES_MAX {
        return Err(Refused::TooLarge(STDIN_BYTES_MAX));
    }
    let body_bytes = request.len().checked_sub(HEADER_BYTES).ok_or(Refused::Malformed)?;
    let place = request.first_chunk_mut().ok_or(Refused::Malformed)?;
    *place = header(REQUEST_WITH_STDIN, body_bytes + stdin_bytes);
    Ok(())
}

/// What the agent answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The tool has run, or was refused (code 1 and its reason on stderr).
    Done {
        /// The exit code.
        code: u8,
        /// Printed first, as it is.
        stdout: &'a [u8],
        /// Printed second, as it is.
        stderr: &'a [u8],
    },
    /// Send the call again with stdin.
    NeedStdin,
}

impl<'a> Reply<'a> {
    /// What precedes stdout's text in the body: code and length.
    const DONE_BYTES: usize = 1 + 4;

    /// How many bytes `encode` takes.
    ///
    /// # Errors
    /// `TooLarge(REPLY_BYTES_MAX)`.
    pub fn encoded_length(&self) -> Result<usize, Refused> {
        let bytes = match self {
            Reply::NeedStdin => HEADER_BYTES,
            Reply::Done { stdout, stderr, .. } => {
                (HEADER_BYTES + Self::DONE_BYTES).saturating_add(stdout.len()).saturating_add(stderr.len())
            }
        };
        if bytes > REPLY_BYTES_MAX {
            return Err(Refused::TooLarge(REPLY_BYTES_MAX));
        }
        Ok(bytes)
    }

    /// Writes the whole frame and returns its length.
    ///
    /// # Errors
    /// `TooLarge`: `REPLY_BYTES_MAX`, or `into` is shorter than `encoded_length`.
    pub fn encode(&self, into: &mut [u8]) -> Result<usize, Refused> {
        let bytes = self.encoded_length()?;
        let mut space = Space { into, used: 0 };
        match self {
            Reply::NeedStdin => space.put(&header(NEED_STDIN, 0))?,
            Reply::Done { code, stdout, stderr } => {
                space.put(&header(DONE, bytes - HEADER_BYTES))?;
                space.put(&[*code])?;
                space.text(stdout)?;
                space.put(stderr)?;
            }
        }
        Ok(space.used)
    }

    /// Reads one whole frame, header included.
    ///
    /// # Errors
    /// Whatever is not exactly one reply within its bounds.
    pub fn decode(frame: &'a [u8]) -> Result<Self, Refused> {
        let (kind, body) = open(frame)?;
        match kind {
            NEED_STDIN => Ok(Reply::NeedStdin),
            DONE => {
                let (&code, body) = body.split_first().ok_or(Refused::Malformed)?;
                let mut rest = Rest(body);
                let stdout = rest.text()?;
                Ok(Reply::Done { code, stdout, stderr: rest.0 })
            }
            _ => Err(Refused::Kind(kind)),
        }
    }
}

/// Kind and body of a frame that is exactly as long as its header says.
fn open(frame: &[u8]) -> Result<(u8, &[u8]), Refused> {
    let (header, body) = frame.split_first_chunk::<HEADER_BYTES>().ok_or(Refused::Malformed)?;
    if frame_length(header)? != frame.len() {
        return Err(Refused::Malformed);
    }
    Ok((header[3], body))
}

/// Bodies are below 2^26 bytes, see the bounds.
fn header(kind: u8, body_bytes: usize) -> [u8; HEADER_BYTES] {
    let [a, b, c, d] = (body_bytes as u32).to_le_bytes();
    let [p, h] = MAGIC;
    [p, h, VERSION, kind, a, b, c, d]
}

/// What is not yet read of a body.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn skip(&mut self, bytes: usize) -> Result<&'a [u8], Refused> {
        let (skipped, rest) = self.0.split_at_checked(bytes).ok_or(Refused::Malformed)?;
        self.0 = rest;
        Ok(skipped)
    }

    fn number(&mut self) -> Result<u32, Refused> {
        let (number, rest) = self.0.split_first_chunk().ok_or(Refused::Malformed)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*number))
    }

    fn text(&mut self) -> Result<&'a [u8], Refused> {
        let bytes = self.number()? as usize;
        self.skip(bytes)
    }
}

/// Where a frame is written.
struct Space<'a> {
    into: &'a mut [u8],
    used: usize,
}

impl Space<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        self.put_at(self.used, bytes)?;
        self.used += bytes.len();
        Ok(())
    }

    fn put_at(&mut self, at: usize, bytes: &[u8]) -> Result<(), Refused> {
        let bytes_max = self.into.len();
        let end = at.checked_add(bytes.len()).ok_or(Refused::TooLarge(bytes_max))?;
        self.into.get_mut(at..end).ok_or(Refused::TooLarge(bytes_max))?.copy_from_slice(bytes);
        Ok(())
    }

    fn text(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        self.put(&(bytes.len() as u32).to_le_bytes())?; // a longer one than 2^32 fails at its bytes
        self.put(bytes)
    }
}
