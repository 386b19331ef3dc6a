//! Reads the YAML of `--file`: one mapping of scalars, each as its source text (spec/hook-tools.md 1.8).
//!
//! A merge key `<<` applies where it is written, as in goyaml.v2: it overwrites the keys before it, and the keys after
//! it overwrite it. The texts of errors are those of goyaml.v2. The file is untrusted, so size, depth and merges are
//! bounded. Called by relation-set, state-set, secret-add and secret-set; payload-register reads metadata.yaml with it.

use crate::yaml_plain::{is_integer, is_null, is_number, is_word};
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use granit_parser::{Event, Parser, ScalarStyle, Span};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Largest settings file in bytes: four times the largest bag (4 MiB), because a character that is no ASCII takes up to ten
/// bytes as an escape, as ops writes it. That is also the most that stdin takes.
const BYTES_MAX: usize = 16 << 20;

/// Deepest nesting that is read. Merges of merges need a few levels; a deeper value is reported by its type only.
const DEPTH_MAX: usize = 16;
/// Largest number of settings that merges may add, because with aliases a few bytes can represent any number of them.
const MERGED_MAX: usize = 10_000;

/// A node and the line on which it begins.
type NodeAtLine = (Node, usize);

#[derive(Clone, Debug)]
enum Node {
    Scalar { text: String, plain: bool, tag: Option<String> },
    Sequence(Rc<[NodeAtLine]>),
    Mapping(Rc<[(NodeAtLine, NodeAtLine)]>),
    Alias(Rc<Node>),
}

impl Node {
    /// The node to which an alias refers; any other node itself.
    fn target(&self) -> &Node {
        match self {
            Node::Alias(target) => target.target(),
            Node::Scalar { .. } | Node::Sequence(_) | Node::Mapping(_) => self,
        }
    }

    /// The value of a key in a mapping. The last of two equal keys counts.
    fn value_of(&self, key: &str) -> Option<Node> {
        let Node::Mapping(pairs) = self.target() else { return None };
        let found = pairs.iter().rev().find(|((name, _), _)| string(name, 0).is_ok_and(|name| name == key));
        found.map(|(_, (value, _))| value.clone())
    }

    /// Whether the node is the merge key `<<`.
    fn is_merge(&self) -> bool {
        match self {
            Node::Scalar { text, plain, tag: None } => *plain && text == "<<",
            Node::Scalar { text, tag: Some(tag), .. } => text == "<<" && tag.ends_with("merge"),
            Node::Sequence(_) | Node::Mapping(_) | Node::Alias(_) => false,
        }
    }
}

/// Reads the settings in the first document of `bytes`. An empty document and null are no settings. The last of two
/// equal keys counts.
///
/// # Errors
/// The text that the tool prints.
pub fn parse(bytes: &[u8]) -> Result<BTreeMap<String, String>, String> {
    let mut settings = SettingsBuilder::default();
    match first_document(bytes)? {
        Some((Node::Mapping(pairs), _)) => settings.add(&pairs)?,
        Some((Node::Scalar { text, plain: true, tag: None }, _)) if is_null(&text) => {}
        Some((node, line)) => settings.errors.push(mismatch(&node, line, "map[string]string")),
        None => {}
    }
    if settings.errors.is_empty() {
        Ok(settings.values)
    } else {
        Err(format!("yaml: unmarshal errors:\n  {}", settings.errors.join("\n  ")))
    }
}

/// Reads the type of one payload class from `payloads` of a charm's metadata.yaml; `None` if it is not declared.
///
/// # Errors
/// The text that the tool prints, if `bytes` is not YAML.
pub fn payload_type(bytes: &[u8], class: &str) -> Result<Option<String>, String> {
    let metadata = first_document(bytes)?.map(|(node, _)| node);
    let kind = metadata.and_then(|root| {
        ["payloads", class, "type"].into_iter().try_fold(root, |node, key| node.value_of(key))
    });
    Ok(kind.and_then(|node| string(&node, 0).ok()))
}

