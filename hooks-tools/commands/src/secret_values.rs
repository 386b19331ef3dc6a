//! Parses the content of a secret: `key=value`, `key#base64=value`, `key#file=path`, and the YAML of `--file`
//! (spec/hook-tools.md 2.6).
//!
//! Errors never contain a value, with two exceptions, as in Juju: the argument that is no pair, and the first bytes of the
//! content of `--file` if it is no map.

use crate::quote::quote;
use crate::settings_file;
use crate::tool::{Invocation, ToolError, usage};
use base64::prelude::{BASE64_STANDARD, Engine};
use state::terms::secret::{
    CONTENT_BYTES_MAX, SecretContent, ValueSource, is_content_key, split_pair, value_source,
};
use std::collections::BTreeMap;

/// Reads the pairs of the arguments and those of `--file`, which override them.
///
/// # Errors
/// A usage error for an invalid pair or a file that cannot be read; [`ToolError::Need`] if a file has to be read first.
pub fn read(call: &Invocation, words: &[String]) -> Result<SecretContent, ToolError> {
    let mut content = BTreeMap::new();
    for word in words {
        let pair = split_pair(word);
        let Some((key, value)) = pair else { return usage(format!("key value {} not valid", quote(word))) };
        insert(call, &mut content, key, value)?;
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
    let (key, source) = value_source(key, value);
    let encoded = match source {
        ValueSource::Text(value) => BASE64_STANDARD.encode(value),
        ValueSource::Base64(value) => value.to_owned(),
        ValueSource::File(path) => BASE64_STANDARD.encode(file(call, key, path)?),
    };
    if !is_content_key(key) {
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

/// The value of a key that is in a file.
fn file<'a>(call: &'a Invocation, key: &str, path: &str) -> Result<&'a [u8], ToolError> {
    let bytes = as_usage(call.content(path)).map_err(|error| match error {
        ToolError::Usage(reason) => {
            ToolError::Usage(format!("reading content for secret key {}: {reason}", quote(key)))
        }
        other => other,
    })?;
    if bytes.len() > CONTENT_BYTES_MAX {
        let bytes = bytes.len();
        return usage(format!("secret content in file {} too large: {bytes} bytes", quote(path)));
    }
    Ok(bytes)
}

/// A file that cannot be read is a usage error here.
fn as_usage<T>(read: Result<T, ToolError>) -> Result<T, ToolError> {
    read.map_err(|error| match error {
        ToolError::Failed(reason) => ToolError::Usage(reason),
        other => other,
    })
}
