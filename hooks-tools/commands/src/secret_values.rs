//! Parses the content of a secret: `key=value`, `key#base64=value`, `key#file=path`, and the YAML of `--file`
//! (spec/hook-tools.md 2.6).
//!
//! Errors never contain a value, except the argument that is no pair at all, as in Juju.

use crate::quote::quote;
use crate::settings_file;
use crate::tool::{Invocation, ToolError, usage};
use base64::prelude::{BASE64_STANDARD, Engine};
use state::terms::secret::{CONTENT_BYTES_MAX, SecretContent};
use std::collections::BTreeMap;

/// Reads the pairs of the arguments and those of `--file`, which override them.
///
/// # Errors
/// A usage error for an invalid pair or a file that cannot be read; the need of a file.
pub fn read(call: &Invocation, words: &[String]) -> Result<SecretContent, ToolError> {
    let mut content = BTreeMap::new();
    for word in words {
        // the padding of base64 is no separator
        let separator = word.trim_end_matches('=').find('=').filter(|at| *at > 0);
        let Some(at) = separator else { return usage(format!("key value {} not valid", quote(word))) };
        insert(call, &mut content, &word[..at], &word[at + 1..])?;
    }
    if let Some(path) = call.parsed.text("file") {
        let bytes = as_usage(call.content(path))?;
        if bytes.len() > CONTENT_BYTES_MAX {
            return usage(format!("secret content in file {} too large: {} bytes", quote(path), bytes.len()));
        }
        for (key, value) in settings_file::parse(bytes).map_err(ToolError::Usage)? {
            insert(call, &mut content, &key, &value)?;
        }
    }
    let bytes: usize = content.values().map(String::len).sum();
    if bytes > CONTENT_BYTES_MAX {
        return usage(format!("base64 encoded secret content too large: {bytes} bytes"));
    }
    Ok(SecretContent(content))
}

fn insert(
    call: &Invocation,
    content: &mut BTreeMap<String, String>,
    key: &str,
    value: &str,
) -> Result<(), ToolError> {
    let (key, encoded) = if let Some(key) = key.strip_suffix("#file") {
        let bytes = as_usage(call.content(value)).map_err(|error| match error {
            ToolError::Usage(reason) => {
                ToolError::Usage(format!("reading content for secret key {}: {reason}", quote(key)))
            }
            other => other,
        })?;
        if bytes.len() > CONTENT_BYTES_MAX {
            return usage(format!(
                "secret content in file {} too large: {} bytes",
                quote(value),
                bytes.len()
            ));
        }
        (key, BASE64_STANDARD.encode(bytes))
    } else if let Some(key) = key.strip_suffix("#base64") {
        (key, value.to_owned())
    } else {
        (key, BASE64_STANDARD.encode(value))
    };
    if !is_key(key) {
        return usage(format!("key {} not valid", quote(key)));
    }
    if encoded.len() > CONTENT_BYTES_MAX {
        let bytes = encoded.len();
        return usage(format!(
            "base64 encoded secret content for key {} too large: {bytes} bytes",
            quote(key)
        ));
    }
    content.insert(key.to_owned(), encoded);
    Ok(())
}

/// A file that cannot be read is a usage error here.
fn as_usage<T>(read: Result<T, ToolError>) -> Result<T, ToolError> {
    read.map_err(|error| match error {
        ToolError::Failed(reason) => ToolError::Usage(reason),
        other => other,
    })
}

/// `^[a-z](-?[a-z0-9]){2,}$`
fn is_key(key: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase();
    let is_inner = |c: char| is_letter(c) || c.is_ascii_digit();
    let letters = key.chars().filter(|c| *c != '-').count();
    letters >= 3
        && key.starts_with(is_letter)
        && key.ends_with(is_inner)
        && !key.contains("--")
        && key.chars().all(|c| c == '-' || is_inner(c))
}

#[test]
fn keys_have_three_letters_or_digits_and_single_hyphens() {
    for key in ["abc", "a-b-c", "a1-2", "private-key"] {
        assert!(is_key(key), "{key}");
    }
    for key in ["ab", "a-b", "1bc", "-abc", "abc-", "a--bc", "a_bc", "Abc", "", "aéc"] {
        assert!(!is_key(key), "{key}");
    }
}