/// Reads the root of the first document with its line; `None` if there is no document.
fn first_document(bytes: &[u8]) -> Result<Option<NodeAtLine>, String> {
    if bytes.len() > BYTES_MAX {
        return Err(format!("settings of {} bytes are too large: {BYTES_MAX} at most", bytes.len()));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    let mut reader = YamlReader { parser: Parser::new_from_str(text), anchors: BTreeMap::new() };
    let (event, line) = loop {
        match reader.next()? {
            (Event::StreamStart | Event::DocumentStart(..), _) => {}
            first => break first,
        }
    };
    Ok(reader.finish(event, 0)?.map(|node| (node, line)))
}

/// Settings collected so far.
#[derive(Default)]
struct SettingsBuilder {
    values: BTreeMap<String, String>,
    /// One text for each key or value that is not a string, with its line.
    errors: Vec<String>,
    /// Number of settings that merges have added.
    merged: usize,
}

impl SettingsBuilder {
    fn add(&mut self, pairs: &[(NodeAtLine, NodeAtLine)]) -> Result<(), String> {
        for ((key, key_line), (value, value_line)) in pairs {
            if key.is_merge() {
                self.merge(value)?;
                continue;
            }
            let key = string(key, *key_line).map_err(|text| self.errors.push(text));
            let value = string(value, *value_line).map_err(|text| self.errors.push(text));
            if let (Ok(key), Ok(value)) = (key, value) {
                self.values.insert(key, value);
            }
        }
        Ok(())
    }

    /// Adds a mapping, or a list of mappings in which an earlier one overrides a later one.
    fn merge(&mut self, value: &Node) -> Result<(), String> {
        let mappings = match value {
            Node::Sequence(items) => items.iter().rev().map(|(item, _)| item).collect(),
            Node::Scalar { .. } | Node::Mapping(_) | Node::Alias(_) => vec![value],
        };
        for mapping in mappings {
            let Node::Mapping(pairs) = mapping.target() else {
                return Err("yaml: map merge requires map or sequence of maps as the value".to_owned());
            };
            self.merged += 1 + pairs.len();
            if self.merged > MERGED_MAX {
                return Err("yaml: document contains excessive aliasing".to_owned());
            }
            self.add(pairs)?;
        }
        Ok(())
    }
}

/// Builds nodes from the events of the parser.
struct YamlReader<'a> {
    parser: Parser<'a, granit_parser::StrInput<'a>>,
    /// Complete nodes by the number of their anchor.
    anchors: BTreeMap<usize, Node>,
}

impl<'a> YamlReader<'a> {
    /// Returns the next event and its line.
    fn next(&mut self) -> Result<(Event<'a>, usize), String> {
        match self.parser.next_event() {
            Some(Ok((event, Span { start, .. }))) => Ok((event, start.line())),
            Some(Err(error)) => Err(format!("yaml: line {}: {}", error.marker().line(), error.info())),
            None => Ok((Event::StreamEnd, 0)),
        }
    }

    /// Returns the next node of a collection with its line; `None` at the end of the collection.
    fn node(&mut self, depth: usize) -> Result<Option<NodeAtLine>, String> {
        let (event, line) = self.next()?;
        Ok(self.finish(event, depth)?.map(|node| (node, line)))
    }

