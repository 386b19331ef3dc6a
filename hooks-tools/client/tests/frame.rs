//! Tests of the frames: decoding reverses encoding, bounds hold, and decoding never panics, whatever the bytes.

use hook_client::{
    CallHeader, FrameError, HEADER_BYTES, REPLY_BYTES_MAX, REQUEST_BYTES_MAX, ReplyFrame, RequestFrame,
    STDIN_BYTES_MAX, VERSION, announce_stdin, encode_request, frame_length,
};

const CALL: CallHeader<'_> = CallHeader {
    call_id: *b"0123456789abcdef",
    context_id: b"web/0-config-changed-7",
    cwd: b"/charm \xff",
    tool: b"relation-get",
};

fn request(args: &[&[u8]], stdin: Option<&[u8]>) -> Vec<u8> {
    let mut frame = vec![0; REQUEST_BYTES_MAX];
    let bytes = encode_request(&mut frame, &CALL, args.iter().copied()).unwrap();
    frame.truncate(bytes);
    with_stdin(frame, stdin)
}

fn with_stdin(mut request: Vec<u8>, stdin: Option<&[u8]>) -> Vec<u8> {
    if let Some(stdin) = stdin {
        announce_stdin(&mut request, stdin.len()).unwrap();
        request.extend_from_slice(stdin);
    }
    request
}

fn reply(reply: &ReplyFrame<'_>) -> Vec<u8> {
    let mut frame = vec![0; reply.encoded_length().unwrap()];
    assert_eq!(reply.encode(&mut frame), Ok(frame.len()));
    frame
}

fn length(frame: &[u8]) -> Result<usize, FrameError> {
    frame_length(frame.first_chunk().unwrap())
}

/// A header in the layout that the documentation of `hook_client`'s module `frame` describes.
fn header(kind: u8, body_bytes: usize) -> Vec<u8> {
    [b"PH", &[VERSION, kind][..], &(body_bytes as u32).to_le_bytes()].concat()
}

#[test]
fn decoding_a_request_reverses_encoding() {
    let args: [&[u8]; 5] = [b"-r", b"db:1", b"", b"\0\n\xff\xfe", b"--"];
    for stdin in [None, Some(&b""[..]), Some(b"a: 1\n\xff")] {
        let frame = request(&args, stdin);
        assert_eq!(length(&frame), Ok(frame.len()));
        let read = RequestFrame::decode(&frame).unwrap();
        assert_eq!(read.call, CALL);
        assert_eq!(read.args.collect::<Vec<_>>(), args);
        assert_eq!(read.stdin, stdin);
    }
}

#[test]
fn decoding_a_reply_reverses_encoding() {
    for value in [
        ReplyFrame::NeedStdin,
        ReplyFrame::Done { code: 0, stdout: b"", stderr: b"" },
        ReplyFrame::Done { code: 255, stdout: b"\0\xff\n", stderr: b"ERROR no\n" },
    ] {
        let frame = reply(&value);
        assert_eq!(length(&frame), Ok(frame.len()));
        assert_eq!(ReplyFrame::decode(&frame), Ok(value));
    }
}

#[test]
fn a_request_of_one_mebibyte_is_accepted_and_one_byte_more_is_not() {
    let empty = request(&[b""], None).len();
    let arg = vec![b'x'; (1 << 20) - empty + 1];
    let frame = request(&[&arg[1..]], None);
    assert_eq!(frame.len(), 1 << 20);
    assert!(RequestFrame::decode(&frame).is_ok());
    let mut buffer = vec![0; 2 << 20];
    let refused = encode_request(&mut buffer, &CALL, [&arg[..]].into_iter());
    assert_eq!(refused, Err(FrameError::TooLarge(1 << 20)));
}

#[test]
fn stdin_of_sixteen_mebibytes_is_accepted_and_one_byte_more_is_not() {
    let stdin = vec![b'x'; (16 << 20) + 1];
    assert_eq!(RequestFrame::decode(&request(&[], Some(&stdin[1..]))).unwrap().stdin, Some(&stdin[1..]));
    let refused = announce_stdin(&mut request(&[], None), stdin.len());
    assert_eq!(refused, Err(FrameError::TooLarge(16 << 20)));
    // A client that ignores the bound: the length of the frame is valid, that of its stdin is not.
    let mut frame = request(&[], Some(b""));
    let body_bytes = frame.len() - HEADER_BYTES + stdin.len();
    frame.splice(..HEADER_BYTES, header(b's', body_bytes));
    frame.extend_from_slice(&stdin);
    assert_eq!(RequestFrame::decode(&frame).unwrap_err(), FrameError::TooLarge(STDIN_BYTES_MAX));
}

#[test]
fn the_bound_of_stdin_does_not_apply_to_arguments() {
    let arg = vec![b'x'; 2 << 20];
    let mut frame = request(&[], Some(b""));
    let count_at = frame.len() - 4;
    frame.truncate(count_at);
    frame.extend_from_slice(&1u32.to_le_bytes());
    frame.extend_from_slice(&(arg.len() as u32).to_le_bytes());
    frame.extend_from_slice(&arg);
    let body_bytes = frame.len() - HEADER_BYTES;
    frame.splice(..HEADER_BYTES, header(b's', body_bytes));
    assert_eq!(RequestFrame::decode(&frame).unwrap_err(), FrameError::TooLarge(REQUEST_BYTES_MAX));
}

