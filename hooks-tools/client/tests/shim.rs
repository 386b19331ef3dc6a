//! Tests of the format of the shim's files.

use hook_client::shim::{ENTRY_BYTES_MAX, LINE_BYTES_MAX, encode_entry, start_time};

fn entry(line: &[u8]) -> String {
    let mut memory = [0; ENTRY_BYTES_MAX];
    String::from_utf8(encode_entry("stderr", line, &mut memory).to_vec()).expect("an entry is text")
}

#[test]
fn an_entry_is_one_line_that_cannot_forge_another() {
    assert_eq!(entry(b"plain\n"), "stderr: plain\n");
    assert_eq!(entry(b""), "stderr: \n");
    assert_eq!(entry("grün \u{1b}[2J\r\tx\u{85}".as_bytes()), "stderr: grün \\u{1b}[2J\\u{d}\tx\\u{85}\n");
    assert_eq!(entry(b"a\xff\xc3(\xf0\x9f"), "stderr: a\u{fffd}\u{fffd}(\u{fffd}\n");
}

#[test]
fn the_longest_entry_is_not_cut_off() {
    for byte in [b'x', 0x7f, 0xff, 0x1b] {
        let entry = entry(&[byte; LINE_BYTES_MAX]);
        assert!(entry.ends_with('\n'), "{byte}");
        assert!(entry.len() >= LINE_BYTES_MAX && entry.len() <= ENTRY_BYTES_MAX, "{byte}");
    }
}

#[test]
fn the_start_time_is_read_past_any_name() {
    let line = b"42 (a) b (c) S 7 42 40 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 1";
    assert_eq!(start_time(line), Some(&b"987654"[..]));
    assert_eq!(start_time(b"42 (x) Z"), None);
    assert_eq!(start_time(b""), None);
}
