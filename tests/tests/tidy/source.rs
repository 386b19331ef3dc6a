//! The Rust sources of the repository as tokens, for the rules of `cargo tidy`.
//!
//! Comments, strings and character literals are left out, so that a rule about identifiers never matches prose. This is
//! a lexer for well-formed sources that rustfmt has seen, not a parser: what does not compile is not its concern.

use std::fs;
use std::path::{Path, PathBuf};

/// One Rust source file.
pub struct Source {
    /// Below the root of the repository, with `/`: `state/src/lib.rs`.
    pub path: String,
    pub text: String,
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository exists")
}

/// All Rust sources of the repository in the order of their paths.
pub fn sources() -> Vec<Source> {
    let root = root();
    let read = |path: PathBuf| Source {
        path: path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned(),
        text: fs::read_to_string(&path).expect("sources are UTF-8"),
    };
    files(&root).into_iter().map(read).collect()
}

/// Rust files below a folder, sorted; neither hidden folders nor build output.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("folders are readable").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            found.extend(files(&path));
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// One token of a source.
pub enum Token {
    /// An identifier, or any other character that is not white space.
    Code(String),
    /// What stands between the quotes of a string literal, and its line in the file.
    Text(String, usize),
}

/// Identifiers, and every other character that is not white space as a token of its own. Strings are left out.
pub fn tokens(text: &str) -> Vec<String> {
    let code = |token| match token {
        Token::Code(code) => Some(code),
        Token::Text(..) => None,
    };
    tokens_and_strings(text).into_iter().filter_map(code).collect()
}

/// The tokens of a source with its string literals.
pub fn tokens_and_strings(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let (mut found, mut at) = (Vec::new(), 0);
    // an end beyond the text belongs to a string that is not closed
    let string = |from: usize, end: usize| {
        let quoted: String = chars[from..end.min(chars.len())].iter().collect();
        let inner = quoted.trim_start_matches(['r', 'b', 'c', '#']).trim_end_matches('#');
        let line = chars[..from].iter().filter(|c| **c == '\n').count() + 1;
        Token::Text(inner.trim_matches('"').to_owned(), line)
    };
    while at < chars.len() {
        let next = chars.get(at + 1).copied();
        match chars[at] {
            '/' if next == Some('/') => at = skip_line(&chars, at),
            '/' if next == Some('*') => at = skip_block_comment(&chars, at),
            '"' => {
                let end = skip_string(&chars, at);
                found.push(string(at, end));
                at = end;
            }
            '\'' => at = skip_quote(&chars, at),
            'r' | 'b' | 'c' if raw_hashes(&chars, at).is_some() => {
                let end = skip_raw_string(&chars, at);
                found.push(string(at, end));
                at = end;
            }
            first if first.is_alphanumeric() || first == '_' => {
                let end = end_of_word(&chars, at);
                found.push(Token::Code(chars[at..end].iter().collect()));
                at = end;
            }
            space if space.is_whitespace() => at += 1,
            other => {
                found.push(Token::Code(other.to_string()));
                at += 1;
            }
        }
    }
    found
}

fn end_of_word(chars: &[char], from: usize) -> usize {
    let rest = &chars[from..];
    from + rest.iter().position(|c| !c.is_alphanumeric() && *c != '_').unwrap_or(rest.len())
}

fn skip_line(chars: &[char], from: usize) -> usize {
    let rest = &chars[from..];
    from + rest.iter().position(|c| *c == '\n').unwrap_or(rest.len())
}

fn skip_block_comment(chars: &[char], from: usize) -> usize {
    let (mut at, mut depth) = (from + 2, 1);
    while at < chars.len() && depth > 0 {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (at, depth) = (at + 2, depth + 1),
            ('*', Some('/')) => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    at
}

fn skip_string(chars: &[char], from: usize) -> usize {
    let mut at = from + 1;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// A character literal, or the apostrophe of a lifetime.
fn skip_quote(chars: &[char], from: usize) -> usize {
    match (chars.get(from + 1), chars.get(from + 2)) {
        (Some('\\'), _) => {
            let rest = &chars[(from + 3).min(chars.len())..];
            from + 4 + rest.iter().position(|c| *c == '\'').unwrap_or(rest.len())
        }
        (Some(_), Some('\'')) => from + 3,
        _ => from + 1,
    }
}

/// The number of `#` of a raw string that begins here (`r"`, `br##"`), or 0 for `b"`.
fn raw_hashes(chars: &[char], from: usize) -> Option<usize> {
    let prefix = chars[from..].iter().take_while(|c| matches!(c, 'r' | 'b' | 'c')).count();
    let hashes = chars[from + prefix..].iter().take_while(|c| **c == '#').count();
    (prefix <= 2 && chars.get(from + prefix + hashes) == Some(&'"')).then_some(hashes)
}

fn skip_raw_string(chars: &[char], from: usize) -> usize {
    let hashes = raw_hashes(chars, from).expect("the caller has seen a raw string");
    let quote = from + chars[from..].iter().position(|c| *c == '"').expect("raw strings have a quote");
    if !chars[from..quote].contains(&'r') {
        return skip_string(chars, quote);
    }
    let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let rest = &chars[quote + 1..];
    quote + 1 + rest.windows(end.len()).position(|w| w == end).unwrap_or(rest.len()) + end.len()
}

#[test]
fn tokens_are_identifiers_without_comments_and_strings() {
    let text = "use a::b; // said\nlet x = 'q'; f::<'a>(\"said \\\" said\", r#\"said\"#, b\"said\", '\\'') /* said */ + said_1";
    let words: Vec<String> =
        tokens(text).into_iter().filter(|t| t.chars().all(|c| c.is_alphanumeric() || c == '_')).collect();
    assert_eq!(words, ["use", "a", "b", "let", "x", "f", "a", "said_1"]);
}
