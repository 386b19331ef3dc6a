//! Reads and writes YAML: the files of charms, what people type and are shown, and the files of Pintle. No other module of
//! the product uses the YAML library.
//!
//! Reading follows YAML 1.1 as goyaml.v2 reads it, because charms are written for that: `yes` is true, `0644` is octal,
//! `<<` merges. Duplicate keys and unknown tags are errors, and the expansion of aliases is bounded (spec/security.md
//! S25). Writing quotes every string that a YAML 1.1 reader would read as another type, and escapes what could reorder the text
//! around it (S31).

use host::escape::{is_unsafe, json_as_yaml};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::fmt;

/// Deepest nesting of maps and lists.
const DEPTH_MAX: usize = 64;
/// Largest number of values that the expansion of aliases may add. The files of a charm have a few thousand in total.
const ALIAS_VALUES_MAX: usize = 10_000;

/// A text is not valid YAML, or does not have the expected type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlError {
    /// The line, counted from 1; 0 if the location is unknown.
    pub line: u64,
    /// The column, counted from 1; 0 if the location is unknown.
    pub column: u64,
    /// One line, without the location, and without an excerpt of the text, because values may be secret.
    pub message: String,
}

impl YamlError {
    /// An error without a location.
    fn new(error: &impl fmt::Display) -> YamlError {
        YamlError { line: 0, column: 0, message: error.to_string() }
    }

    /// `line 3, column 5`; empty if the location is unknown.
    pub fn location(&self) -> String {
        if self.line == 0 { String::new() } else { format!("line {}, column {}", self.line, self.column) }
    }
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.message),
            _ => write!(f, "{}: {}", self.location(), self.message),
        }
    }
}

impl std::error::Error for YamlError {}

/// Reads one document. An empty text is null.
///
/// The YAML library would be compiled once for each type, with 12 KB for each struct: 6 MB of the agent's 16 MB of code. A
/// text is therefore read as a value, and the value as JSON, whose reader is compiled for the types of the API anyway.
///
/// # Errors
/// See [`YamlError`]. The location of a value that has another type than expected is unknown.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    from_value(value(text)?)
}

/// Converts what [`value`] has read. The caller can free the text before: a large document is then in memory twice, and not
/// three times.
///
/// # Errors
/// If the value has another type than expected; the location is unknown.
pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, YamlError> {
    let json = value.to_string();
    drop(value);
    serde_json::from_slice(json.as_bytes()).map_err(|error| YamlError {
        line: 0,
        column: 0,
        message: without_value(&error.to_string()),
    })
}

/// The text of serde's error in one line, without the location in the JSON text and without the value, which may be
/// secret.
fn without_value(text: &str) -> String {
    let text = text.rsplit_once(" at line ").map_or(text, |(text, _)| text);
    let is_about_names = ["missing field ", "unknown field ", "duplicate field "];
    if is_about_names.iter().any(|start| text.starts_with(start)) {
        return text.replace(char::is_control, " ");
    }
    let what = ["invalid type", "invalid value", "invalid length", "unknown variant"];
    let what = what.into_iter().find(|what| text.starts_with(what)).unwrap_or("invalid value");
    match text.rsplit_once(", expected ") {
        Some((_, expected)) => format!("{what}, expected {}", expected.replace(char::is_control, " ")),
        None => what.to_owned(),
    }
}

/// Reads one document of any type.
///
/// # Errors
/// If the text is not valid YAML.
pub fn value(text: &str) -> Result<Value, YamlError> {
    serde_yaml::from_str_with_options(text, options()).map_err(|error| located(&error))
}

/// Reads all documents of a text, without those that are empty.
///
/// # Errors
/// If the text is not valid YAML.
pub fn values(text: &str) -> Result<Vec<Value>, YamlError> {
    serde_yaml::from_multiple_with_options(text, options()).map_err(|error| located(&error))
}

