//! The parts of Rust's syntax that the rules of `cargo tidy` read from tokens: paths, `use` trees, and the methods of
//! `impl` and `trait` blocks. Used by `modules.rs` and `arguments.rs`.

use std::collections::BTreeSet;

/// An `impl` block.
#[derive(Default)]
pub struct Impl {
    /// The path of the type.
    pub path: Vec<String>,
    /// The methods that it defines.
    pub defined: Vec<String>,
    /// The same; none if it implements a trait, whose methods can have one name in several types.
    pub methods: BTreeSet<String>,
    /// The methods that it calls on `self` or `Self`.
    pub calls: BTreeSet<String>,
}

pub fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The `impl` block that begins here.
pub fn impl_block(tokens: &[String]) -> Option<Impl> {
    let (mut block, mut at, mut depth, mut is_inherent) = (Impl::default(), 1, 0, true);
    // the path before generic arguments; if there is a `for`, that of the type after it
    while tokens.get(at)? != "{" && tokens[at] != "where" {
        match tokens[at].as_str() {
            "<" => depth += 1,
            ">" if tokens[at - 1] != "-" => depth -= 1,
            "for" if depth == 0 => (block.path, is_inherent) = (Vec::new(), false),
            "dyn" | "mut" => {}
            word if depth == 0 && is_word(word) => block.path.push(word.to_owned()),
            _ => {}
        }
        at += 1;
    }
    at += tokens[at..].iter().position(|token| token == "{")?;
    let (body, mut depth) = (&tokens[at + 1..closing(tokens, at) - 1], 0);
    for (at, token) in body.iter().enumerate() {
        let text = |n: usize| body.get(at + n).map_or("", String::as_str);
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            "fn" if depth == 0 => {
                block.defined.push(text(1).to_owned());
                block.methods.extend(is_inherent.then(|| text(1).to_owned()));
            }
            "self" if text(1) == "." && matches!(text(3), "(" | ":") => {
                _ = block.calls.insert(text(2).to_owned())
            }
            "Self" if text(1) == ":" => _ = block.calls.insert(text(3).to_owned()),
            _ => {}
        }
    }
    Some(block)
}

/// The names of the methods in the block that begins after these tokens.
pub fn methods_of_block(tokens: &[String]) -> Vec<String> {
    let Some(at) = tokens.iter().position(|token| token == "{") else { return Vec::new() };
    let (body, mut depth, mut found) = (&tokens[at + 1..closing(tokens, at) - 1], 0, Vec::new());
    for (at, token) in body.iter().enumerate() {
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            "fn" if depth == 0 => found.extend(body.get(at + 1).cloned()),
            _ => {}
        }
    }
    found
}

/// The path that begins at a token, and where it ends.
pub fn path(tokens: &[String], from: usize) -> (Vec<String>, usize) {
    let (mut path, mut at) = (vec![tokens[from].clone()], from + 1);
    while at + 2 < tokens.len() && tokens[at] == ":" && tokens[at + 1] == ":" && is_word(&tokens[at + 2]) {
        path.push(tokens[at + 2].clone());
        at += 3;
    }
    (path, at)
}

/// The position after the bracket that closes the one at `from`.
pub fn closing(tokens: &[String], from: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// The single imports of a `use`: path, and name unless it is `*`.
pub fn expand(tree: &[String]) -> Vec<(Vec<String>, Option<String>)> {
    let mut prefix = Vec::new();
    let mut at = 0;
    while at < tree.len() {
        match tree[at].as_str() {
            ":" => at += 1,
            "*" => return vec![(prefix, None)],
            "as" => return vec![(prefix, tree.get(at + 1).cloned())],
            "{" => {
                let inside = &tree[at + 1..closing(tree, at) - 1];
                let branches = split(inside).into_iter().flat_map(expand);
                return branches
                    .map(|(path, name)| {
                        let is_self = path == ["self"];
                        let name = if is_self && name.as_deref() == Some("self") {
                            prefix.last().cloned()
                        } else {
                            name
                        };
                        let path = if is_self { Vec::new() } else { path };
                        ([prefix.clone(), path].concat(), name)
                    })
                    .collect();
            }
            word => {
                prefix.push(word.to_owned());
                at += 1;
            }
        }
    }
    let name = prefix.last().cloned();
    if prefix.is_empty() { Vec::new() } else { vec![(prefix, name)] }
}

/// The branches of a `{}` of a `use`.
fn split(tokens: &[String]) -> Vec<&[String]> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 0 => {
                found.push(&tokens[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&tokens[start..]);
    found
}
