//! Writes JSON as encoding/json of Go does: no spaces, the keys of maps sorted by bytes (fields in the order of
//! their declaration), and `<`, `>` and `&` escaped
//! (spec/hook-tools.md 1.5).

use crate::number;
use crate::value::Value;
use std::fmt::Write;

/// Writes the value on one line, without the final newline.
pub fn write(value: &Value) -> String {
    let mut out = String::new();
    append(&mut out, value);
    out
}

fn append(out: &mut String, value: &Value) {
    match value {
        Value::Nil | Value::NilNames | Value::NilMap => out.push_str("null"),
        Value::Bool(yes) => out.push_str(if *yes { "true" } else { "false" }),
        Value::Integer(number) => out.push_str(&number.to_string()),
        Value::Float(number) => out.push_str(&number::json(*number)),
        Value::Text(text) | Value::Time(text) => append_text(out, text),
        Value::Names(names) => separated(out, ['[', ']'], names, |out, name| append_text(out, name)),
        Value::List(items) => separated(out, ['[', ']'], items, append),
        Value::Map(members) => {
            separated(out, ['{', '}'], members, |out, (key, value)| member(out, key, value))
        }
        Value::Record(fields) => {
            separated(out, ['{', '}'], fields, |out, (key, value)| member(out, key, value));
        }
    }
}

fn member(out: &mut String, key: &str, value: &Value) {
    append_text(out, key);
    out.push(':');
    append(out, value);
}

fn separated<T>(
    out: &mut String,
    [open, close]: [char; 2],
    items: impl IntoIterator<Item = T>,
    each: impl Fn(&mut String, T),
) {
    out.push(open);
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        each(out, item);
    }
    out.push(close);
}

fn append_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\x1f' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("a String takes any text");
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}
