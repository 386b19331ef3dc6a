//! The frames: what is written is what is read, bounds hold, and no bytes whatever make decoding panic.

use hook_client::{
    Call, HEADER_BYTES, REPLY_BYTES_MAX, REQUEST_BYTES_MAX, Refused, Reply, Request, STDIN_BYTES_MAX,
    VERSION, announce_stdin, encode_request, frame_length,
};

const CALL: Call<'_> = Call {
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

fn reply(reply: &Reply<'_>) -> Vec<u8> {
    let mut frame = vec![0; reply.encoded_length().unwrap()];
    assert_eq!(reply.encode(&mut frame), Ok(frame.len()));
    frame
}

fn length(frame: &[u8]) -> Result<usize, Refused> {
    frame_length(frame.first_chunk().unwrap())
}

/// A header by the layout in the module's documentation.
fn header(kind: u8, body_bytes: usize) -> Vec<u8> {
    [b"PH", &[VERSION, kind][..], &(body_bytes as u32).to_le_bytes()].concat()
}

#[test]
fn a_request_is_read_as_it_was_written() {
    let args: [&[u8]; 5] = [b"-r", b"db:1", b"", b"\0\n\xff\xfe", b"--"];
    for stdin in [None, Some(&b""[..]), Some(b"a: 1\n\xff")] {
        let frame = request(&args, stdin);
        assert_eq!(length(&frame), Ok(frame.len()));
        let read = Request::decode(&frame).unwrap();
        assert_eq!(read.call, CALL);
        assert_eq!(read.args.collect::<Vec<_>>(), args);
        assert_eq!(read.stdin, stdin);
    }
}

#[test]
fn a_reply_is_read_as_it_was_written() {
    for value in [
        Reply::NeedStdin,
        Reply::Done { code: 0, stdout: b"", stderr: b"" },
        Reply::Done { code: 255, stdout: b"\0\xff\n", stderr: b"ERROR no\n" },
    ] {
        let frame = reply(&value);
        assert_eq!(length(&frame), Ok(frame.len()));
        assert_eq!(Reply::decode(&frame), Ok(value));
    }
}

#[test]
fn a_request_of_one_mebibyte_passes_and_one_byte_more_does_not() {
    let empty = request(&[b""], None).len();
    let arg = vec![b'x'; (1 << 20) - empty + 1];
    let frame = request(&[&arg[1..]], None);
    assert_eq!(frame.len(), 1 << 20);
    assert!(Request::decode(&frame).is_ok());
    let mut into = vec![0; 2 << 20];
    let refused = encode_request(&mut into, &CALL, [&arg[..]].into_iter());
    assert_eq!(refused, Err(Refused::TooLarge(1 << 20)));
}

#[test]
fn stdin_of_sixteen_mebibytes_passes_and_one_byte_more_does_not() {
    let stdin = vec![b'x'; (16 << 20) + 1];
    assert_eq!(Request::decode(&request(&[], Some(&stdin[1..]))).unwrap().stdin, Some(&stdin[1..]));
    let refused = announce_stdin(&mut request(&[], None), stdin.len());
    assert_eq!(refused, Err(Refused::TooLarge(16 << 20)));
    // The same said by somebody who does not keep to the bound: the frame is short enough, its stdin is not.
    let mut frame = request(&[], Some(b""));
    let body_bytes = frame.len() - HEADER_BYTES + stdin.len();
    frame.splice(..HEADER_BYTES, header(b's', body_bytes));
    frame.extend_from_slice(&stdin);
    assert_eq!(Request::decode(&frame).unwrap_err(), Refused::TooLarge(STDIN_BYTES_MAX));
}

#[test]
fn arguments_cannot_use_the_room_of_stdin() {
    let arg = vec![b'x'; 2 << 20];
    let mut frame = request(&[], Some(b""));
    let count_at = frame.len() - 4;
    frame.truncate(count_at);
    frame.extend_from_slice(&1u32.to_le_bytes());
    frame.extend_from_slice(&(arg.len() as u32).to_le_bytes());
    frame.extend_from_slice(&arg);
    let body_bytes = frame.len() - HEADER_BYTES;
    frame.splice(..HEADER_BYTES, header(b's', body_bytes));
    assert_eq!(Request::decode(&frame).unwrap_err(), Refused::TooLarge(REQUEST_BYTES_MAX));
}

