//! Writes YAML as goyaml.v2 does, byte for byte (spec/hook-tools.md 1.6).
//!
//! Charms compare and parse the output of tools, so it must not differ from Juju's: block style, an indentation of 2,
//! and scalars that are folded after column 80. The emitter follows libyaml, from which goyaml.v2 is ported.

use crate::natural_order::natural_order;
use crate::number;
use crate::value::Value;
use crate::yaml_plain::needs_quotes;
use std::cmp::Ordering;

/// A scalar is folded at the first space after this column.
const WIDTH: usize = 80;
const INDENT: usize = 2;
/// A longer key is written as `? key`.
const SIMPLE_KEY_BYTES_MAX: usize = 128;

/// Writes a document that ends with exactly one newline.
pub fn write(value: &Value) -> String {
    let mut emitter = Emitter {
        out: String::new(),
        column: 0,
        after_space: true,
        only_indicators: true,
        indent: None,
        in_simple_key: false,
    };
    emitter.node(value, false);
    let mut out = emitter.out;
    out.truncate(out.trim_end_matches('\n').len());
    out.push('\n');
    out
}

/// The state of the output, as in libyaml.
struct Emitter {
    out: String,
    /// Characters since the last line break.
    column: usize,
    /// The last character separates tokens, so no space is needed before the next token.
    after_space: bool,
    /// The line contains only indentation and indicators so far, so a collection may begin on it.
    only_indicators: bool,
    /// Indentation of the current collection; `None` at the root.
    indent: Option<usize>,
    /// A key that is written as `key:` must not be folded.
    in_simple_key: bool,
}

/// The styles of a scalar.
#[derive(Clone, Copy, PartialEq)]
enum ScalarStyle {
    Plain,
    Single,
    Double,
    Literal,
}

impl Emitter {
    fn node(&mut self, value: &Value, in_mapping: bool) {
        match value {
            Value::Nil => self.bare("null"),
            Value::Bool(yes) => self.bare(if *yes { "true" } else { "false" }),
            Value::Integer(integer) => self.bare(&integer.to_string()),
            Value::Float(float) => self.bare(&number::general(*float)),
            Value::Text(text) => self.text(text),
            Value::Time(text) => self.bare(text),
            Value::NilNames => self.indicator("[]", true),
            Value::NilMap => self.indicator("{}", true),
            Value::Names(names) if names.is_empty() => self.indicator("[]", true),
            Value::Names(names) => self.sequence(names, in_mapping, |emitter, name| emitter.text(name)),
            Value::List(items) if items.is_empty() => self.indicator("[]", true),
            Value::List(items) => self.sequence(items, in_mapping, |emitter, item| emitter.node(item, false)),
            Value::Map(members) => {
                let mut sorted: Vec<(&str, &Value)> = Vec::with_capacity(members.len());
                for (key, value) in members {
                    let at =
                        sorted.partition_point(|(before, _)| natural_order(before, key) != Ordering::Greater);
                    sorted.insert(at, (key, value));
                }
                self.mapping(&sorted);
            }
            Value::Record(fields) => {
                let fields: Vec<(&str, &Value)> = fields.iter().map(|(key, value)| (*key, value)).collect();
                self.mapping(&fields);
            }
        }
    }

    /// Writes a sequence. As the value of a key it is not indented under the key.
    fn sequence<T>(&mut self, items: &[T], in_mapping: bool, each: impl Fn(&mut Self, &T)) {
        let outer = self.indent;
        if !in_mapping || self.only_indicators {
            self.indent = Some(outer.map_or(0, |indent| indent + INDENT));
        }
        for item in items {
            self.new_line();
            self.block_indicator("-");
            each(self, item);
        }
        self.indent = outer;
    }

    fn mapping(&mut self, members: &[(&str, &Value)]) {
        if members.is_empty() {
            return self.indicator("{}", true);
        }
        let outer = self.indent;
        self.indent = Some(outer.map_or(0, |indent| indent + INDENT));
        for (key, value) in members {
            self.new_line();
            if key.len() <= SIMPLE_KEY_BYTES_MAX && !key.chars().any(is_break) {
                self.in_simple_key = true;
                self.text(key);
                self.in_simple_key = false;
                self.indicator(":", false);
            } else {
                self.block_indicator("?");
                self.text(key);
                self.new_line();
                self.block_indicator(":");
            }
            self.node(value, true);
        }
        self.indent = outer;
    }

    /// Writes a string in the first style that can represent it.
    fn text(&mut self, text: &str) {
        let preferred = if text.contains('\n') {
            ScalarStyle::Literal
        } else if needs_quotes(text) {
            ScalarStyle::Double
        } else {
            ScalarStyle::Plain
        };
        let allowed = AllowedStyles::for_text(text);
        let style = match preferred {
            ScalarStyle::Plain if allowed.plain => ScalarStyle::Plain,
            ScalarStyle::Plain | ScalarStyle::Single if allowed.single => ScalarStyle::Single,
            ScalarStyle::Literal if allowed.literal && !self.in_simple_key => ScalarStyle::Literal,
            ScalarStyle::Plain | ScalarStyle::Single | ScalarStyle::Double | ScalarStyle::Literal => {
                ScalarStyle::Double
            }
        };
        // Continuation lines are indented by two more than the collection, and by two at the root.
        let outer = self.indent;
        self.indent = Some(outer.map_or(INDENT, |indent| indent + INDENT));
        match style {
            ScalarStyle::Plain => self.plain(text),
            ScalarStyle::Single => self.single_quoted(text),
            ScalarStyle::Double => self.double_quoted(text),
            ScalarStyle::Literal => self.literal(text),
        }
        self.indent = outer;
    }

