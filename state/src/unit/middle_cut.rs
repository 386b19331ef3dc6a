//! Shortens what a charm has printed or logged: the beginning and the end are kept, and a mark between them states what is
//! left out. How a program began and how it ended is what a person looks for.
//!
//! Used for the texts of reports and for the output of actions and commands.

/// A cut is moved to the end of a line if one is within this part of the limit: a 16th.
const LINE_DISTANCE: usize = 16;

/// Returns the beginning and the end of `bytes`, together at most `bytes_max`, with `mark` of the number of bytes that are
/// left out between them; none if nothing must be left out. No character is split, and no line if lines are short.
pub fn shortened(bytes: &[u8], bytes_max: usize, mark: impl Fn(usize) -> String) -> Option<Vec<u8>> {
    if bytes.len() <= bytes_max {
        return None;
    }
    let head = &bytes[..head_end(bytes, bytes_max)];
    let start = tail_start(bytes, bytes_max);
    let mut shortened = head.to_vec();
    shortened.extend(mark(start - head.len()).into_bytes());
    // a mark between lines is a line of its own
    if head.ends_with(b"\n") || bytes[..start].ends_with(b"\n") {
        shortened.push(b'\n');
    }
    shortened.extend(&bytes[start..]);
    Some(shortened)
}

/// Shortens a text, see [`shortened`].
pub fn shorten(text: &mut String, bytes_max: usize, mark: fn(usize) -> String) {
    if let Some(bytes) = shortened(text.as_bytes(), bytes_max, mark) {
        *text = String::from_utf8(bytes).expect("no character is split");
    }
}

fn head_end(bytes: &[u8], bytes_max: usize) -> usize {
    let half = bytes_max / 2;
    let edge = half - bytes_max / LINE_DISTANCE;
    match bytes[edge..half].iter().rposition(|byte| *byte == b'\n') {
        Some(at) => edge + at + 1,
        None => (0..=half).rev().find(|at| is_boundary(bytes, *at)).unwrap_or(0),
    }
}

fn tail_start(bytes: &[u8], bytes_max: usize) -> usize {
    let start = bytes.len() - bytes_max / 2;
    let edge = start + bytes_max / LINE_DISTANCE;
    match bytes[start..edge].iter().position(|byte| *byte == b'\n') {
        Some(at) => start + at + 1,
        None => (start..bytes.len()).find(|at| is_boundary(bytes, *at)).unwrap_or(bytes.len()),
    }
}

/// Whether no character of UTF-8 continues here.
fn is_boundary(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_none_or(|byte| byte & 0xc0 != 0x80)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(bytes: usize) -> String {
        format!("|{bytes}|")
    }

    fn cut(text: &str, bytes_max: usize) -> String {
        let mut text = text.to_owned();
        shorten(&mut text, bytes_max, mark);
        text
    }

    #[test]
    fn the_beginning_and_the_end_of_a_long_text_are_kept() {
        assert_eq!(cut("0123456789", 10), "0123456789");
        assert_eq!(cut("HEAD-xxxx-TAIL", 8), "HEAD|6|TAIL");
    }

    #[test]
    fn no_character_is_split() {
        assert_eq!(cut("éééééé", 6), "é|8|é", "the halves of three bytes end within a character");
        assert_eq!(shortened(&[0xff; 9], 4, mark), Some(b"\xff\xff|5|\xff\xff".to_vec()), "no text");
    }

    #[test]
    fn lines_are_not_split_if_they_are_short() {
        let lines: String = (0..1_000).map(|line| format!("{line}\n")).collect();
        let text = cut(&lines, 256);
        let whole =
            |line: &str| line.starts_with('|') || lines.contains(&format!("\n{line}\n")) || line == "0";
        assert!(text.lines().all(whole), "{text}");
        assert!(text.starts_with("0\n1\n") && text.ends_with("998\n999\n"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with('|')).count(), 1, "{text}");
    }
}