#[test]
fn a_reply_over_thirty_two_mebibytes_is_not_written() {
    let text = vec![b'x'; 16 << 20];
    let done = Reply::Done { code: 0, stdout: &text, stderr: &text };
    assert_eq!(done.encoded_length(), Err(Refused::TooLarge(32 << 20)));
    assert_eq!(done.encode(&mut vec![0; 40 << 20]), Err(Refused::TooLarge(32 << 20)));
}

#[test]
fn a_header_is_refused_before_its_body_is_read() {
    let of = |kind, whole_bytes: usize| length(&header(kind, whole_bytes - HEADER_BYTES));
    assert_eq!(of(b'q', REQUEST_BYTES_MAX), Ok(REQUEST_BYTES_MAX));
    assert_eq!(of(b'q', REQUEST_BYTES_MAX + 1), Err(Refused::TooLarge(REQUEST_BYTES_MAX)));
    let with_stdin = REQUEST_BYTES_MAX + STDIN_BYTES_MAX;
    assert_eq!(of(b's', with_stdin), Ok(with_stdin));
    assert_eq!(of(b's', with_stdin + 1), Err(Refused::TooLarge(with_stdin)));
    assert_eq!(of(b'r', REPLY_BYTES_MAX + 1), Err(Refused::TooLarge(REPLY_BYTES_MAX)));
    assert_eq!(of(b'n', HEADER_BYTES + 1), Err(Refused::TooLarge(HEADER_BYTES)));
    assert_eq!(of(b'x', HEADER_BYTES), Err(Refused::Kind(b'x')));
    assert_eq!(length(b"PH\x02q\0\0\0\0"), Err(Refused::Version(2)));
    assert_eq!(length(b"GET / HTTP"), Err(Refused::NotAFrame));
    assert_eq!(length(&[255; 8]), Err(Refused::NotAFrame));
}

#[test]
fn a_reply_is_no_request_and_a_request_no_reply() {
    assert_eq!(Request::decode(&reply(&Reply::NeedStdin)).unwrap_err(), Refused::Kind(b'n'));
    assert_eq!(Reply::decode(&request(&[], None)), Err(Refused::Kind(b'q')));
}

#[test]
fn a_frame_cut_anywhere_or_followed_by_anything_is_refused() {
    let args: [&[u8]; 2] = [b"key", b"unit/0"];
    let done = reply(&Reply::Done { code: 1, stdout: b"out", stderr: b"err" });
    for whole in [request(&args, None), request(&args, Some(b"text")), done] {
        for end in 0..whole.len() {
            assert!(Request::decode(&whole[..end]).is_err());
            assert!(Reply::decode(&whole[..end]).is_err());
        }
        let mut longer = whole.clone();
        longer.push(0);
        assert_eq!(Request::decode(&longer).unwrap_err(), Refused::Malformed);
        assert_eq!(Reply::decode(&longer), Err(Refused::Malformed));
    }
}

#[test]
fn a_body_cut_under_a_right_header_is_refused_where_lengths_disagree() {
    let whole = request(&[b"key", b"unit/0"], None);
    for end in HEADER_BYTES..whole.len() {
        let mut frame = whole[..end].to_vec();
        frame.splice(..HEADER_BYTES, header(b'q', end - HEADER_BYTES));
        assert_eq!(Request::decode(&frame).unwrap_err(), Refused::Malformed, "cut at {end}");
    }
}

/// Xorshift: the same bytes in every run.
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

/// Decodes as both kinds. What is accepted as a request is consistent: written again, it is the same bytes.
fn decode(frame: &[u8]) -> bool {
    let _ = Reply::decode(frame);
    let Ok(read) = Request::decode(frame) else {
        return false;
    };
    let args: Vec<&[u8]> = read.args.clone().collect();
    let mut again = vec![0; REQUEST_BYTES_MAX];
    let bytes = encode_request(&mut again, &read.call, args.into_iter()).unwrap();
    again.truncate(bytes);
    assert_eq!(with_stdin(again, read.stdin), frame);
    true
}

#[test]
fn random_bytes_under_a_right_header_never_panic() {
    let mut random = Random(1);
    for _ in 0..100_000 {
        let body_bytes = random.below(120);
        let mut frame = header([b'q', b's', b'r', b'n'][random.below(4)], body_bytes);
        // Mostly small numbers, so that some lengths fit.
        frame.extend((0..body_bytes).map(|_| if random.below(3) == 0 { random.next() as u8 } else { 0 }));
        decode(&frame);
    }
}

#[test]
fn mutated_requests_never_panic_and_what_is_accepted_is_consistent() {
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
    assert!(accepted > 1000, "the mutants were all refused at once, nothing was tried: {accepted}");
}