    /// Writes a number, a boolean or null.
    fn bare(&mut self, text: &str) {
        self.indicator(text, true);
    }

    fn plain(&mut self, text: &str) {
        if !self.after_space {
            self.put(' ');
        }
        let mut after_space = false;
        for (index, c) in text.char_indices() {
            let next_is_space = text[index + c.len_utf8()..].starts_with(' ');
            if c == ' ' && self.may_fold(after_space) && !next_is_space {
                self.new_line();
            } else {
                self.put(c);
            }
            after_space = c == ' ';
        }
        self.end_of_scalar();
    }

    fn single_quoted(&mut self, text: &str) {
        self.indicator("'", true);
        // A scalar is never folded at its first or last character.
        let is_inner = |index: usize, c: char| index > 0 && index + c.len_utf8() < text.len();
        let mut after_space = false;
        let mut after_break = false;
        for (index, c) in text.char_indices() {
            let next_is_space = text[index + c.len_utf8()..].starts_with(' ');
            if c == ' ' {
                if self.may_fold(after_space) && is_inner(index, c) && !next_is_space {
                    self.new_line();
                } else {
                    self.put(c);
                }
                after_space = true;
            } else if is_break(c) {
                self.put_break(c);
                after_break = true;
            } else {
                if after_break {
                    self.new_line();
                }
                if c == '\'' {
                    self.put(c);
                }
                self.put(c);
                self.only_indicators = false;
                (after_space, after_break) = (false, false);
            }
        }
        self.indicator("'", false);
        self.end_of_scalar();
    }

    fn double_quoted(&mut self, text: &str) {
        self.indicator("\"", true);
        let mut after_space = false;
        for (index, c) in text.char_indices() {
            let rest = &text[index + c.len_utf8()..];
            if let Some(escape) = escape(c) {
                escape.chars().for_each(|c| self.put(c));
                after_space = false;
            } else if c == ' ' {
                if self.may_fold(after_space) && index > 0 && !rest.is_empty() {
                    self.new_line();
                    if rest.starts_with(' ') {
                        self.put('\\');
                    }
                } else {
                    self.put(c);
                }
                after_space = true;
            } else {
                self.put(c);
                after_space = false;
            }
        }
        self.indicator("\"", false);
        self.end_of_scalar();
    }

    fn literal(&mut self, text: &str) {
        self.indicator("|", true);
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            self.put('2');
        }
        let mut from_end = text.chars().rev();
        match (from_end.next().is_some_and(is_break), from_end.next()) {
            (false, _) => self.put('-'),
            (true, None) => self.put('+'),
            (true, Some(before)) if is_break(before) => self.put('+'),
            (true, Some(_)) => {}
        }
        self.put_break('\n');
        self.after_space = true;
        let mut at_start = true;
        for c in text.chars() {
            if is_break(c) {
                self.put_break(c);
                at_start = true;
            } else {
                if at_start {
                    self.new_line();
                }
                self.put(c);
                self.only_indicators = false;
                at_start = false;
            }
        }
    }

    fn may_fold(&self, after_space: bool) -> bool {
        !self.in_simple_key && !after_space && self.column > WIDTH
    }

    fn end_of_scalar(&mut self) {
        self.after_space = false;
        self.only_indicators = false;
    }

    fn put(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    fn put_break(&mut self, c: char) {
        self.out.push(c);
        self.column = 0;
        self.only_indicators = true;
    }

    /// Writes a flow collection, a quote or a colon. No collection may begin on the line after it.
    fn indicator(&mut self, text: &str, needs_space: bool) {
        if needs_space && !self.after_space {
            self.put(' ');
        }
        text.chars().for_each(|c| self.put(c));
        self.after_space = false;
        self.only_indicators = false;
    }

    /// Writes `-`, `?` or `:` at the start of an entry. The content of the entry may begin on the same line.
    fn block_indicator(&mut self, text: &str) {
        if !self.after_space {
            self.put(' ');
        }
        text.chars().for_each(|c| self.put(c));
        self.after_space = false;
    }

    /// Moves to the current indentation: on a new line, unless the current line contains only indentation.
    fn new_line(&mut self) {
        let indent = self.indent.unwrap_or(0);
        if !self.only_indicators || self.column > indent || (self.column == indent && !self.after_space) {
            self.put_break('\n');
        }
        while self.column < indent {
            self.put(' ');
        }
        self.after_space = true;
        self.only_indicators = true;
    }
}

/// The styles that can represent a text: the scalar analysis of libyaml for block context.
struct AllowedStyles {
    plain: bool,
    single: bool,
    literal: bool,
}