    /// Reads the rest of the node that begins with `event`.
    fn finish(&mut self, event: Event<'a>, depth: usize) -> Result<Option<Node>, String> {
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag.map(|tag| format!("{}{}", tag.handle(), tag.suffix()));
                (Node::Scalar { text: text.into_owned(), plain: style == ScalarStyle::Plain, tag }, anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                let mut items = Vec::new();
                if depth == DEPTH_MAX {
                    self.skip()?;
                } else {
                    while let Some(item) = self.node(depth + 1)? {
                        items.push(item);
                    }
                }
                (Node::Sequence(items.into()), anchor)
            }
            Event::MappingStart(_, anchor, _) => {
                let mut pairs = Vec::new();
                if depth == DEPTH_MAX {
                    self.skip()?;
                } else {
                    while let Some(key) = self.node(depth + 1)? {
                        let Some(value) = self.node(depth + 1)? else { break };
                        pairs.push((key, value));
                    }
                }
                (Node::Mapping(pairs.into()), anchor)
            }
            Event::Alias(anchor) => {
                let target = self.anchors.get(&anchor).cloned();
                let target = target.ok_or_else(|| "yaml: an anchor's value contains itself".to_owned())?;
                return Ok(Some(Node::Alias(Rc::new(target))));
            }
            _ => return Ok(None),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(Some(node))
    }