#[test]
fn a_reply_over_thirty_two_mebibytes_is_not_encoded() {
    let text = vec![b'x'; 16 << 20];
    let done = ReplyFrame::Done { code: 0, stdout: &text, stderr: &text };
    assert_eq!(done.encoded_length(), Err(FrameError::TooLarge(32 << 20)));
    assert_eq!(done.encode(&mut vec![0; 40 << 20]), Err(FrameError::TooLarge(32 << 20)));
}

#[test]
fn the_header_alone_decides_the_length_of_a_frame_or_its_refusal() {
    let length_of = |kind, whole_bytes: usize| length(&header(kind, whole_bytes - HEADER_BYTES));
    assert_eq!(length_of(b'q', REQUEST_BYTES_MAX), Ok(REQUEST_BYTES_MAX));
    assert_eq!(length_of(b'q', REQUEST_BYTES_MAX + 1), Err(FrameError::TooLarge(REQUEST_BYTES_MAX)));
    let with_stdin = REQUEST_BYTES_MAX + STDIN_BYTES_MAX;
    assert_eq!(length_of(b's', with_stdin), Ok(with_stdin));
    assert_eq!(length_of(b's', with_stdin + 1), Err(FrameError::TooLarge(with_stdin)));
    assert_eq!(length_of(b'r', REPLY_BYTES_MAX + 1), Err(FrameError::TooLarge(REPLY_BYTES_MAX)));
    assert_eq!(length_of(b'n', HEADER_BYTES + 1), Err(FrameError::TooLarge(HEADER_BYTES)));
    assert_eq!(length_of(b'x', HEADER_BYTES), Err(FrameError::Kind(b'x')));
    assert_eq!(length(b"PH\x02q\0\0\0\0"), Err(FrameError::Version(2)));
    assert_eq!(length(b"GET / HTTP"), Err(FrameError::NotAFrame));
    assert_eq!(length(&[255; 8]), Err(FrameError::NotAFrame));
}

#[test]
fn a_reply_does_not_decode_as_a_request_nor_a_request_as_a_reply() {
    assert_eq!(RequestFrame::decode(&reply(&ReplyFrame::NeedStdin)).unwrap_err(), FrameError::Kind(b'n'));
    assert_eq!(ReplyFrame::decode(&request(&[], None)), Err(FrameError::Kind(b'q')));
}

#[test]
fn a_truncated_or_extended_frame_is_refused() {
    let args: [&[u8]; 2] = [b"key", b"unit/0"];
    let done = reply(&ReplyFrame::Done { code: 1, stdout: b"out", stderr: b"err" });
    for whole in [request(&args, None), request(&args, Some(b"text")), done] {
        for end in 0..whole.len() {
            assert!(RequestFrame::decode(&whole[..end]).is_err());
            assert!(ReplyFrame::decode(&whole[..end]).is_err());
        }
        let mut longer = whole.clone();
        longer.push(0);
        assert_eq!(RequestFrame::decode(&longer).unwrap_err(), FrameError::Malformed);
        assert_eq!(ReplyFrame::decode(&longer), Err(FrameError::Malformed));
    }
}

#[test]
fn a_truncated_body_with_a_valid_header_is_refused() {
    let whole = request(&[b"key", b"unit/0"], None);
    for end in HEADER_BYTES..whole.len() {
        let mut frame = whole[..end].to_vec();
        frame.splice(..HEADER_BYTES, header(b'q', end - HEADER_BYTES));
        assert_eq!(RequestFrame::decode(&frame).unwrap_err(), FrameError::Malformed, "cut at {end}");
    }
}

/// An xorshift generator: the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Decodes the bytes as a reply and as a request. An accepted request encodes to the same bytes. Returns whether the
/// request was accepted.
fn decode(frame: &[u8]) -> bool {
    let _ = ReplyFrame::decode(frame);
    let Ok(read) = RequestFrame::decode(frame) else {
        return false;
    };
    let args: Vec<&[u8]> = read.args.clone().collect();
    let mut encoded = vec![0; REQUEST_BYTES_MAX];
    let bytes = encode_request(&mut encoded, &read.call, args.into_iter()).unwrap();
    encoded.truncate(bytes);
    assert_eq!(with_stdin(encoded, read.stdin), frame);
    true
}

#[test]
fn random_bytes_with_a_valid_header_never_panic() {
    let mut random = Random(1);
    for _ in 0..100_000 {
        let body_bytes = random.below(120);
        let mut frame = header([b'q', b's', b'r', b'n'][random.below(4)], body_bytes);
        // Most bytes are zero, so that some lengths are valid.
        frame.extend((0..body_bytes).map(|_| if random.below(3) == 0 { random.next() as u8 } else { 0 }));
        decode(&frame);
    }
}

#[test]
fn mutated_requests_never_panic_and_accepted_ones_are_consistent() {
    let mut random = Random(2);
    let whole = [request(&[b"-r", b"db:1", b""], None), request(&[b"--file", b"-"], Some(b"key: value\n"))];
    let mut accepted = 0;
    for _ in 0..100_000 {
        let mut frame = whole[random.below(2)].clone();
        for _ in 0..=random.below(3) {
            let at = random.below(frame.len());
            frame[at] =
                if random.below(2) == 0 { random.next() as u8 } else { frame[at] ^ (1 << random.below(8)) };
        }
        accepted += usize::from(decode(&frame));
    }
    assert!(
        accepted > 1000,
        "almost all mutated requests were refused, so the test is too weak: {accepted} accepted"
    );
}
