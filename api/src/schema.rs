//! JSON schemas of the messages, learnt from their types.
//!
//! A schema is derived from what a type's own `Deserialize` requests when it is read, so that nothing is
//! declared twice. The type is read repeatedly, each time with another variant of an enum or with one field
//! omitted, until its whole shape is known.
//!
//! The alternative is a derive macro (utoipa, schemars). It was not chosen because half of the messages contain
//! types of `state`, which depends on data formats only. The price is that a schema contains only what serde
//! reveals: names, types, and which fields are optional. The controller's OpenAPI document and the
//! compatibility test use it.

mod reading;

use reading::{ReadError, ShapeReader};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

/// Texts to try where a type parses a text: the first sample that it accepts determines its format.
const SAMPLES: [(&str, Option<&str>); 4] = [
    ("", None),
    ("00000000-0000-0000-0000-000000000000", Some("uuid")),
    ("web/0", Some("unit-name")),
    ("web:db", Some("endpoint")),
];

/// The most readings of one message until its shape must be known: one for each field and each variant that no
/// earlier message had. The largest message needs about 400.
const READINGS_MAX: usize = 10_000;

/// What a type reads.
#[derive(Clone, Debug, Default, PartialEq)]
enum Shape {
    #[default]
    Unknown,
    /// Any JSON value.
    Any,
    Null,
    Boolean,
    Integer {
        least: Option<i64>,
    },
    Number,
    /// `sample` is the index of the text that the type accepts; `read` is the time of the last reading.
    Text {
        sample: usize,
        read: usize,
    },
    Optional(Box<Shape>),
    List(Box<Shape>),
    Tuple(Vec<Shape>),
    Map {
        key: Box<Shape>,
        value: Box<Shape>,
    },
    /// A type with its own name, in [`Types`].
    Named(&'static str),
    Struct(Vec<Field>),
    Enum(Vec<(&'static str, Option<Shape>)>),
}

#[derive(Clone, Debug, PartialEq)]
struct Field {
    name: &'static str,
    shape: Shape,
    /// None if it was not tried yet.
    required: Option<bool>,
}

/// All types that were described, each once, by the type name of the visitor that reads it, which is unique.
#[derive(Default)]
pub struct Types {
    known: RefCell<BTreeMap<&'static str, DescribedType>>,
    /// Counts the texts that were read.
    clock: Cell<usize>,
    /// When the text was read that was rejected last: the branch of an enum that it is in is read again.
    rejected: Cell<Option<usize>>,
}

struct DescribedType {
    /// The name of the schema in the document.
    name: String,
    shape: Shape,
    /// Whether the type is being read. A nested value of the same type is omitted where it can be.
    is_being_read: bool,
}

impl Types {
    /// The schema of `T`, which refers to the [`Types::schemas`].
    ///
    /// Panics if the type cannot be described. That is a bug in this crate, which the test that describes the
    /// messages of every route finds.
    pub fn describe<T: DeserializeOwned>(&self) -> Value {
        let mut shape = Shape::Unknown;
        for _ in 0..READINGS_MAX {
            match T::deserialize(ShapeReader { shape: &mut shape, types: self }) {
                Ok(_) if !self.has_unknowns(&shape) => return self.schema(&shape),
                Ok(_) | Err(ReadError::FieldIsRequired | ReadError::ShapeLearned) => {}
                Err(ReadError::ValueRejected(why)) => {
                    assert!(self.next_sample(&mut shape), "{why}: no sample is accepted")
                }
            }
        }
        panic!("the shape of {} is not known after {READINGS_MAX} readings", std::any::type_name::<T>());
    }

    /// The schemas of all types that have a name, by that name.
    pub fn schemas(&self) -> Map<String, Value> {
        let known = self.known.borrow();
        known.values().map(|described| (described.name.clone(), self.schema(&described.shape))).collect()
    }

    /// Whether another reading would reveal more about the shape, or about the types that it contains. Types
    /// that are being read are skipped.
    fn has_unknowns(&self, shape: &Shape) -> bool {
        fn look(
            known: &BTreeMap<&'static str, DescribedType>,
            shape: &Shape,
            seen: &mut BTreeSet<&'static str>,
        ) -> bool {
            match shape {
                Shape::Unknown => true,
                Shape::Named(key) => known.get(key).is_none_or(|one| {
                    !one.is_being_read && seen.insert(key) && look(known, &one.shape, seen)
                }),
                Shape::Struct(fields) if fields.iter().any(|field| field.required.is_none()) => true,
                Shape::Enum(branches) if branches.iter().any(|(_, inner)| inner.is_none()) => true,
                other => other.parts().into_iter().any(|part| look(known, part, seen)),
            }
        }
        look(&self.known.borrow(), shape, &mut BTreeSet::new())
    }

    /// Selects the next sample for the last text that was read, because the type rejected it; false if there is
    /// none.
    fn next_sample(&self, shape: &mut Shape) -> bool {
        let mut known = self.known.borrow_mut();
        let shapes = known.values_mut().map(|one| &mut one.shape).chain([shape]);
        let Some((read, sample)) = shapes.filter_map(Shape::last_text).max_by_key(|(read, _)| *read) else {
            return false;
        };
        self.rejected.set(Some(read));
        *sample += 1;
        *sample < SAMPLES.len()
    }

    /// Whether the type is inside itself. Its presence is known by then, and reading on would not end.
    fn is_recursive(&self, inner: &Shape) -> bool {
        let Shape::Named(key) = inner else { return false };
        self.known.borrow().get(key).is_some_and(|one| one.is_being_read)
    }

    /// Reads a type with a name. What was learnt about it is kept, even if the reading fails.
    fn named<T>(
        &self,
        key: &'static str,
        name: &str,
        read: impl FnOnce(&mut Shape) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let mut shape = {
            let mut known = self.known.borrow_mut();
            let of_name = known.iter().filter(|(other, one)| {
                **other != key && one.name.trim_end_matches(|c: char| c.is_ascii_digit()) == name
            });
            let name = match of_name.count() {
                0 => name.to_owned(),
                others => format!("{name}{}", others + 1),
            };
            let one = known.entry(key).or_insert(DescribedType {
                name,
                shape: Shape::Unknown,
                is_being_read: false,
            });
            if std::mem::replace(&mut one.is_being_read, true) {
                return Err(ReadError::ShapeLearned); // it contains itself, in an option or a list: see `is_recursive`
            }
            std::mem::take(&mut one.shape)
        };
        let answer = read(&mut shape);
        let mut known = self.known.borrow_mut();
        let one = known.get_mut(key).expect("the entry was just inserted");
        (one.shape, one.is_being_read) = (shape, false);
        answer
    }

    /// The shape as JSON Schema (2020-12, as in OpenAPI 3.1). Readers ignore unknown fields.
    fn schema(&self, shape: &Shape) -> Value {
        match shape {
            Shape::Unknown | Shape::Any => json!({}),
            Shape::Null => json!({"type": "null"}),
            Shape::Boolean => json!({"type": "boolean"}),
            Shape::Integer { least: None } => json!({"type": "integer"}),
            Shape::Integer { least: Some(least) } => json!({"type": "integer", "minimum": least}),
            Shape::Number => json!({"type": "number"}),
            Shape::Text { sample, .. } => match SAMPLES[*sample].1 {
                None => json!({"type": "string"}),
                Some(format) => json!({"type": "string", "format": format}),
            },
            Shape::Optional(inner) => json!({"anyOf": [self.schema(inner), {"type": "null"}]}),
            Shape::List(item) => json!({"type": "array", "items": self.schema(item)}),
            Shape::Tuple(parts) => {
                let schemas: Vec<Value> = parts.iter().map(|part| self.schema(part)).collect();
                let length = parts.len();
                json!({"type": "array", "prefixItems": schemas, "minItems": length, "maxItems": length})
            }
            Shape::Map { value, .. } => {
                json!({"type": "object", "additionalProperties": self.schema(value)})
            }
            Shape::Named(key) => {
                let known = self.known.borrow();
                json!({"$ref": format!("#/components/schemas/{}", known[key].name)})
            }
            Shape::Struct(fields) => {
                let properties: Map<String, Value> =
                    fields.iter().map(|field| (field.name.to_owned(), self.schema(&field.shape))).collect();
                let required = fields.iter().filter(|field| field.required == Some(true));
                let required: Vec<&str> = required.map(|field| field.name).collect();
                json!({"type": "object", "properties": properties, "required": required})
            }
            Shape::Enum(branches) => {
                let words = branches.iter().filter(|(_, inner)| *inner == Some(Shape::Null));
                let words: Vec<&str> = words.map(|(word, _)| *word).collect();
                let holders = branches.iter().filter(|(_, inner)| *inner != Some(Shape::Null));
                let holders: Vec<Value> = holders
                    .map(|(word, inner)| {
                        let inner = inner.as_ref().map_or(json!({}), |inner| self.schema(inner));
                        let properties = Map::from_iter([(word.to_string(), inner)]);
                        json!({"type": "object", "properties": properties, "required": [word], "maxProperties": 1})
                    })
                    .collect();
                let word = json!({"type": "string", "enum": words});
                match (words.is_empty(), holders.is_empty()) {
                    (_, true) => word,
                    (true, false) => json!({ "oneOf": holders }),
                    (false, false) => {
                        let all: Vec<Value> = [word].into_iter().chain(holders).collect();
                        json!({ "oneOf": all })
                    }
                }
            }
        }
    }
}

impl Shape {
    fn parts(&self) -> Vec<&Shape> {
        match self {
            Shape::Optional(inner) | Shape::List(inner) => vec![inner],
            Shape::Tuple(parts) => parts.iter().collect(),
            Shape::Map { key, value } => vec![key, value],
            Shape::Struct(fields) => fields.iter().map(|field| &field.shape).collect(),
            Shape::Enum(branches) => branches.iter().filter_map(|(_, inner)| inner.as_ref()).collect(),
            _ => Vec::new(),
        }
    }

    /// When its last text was read, and the sample that was used.
    fn last_text(&mut self) -> Option<(usize, &mut usize)> {
        let parts: Vec<&mut Shape> = match self {
            Shape::Text { sample, read } => return Some((*read, sample)),
            Shape::Optional(inner) | Shape::List(inner) => vec![inner],
            Shape::Tuple(parts) => parts.iter_mut().collect(),
            Shape::Map { key, value } => vec![key, value],
            Shape::Struct(fields) => fields.iter_mut().map(|field| &mut field.shape).collect(),
            Shape::Enum(branches) => branches.iter_mut().filter_map(|(_, inner)| inner.as_mut()).collect(),
            _ => return None,
        };
        parts.into_iter().filter_map(Shape::last_text).max_by_key(|(read, _)| *read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use state::terms::names::{UnitName, Uuid};

    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    #[expect(dead_code, reason = "only its shape is used")]
    struct Sample {
        unit_name: UnitName,
        #[serde(default)]
        count: u32,
        id: Option<Uuid>,
        choice: Choice,
        more: BTreeMap<String, (i64, Value)>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    #[expect(dead_code, reason = "only its shape is used")]
    enum Choice {
        PlainWord,
        Other,
        Holds {
            text: String,
            #[serde(default)]
            flag: bool,
        },
        List(Vec<f64>),
    }

    #[test]
    fn a_schema_describes_what_the_type_reads() {
        let types = Types::default();
        assert_eq!(
            types.describe::<Vec<Sample>>(),
            json!({
                "type": "array", "items": {"$ref": "#/components/schemas/Sample"},
            })
        );
        let expected = json!({
            "Sample": {
                "type": "object",
                "required": ["unit-name", "choice", "more"],
                "properties": {
                    "unit-name": {"type": "string", "format": "unit-name"},
                    "count": {"type": "integer", "minimum": 0},
                    "id": {"anyOf": [{"type": "string", "format": "uuid"}, {"type": "null"}]},
                    "choice": {"$ref": "#/components/schemas/Choice"},
                    "more": {"type": "object", "additionalProperties": {
                        "type": "array", "prefixItems": [{"type": "integer"}, {}], "minItems": 2, "maxItems": 2,
                    }},
                },
            },
            "Choice": {"oneOf": [
                {"type": "string", "enum": ["plain-word", "other"]},
                {"type": "object", "maxProperties": 1, "required": ["holds"], "properties": {"holds": {
                    "type": "object",
                    "required": ["text"],
                    "properties": {"text": {"type": "string"}, "flag": {"type": "boolean"}},
                }}},
                {"type": "object", "maxProperties": 1, "required": ["list"], "properties": {"list": {
                    "type": "array", "items": {"type": "number"},
                }}},
            ]},
        });
        assert_eq!(Value::Object(types.schemas()), expected);
    }

    #[test]
    fn a_recursive_type_is_described() {
        #[derive(Deserialize)]
        #[expect(dead_code, reason = "only its shape is used")]
        struct Tree {
            parent: Option<Box<Tree>>,
            children: Vec<Tree>,
            name: String,
        }
        let types = Types::default();
        types.describe::<Tree>();
        let tree = json!({"$ref": "#/components/schemas/Tree"});
        let expected = json!({
            "type": "object",
            "required": ["children", "name"],
            "properties": {
                "parent": {"anyOf": [tree, {"type": "null"}]},
                "children": {"type": "array", "items": tree},
                "name": {"type": "string"},
            },
        });
        assert_eq!(types.schemas()["Tree"], expected);
    }

    #[test]
    fn two_types_with_the_same_name_get_two_schemas() {
        mod other {
            #[derive(serde::Deserialize)]
            pub enum Choice {
                Only,
            }
        }
        let types = Types::default();
        types.describe::<Choice>();
        assert_eq!(types.describe::<other::Choice>(), json!({"$ref": "#/components/schemas/Choice2"}));
        assert_eq!(types.schemas()["Choice2"], json!({"type": "string", "enum": ["Only"]}));
    }
}