    /// Skips to the end of the collection whose start was read last.
    fn skip(&mut self) -> Result<(), String> {
        let mut depth = 1;
        while depth > 0 {
            match self.next()?.0 {
                Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
                Event::SequenceEnd | Event::MappingEnd => depth -= 1,
                Event::StreamEnd => return Ok(()),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The source text of a scalar; the text of null is empty.
fn string(node: &Node, line: usize) -> Result<String, String> {
    match node.target() {
        Node::Scalar { text, plain: true, tag: None } if is_null(text) => Ok(String::new()),
        Node::Scalar { text, tag: Some(tag), .. } if tag.ends_with("binary") => base64(text)
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .ok_or_else(|| format!("line {line}: !!binary value is not base64 of UTF-8 text")),
        Node::Scalar { text, .. } => Ok(text.clone()),
        Node::Alias(_) | Node::Sequence(_) | Node::Mapping(_) => Err(mismatch(node, line, "string")),
    }
}

/// The error of goyaml.v2 for a node that does not have the type `expected`.
fn mismatch(node: &Node, line: usize, expected: &str) -> String {
    let found = match node.target() {
        Node::Sequence(_) => "!!seq".to_owned(),
        Node::Alias(_) | Node::Mapping(_) => "!!map".to_owned(),
        Node::Scalar { text, plain, .. } => {
            let kind = match text {
                _ if !plain => "!!str",
                _ if is_integer(&text.replace('_', "")) => "!!int",
                _ if is_number(text) || (is_word(text) && text.contains('.')) => "!!float",
                _ if is_word(text) => "!!bool",
                _ => "!!str",
            };
            // goyaml.v2 truncates longer texts to 7 bytes.
            match text.len() {
                0..=10 => format!("{kind} `{text}`"),
                _ => format!("{kind} `{}...`", String::from_utf8_lossy(&text.as_bytes()[..7])),
            }
        }
    };
    format!("line {line}: cannot unmarshal {found} into {expected}")
}

/// Standard base64 with padding, as Go reads it: bits after the last byte are ignored.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// Decodes standard base64 with padding. White space is skipped.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    BASE64.decode(digits).ok()
}

#[cfg(test)]
mod tests {
    fn parsed(text: &str) -> Vec<(String, String)> {
        super::parse(text.as_bytes()).unwrap().into_iter().collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, text)| (key.to_string(), text.to_string())).collect()
    }

    #[test]
    fn values_are_the_untrimmed_source_text_of_scalars() {
        let text = "a: 3306\nb: 1.50\nc: yes\nd: 2020-01-01\ne: ' x '\nf: |\n  l\n1: 0x1F\n";
        let expected = [
            ("1", "0x1F"),
            ("a", "3306"),
            ("b", "1.50"),
            ("c", "yes"),
            ("d", "2020-01-01"),
            ("e", " x "),
            ("f", "l\n"),
        ];
        assert_eq!(parsed(text), pairs(&expected));
    }

    #[test]
    fn null_is_empty_and_the_last_of_equal_keys_counts() {
        assert_eq!(parsed("a: ~\nb:\nc: null\nc: \"null\"\n"), pairs(&[("a", ""), ("b", ""), ("c", "null")]));
    }

    #[test]
    fn json_is_accepted_and_only_the_first_document_counts() {
        assert_eq!(
            parsed("{\"a\": \"\\ud83d\\ude00\\u00e9\\n\", \"b\": 1}"),
            pairs(&[("a", "😀é\n"), ("b", "1")])
        );
        assert_eq!(parsed("a: b\n---\nc: d\n"), pairs(&[("a", "b")]));
    }

    #[test]
    fn an_empty_document_and_null_are_no_settings() {
        for text in ["", "\n", "# only a comment\n", "null", "~\n", "{}", "---\n"] {
            assert_eq!(parsed(text), pairs(&[]), "{text:?}");
        }
    }

    #[test]
    fn binary_and_aliases_are_resolved() {
        assert_eq!(
            parsed("a: &x one\nb: *x\nc: !!binary Z3LDvMOf\n"),
            pairs(&[("a", "one"), ("b", "one"), ("c", "grüß")])
        );
    }

    #[test]
    fn a_merge_applies_where_it_is_written_and_the_first_of_a_list_overrides() {
        assert_eq!(
            parsed("a: old\n<<: &x {a: 1, b: 2}\nb: new\n"),
            pairs(&[("a", "1"), ("b", "new")]),
            "keys after the merge overwrite it, and it overwrites keys before it"
        );
        assert_eq!(parsed("<<: [{a: 1}, {a: 2, b: 2}]\n"), pairs(&[("a", "1"), ("b", "2")]));
        assert_eq!(parsed("<<: &x {a: 1}\na: 2\n<<: *x\n"), pairs(&[("a", "1")]));
        assert_eq!(parsed("<<: {<<: {a: 1}, b: 2}\n"), pairs(&[("a", "1"), ("b", "2")]));
        assert_eq!(parsed("\"<<\": x\n"), pairs(&[("<<", "x")]), "a quoted << is an ordinary key");
        for text in ["<<: x\n", "<<: [x]\n", "a: &s one\n<<: *s\n", "<<: [[{a: 1}]]\n"] {
            let error = super::parse(text.as_bytes()).unwrap_err();
            assert_eq!(error, "yaml: map merge requires map or sequence of maps as the value", "{text}");
        }
    }

    #[test]
    fn nested_merges_and_depth_are_bounded() {
        let mut bomb = "<<: &a0 {a: 1}\n".to_owned();
        for level in 1..30 {
            let before = format!("{{<<: *a{}}}", level - 1);
            bomb += &format!("<<: &a{level} {{<<: [{before}, {before}]}}\n");
        }
        assert_eq!(super::parse(bomb.as_bytes()).unwrap_err(), "yaml: document contains excessive aliasing");
        let deep = format!("a: {}{}\n", "[".repeat(200), "]".repeat(200));
        assert!(super::parse(deep.as_bytes()).unwrap_err().ends_with("cannot unmarshal !!seq into string"));
    }

    #[test]
    fn values_that_are_not_strings_are_reported_with_their_line() {
        let error = |text: &str| super::parse(text.as_bytes()).unwrap_err();
        assert_eq!(
            error("- a\n"),
            "yaml: unmarshal errors:\n  line 1: cannot unmarshal !!seq into map[string]string"
        );
        assert_eq!(
            error("just some words\n"),
            "yaml: unmarshal errors:\n  line 1: cannot unmarshal !!str `just so...` into map[string]string"
        );
        assert_eq!(
            error("12"),
            "yaml: unmarshal errors:\n  line 1: cannot unmarshal !!int `12` into map[string]string"
        );
        assert_eq!(
            error("a: 1\nb: [x]\nc:\n  d: e\n"),
            "yaml: unmarshal errors:\n  line 2: cannot unmarshal !!seq into string\n  line 4: cannot unmarshal !!map into string"
        );
        assert!(error("a: [b\n").starts_with("yaml: line "));
        assert!(super::parse(&[0xff, 0xfe]).is_err());
    }
}