impl AllowedStyles {
    fn for_text(text: &str) -> AllowedStyles {
        let (mut space_then_break, mut break_then_space, mut special) = (false, false, false);
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let mut previous: Option<char> = None;
        for (index, c) in text.char_indices() {
            let next = text[index + c.len_utf8()..].chars().next();
            let space_follows = next.is_none_or(|next| next == ' ' || next == '\t');
            let space_precedes = previous.is_none_or(|c| c == ' ' || c == '\t' || is_break(c));
            indicators |= match c {
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
                    index == 0
                }
                '?' | '-' => index == 0 && space_follows,
                ':' => space_follows,
                '#' => space_precedes,
                _ => false,
            };
            special |= !is_printable(c);
            space_then_break |= is_break(c) && previous == Some(' ');
            break_then_space |= c == ' ' && previous.is_some_and(is_break);
            previous = Some(c);
        }
        let is_space_or_break = |c: char| c == ' ' || is_break(c);
        let breaks = text.contains(is_break);
        let needs_escapes = space_then_break || special;
        AllowedStyles {
            plain: !indicators
                && !text.starts_with(is_space_or_break)
                && !text.ends_with(is_space_or_break)
                && !breaks
                && !needs_escapes,
            single: !break_then_space && !needs_escapes,
            literal: !text.is_empty() && !text.ends_with(' ') && !needs_escapes,
        }
    }
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether the character is printable for goyaml.v2: none above the basic multilingual plane is.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && c != '\u{feff}'
}

/// The escape sequence of a character between double quotes; `None` if the character needs none.
fn escape(c: char) -> Option<String> {
    let short = match c {
        '\0' => '0',
        '\x07' => 'a',
        '\x08' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\x0b' => 'v',
        '\x0c' => 'f',
        '\r' => 'r',
        '\x1b' => 'e',
        '"' => '"',
        '\\' => '\\',
        '\u{85}' => 'N',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ if is_printable(c) => return None,
        _ => {
            let code = u32::from(c);
            return Some(match code {
                0..=0xff => format!("\\x{code:02X}"),
                0x100..=0xffff => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            });
        }
    };
    Some(format!("\\{short}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn map(pairs: &[(&str, &str)]) -> Value {
        Value::Map(pairs.iter().map(|(key, text)| (key.to_string(), Value::text(*text))).collect())
    }

    fn text(text: &str) -> String {
        write(&Value::text(text))
    }

    #[test]
    fn lists_are_not_indented_under_their_key() {
        let list = Value::List(vec![
            Value::text("x"),
            Value::List(vec![Value::text("y")]),
            map(&[("k", "v"), ("l", "w")]),
        ]);
        let value = Value::Map(BTreeMap::from([("key".to_owned(), list)]));
        assert_eq!(write(&value), "key:\n- x\n- - \"y\"\n- k: v\n  l: w\n");
    }

    #[test]
    fn a_nested_map_is_indented_by_two() {
        let value = Value::Map(BTreeMap::from([("a".to_owned(), map(&[("b", "l1\nl2\n"), ("c", "")]))]));
        assert_eq!(write(&value), "a:\n  b: |\n    l1\n    l2\n  c: \"\"\n");
    }

    #[test]
    fn scalars_are_folded_at_a_space_after_column_80() {
        let long = "x".repeat(81);
        assert_eq!(text(&format!("{long} y z")), format!("{long}\n  y z\n"));
        assert_eq!(text(&format!("{long}  y z")), format!("{long}  y\n  z\n"));
        assert_eq!(text(&format!("{long} it: 's z")), format!("'{long}\n  it: ''s z'\n"));
        assert_eq!(text(&format!("{long}  \ty")), format!("\"{long}\n  \\ \\ty\"\n"));
        let value = map(&[("key", &format!("{long} y"))]);
        assert_eq!(write(&value), format!("key: {long}\n  y\n"));
    }

    #[test]
    fn long_and_multi_line_keys_use_the_question_mark() {
        let long = "k".repeat(129);
        assert_eq!(write(&map(&[(&long, "v")])), format!("? {long}\n: v\n"));
        assert_eq!(write(&map(&[("a\nb", "v")])), "? |-\n  a\n  b\n: v\n");
        let just = "k".repeat(128);
        assert_eq!(write(&map(&[(&just, "v")])), format!("{just}: v\n"));
    }

    #[test]
    fn special_characters_force_double_quotes() {
        assert_eq!(text("\u{85}\u{feff}\u{1b}é"), "\"\\N\\uFEFF\\eé\"\n");
        assert_eq!(text("a\tb\nc"), "\"a\\tb\\nc\"\n");
        assert_eq!(text("ends in space\n "), "\"ends in space\\n \"\n");
    }

    #[test]
    fn several_newlines_at_the_end_are_kept_by_the_plus_only() {
        let value = Value::List(vec![Value::text("a\n\n"), Value::text("b")]);
        assert_eq!(write(&value), "- |+\n  a\n\n- b\n");
        assert_eq!(text("a\n\n"), "|+\n  a\n");
    }
}