fn options() -> serde_yaml::Options {
    serde_yaml::options! {
        legacy_octal_numbers: true,
        with_snippet: false,
        reject_unsupported_tags: true,
        duplicate_keys: serde_yaml::options::DuplicateKeyPolicy::Error,
        budget: serde_yaml::budget! { max_depth: DEPTH_MAX },
        alias_limits: serde_yaml::alias_limits! { max_total_replayed_events: ALIAS_VALUES_MAX },
    }
}

/// An error of the library, without the location and the advice to its caller with which its text ends.
fn located(error: &serde_yaml::Error) -> YamlError {
    let (line, column) = error.location().map_or((0, 0), |location| (location.line(), location.column()));
    let text = error.without_snippet().to_string();
    let text = text.strip_suffix(&format!(" at line {line}, column {column}")).unwrap_or(&text);
    let advice = [", set DuplicateKeyPolicy", "; use from_str_multiple"];
    let end = advice.iter().filter_map(|advice| text.find(advice)).min().unwrap_or(text.len());
    YamlError { line, column, message: text[..end].lines().collect::<Vec<_>>().join(" ") }
}

/// Writes one document in block style, with a newline at its end. Characters that reorder or hide text are escapes, in a
/// document whose maps are then in the order of their keys.
///
/// # Errors
/// The value cannot be represented in YAML, for example a map with maps as keys. This is a mistake in the caller's
/// types.
pub fn to_string<T: Serialize>(value: &T) -> Result<String, YamlError> {
    let text = written(value)?;
    if !text.chars().any(is_marked) {
        return Ok(text);
    }
    let document = serde_json::to_value(value).map_err(|error| YamlError::new(&error))?;
    // A control character makes the writer quote the string and is written as an escape itself, which is replaced.
    let is_free = |marker: &char| !text.contains(&escape_of(*marker));
    let Some(marker) = ('\u{1}'..='\u{6}').find(is_free) else {
        // JSON is YAML
        return Ok(json_as_yaml(&document.to_string()).into_owned() + "\n");
    };
    let text = written(&marked(document, marker))?;
    Ok(text.replace(&escape_of(marker), "\\u"))
}

/// Whether a character is written as an escape: it could reorder or hide what people read around it.
fn is_marked(c: char) -> bool {
    is_unsafe(c) && !c.is_control()
}

/// How the writer escapes a control character.
fn escape_of(marker: char) -> String {
    let quoted = written(&marker.to_string()).unwrap_or_default();
    quoted.trim().trim_matches('"').to_owned()
}

/// The document with the marker and four digits in the place of each character that is to be an escape.
fn marked(document: Value, marker: char) -> Value {
    let text = |text: String| -> String {
        let each = text.chars().map(|c| match is_marked(c) {
            true => format!("{marker}{:04x}", u32::from(c)),
            false => c.to_string(),
        });
        each.collect()
    };
    match document {
        Value::String(string) => Value::String(text(string)),
        Value::Array(items) => Value::Array(items.into_iter().map(|item| marked(item, marker)).collect()),
        Value::Object(map) => {
            Value::Object(map.into_iter().map(|(key, value)| (text(key), marked(value, marker))).collect())
        }
        other => other,
    }
}

fn written<T: Serialize>(value: &T) -> Result<String, YamlError> {
    // No tested YAML reader misreads a document without block scalars.
    let options = serde_yaml::ser_options! { prefer_block_scalars: false };
    serde_yaml::to_string_with_options(value, options).map_err(|error| YamlError::new(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(text: &str) -> Result<Value, String> {
        from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn characters_that_reorder_text_are_escapes_and_read_back_as_they_were() {
        let plain = json!({"a": "x", "b": ["1", "größe"]});
        let document = json!({"a": "x\u{202e}y", "b\u{200f}": ["1", "\u{feff}größe \"q\" 'r'"], "c": 1});
        for document in
            [plain, document, json!({"a": "\u{1}\u{202e}"}), json!("\u{1}\u{2}\u{3}\u{4}\u{5}\u{6}\u{2066}")]
        {
            let text = to_string(&document).expect("plain data");
            assert!(!text.chars().any(is_unsafe_here), "{text}");
            assert_eq!(read(&text), Ok(document));
        }
        assert_eq!(to_string(&json!({"a": "x\u{202e}y"})).expect("plain data"), "a: \"x\\u202ey\"\n");
    }

    fn is_unsafe_here(c: char) -> bool {
        is_unsafe(c) && c != '\n'
    }

    #[test]
    fn charms_are_read_as_yaml_1_1() {
        let text = "a: no\nb: 0644\nc: 1.10\nd: \"0644\"\ne: &x {f: on}\ng:\n  <<: *x\n  h: ~\n";
        let expected = json!({
            "a": false, "b": 420, "c": 1.1, "d": "0644", "e": {"f": true}, "g": {"f": true, "h": null},
        });
        assert_eq!(read(text), Ok(expected));
        assert_eq!(read("# nothing\n"), Ok(Value::Null));
    }

    #[test]
    fn an_error_is_one_line_with_its_location() {
        let error = read("a: 1\na: 2").expect_err("the key is repeated");
        assert!(error.starts_with("line 2, column 1: ") && error.ends_with(": a"), "{error}");
        assert_eq!(error.lines().count(), 1);
        let error = from_str::<Value>("name: x\nsummary: [1,\n").expect_err("not closed");
        assert_eq!(error.line, 2);
        assert_eq!(read("a: 1\n---\nb: 2").map_err(|text| text.lines().count()), Err(1));
    }

    #[test]
    fn an_error_about_a_type_shows_no_value_and_is_one_line() {
        #[derive(Debug, serde::Deserialize)]
        enum Kind {
            Unit,
        }
        assert!(matches!(from_str("Unit"), Ok(Kind::Unit)));
        let errors = [
            from_str::<u8>("'s3cret, expected s3cret'").expect_err("no number"),
            from_str::<bool>("s3cret").expect_err("no truth value"),
            from_str::<Kind>("\"s3cret\\nline\"").expect_err("no variant"),
            from_str::<(u8, u8)>("[1]").expect_err("too short"),
        ];
        for error in errors {
            assert!(!error.message.contains("s3cret") && error.message.lines().count() == 1, "{error}");
        }
    }

    #[test]
    fn every_number_reads_back_as_it_was_written() {
        for number in [0.1, 1.0 / 3.0, 1e300, 5e-324, 123_456_789.123_456_78] {
            let text = to_string(&number).expect("plain data");
            assert_eq!(from_str::<f64>(&text).map(f64::to_bits), Ok(f64::to_bits(number)), "{text}");
        }
        for number in [u64::MAX, 1 << 53] {
            assert_eq!(from_str::<u64>(&to_string(&number).expect("plain data")), Ok(number));
        }
    }

    #[test]
    fn tags_and_unbounded_expansion_are_refused() {
        assert!(read("a: !!python/object x").is_err());
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let alias = format!("*a{}", level - 1);
            bomb += &format!("a{level}: &a{level} [{}]\n", vec![alias; 9].join(", "));
        }
        assert!(read(&bomb).is_err());
    }

    #[test]
    fn nesting_beyond_the_limit_is_refused() {
        let nested = |depth: usize| read(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
        assert!(nested(DEPTH_MAX).is_ok());
        assert!(nested(DEPTH_MAX + 1).is_err());
    }

    #[test]
    fn a_written_document_reads_back_as_the_same_value() {
        let value = json!({
            "a": "yes", "b": "1.10", "c": "two\nlines\n", "d": [1, {"x": 2}], "e": "\tx\n", "f": null, "g": "",
            "h": {}, "i": "0644", "on": "# no comment", "j": "- x: y", "k": "\u{85}\u{2028}", "l": "null",
        });
        let text = to_string(&value).expect("plain data");
        assert_eq!(read(&text), Ok(value), "{text}");
    }
}
