//! The deserializer that learns a shape: it answers whatever a type requests with a small value, and records
//! what was requested. Used by `schema` only.

use super::{Field, SAMPLES, Shape, Types};
use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use std::fmt;

/// Why a reading ended early.
#[derive(Debug)]
pub(super) enum ReadError {
    /// The omitted field is required. Above the struct that contains the field, this becomes
    /// [`ReadError::ShapeLearned`].
    FieldIsRequired,
    /// The reading has learnt something and is to be repeated.
    ShapeLearned,
    /// The type rejected a value; the text is its reason.
    ValueRejected(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for ReadError {}

impl de::Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> ReadError {
        ReadError::ValueRejected(message.to_string())
    }
    fn missing_field(_: &'static str) -> ReadError {
        ReadError::FieldIsRequired
    }
}

/// A deserializer at one position of the shape.
pub(super) struct ShapeReader<'a> {
    /// The shape at this position.
    pub shape: &'a mut Shape,
    /// The types described so far.
    pub types: &'a Types,
}

macro_rules! scalars {
    ($($method:ident $visit:ident($($value:expr)?) => $shape:expr;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            *self.shape = $shape;
            visitor.$visit($($value)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for ShapeReader<'_> {
    type Error = ReadError;

    scalars! {
        deserialize_any visit_unit() => Shape::Any;
        deserialize_ignored_any visit_unit() => Shape::Any;
        deserialize_unit visit_unit() => Shape::Null;
        deserialize_bool visit_bool(false) => Shape::Boolean;
        deserialize_i8 visit_i8(0) => Shape::Integer { least: None };
        deserialize_i16 visit_i16(0) => Shape::Integer { least: None };
        deserialize_i32 visit_i32(0) => Shape::Integer { least: None };
        deserialize_i64 visit_i64(0) => Shape::Integer { least: None };
        deserialize_u8 visit_u8(0) => Shape::Integer { least: Some(0) };
        deserialize_u16 visit_u16(0) => Shape::Integer { least: Some(0) };
        deserialize_u32 visit_u32(0) => Shape::Integer { least: Some(0) };
        deserialize_u64 visit_u64(0) => Shape::Integer { least: Some(0) };
        deserialize_f32 visit_f32(0.0) => Shape::Number;
        deserialize_f64 visit_f64(0.0) => Shape::Number;
    }
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let known = match self.shape {
            Shape::Text { sample, .. } => *sample,
            _ => 0,
        };
        let clock = &self.types.clock;
        clock.set(clock.get() + 1);
        *self.shape = Shape::Text { sample: known, read: clock.get() };
        visitor.visit_str(SAMPLES[known].0)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        if !matches!(self.shape, Shape::Optional(_)) {
            *self.shape = Shape::Optional(Box::default());
        }
        let Shape::Optional(inner) = self.shape else { unreachable!("the shape was just set") };
        if self.types.is_recursive(inner) {
            return visitor.visit_none();
        }
        visitor.visit_some(ShapeReader { shape: inner, types: self.types })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        if !matches!(self.shape, Shape::List(_)) {
            *self.shape = Shape::List(Box::default());
        }
        let Shape::List(item) = self.shape else { unreachable!("the shape was just set") };
        let item = std::slice::from_mut(&mut **item);
        let skipped = usize::from(self.types.is_recursive(&item[0]));
        visitor.visit_seq(Parts { parts: item[skipped..].iter_mut(), types: self.types })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, ReadError> {
        if !matches!(self.shape, Shape::Tuple(_)) {
            *self.shape = Shape::Tuple(vec![Shape::Unknown; length]);
        }
        let Shape::Tuple(parts) = self.shape else { unreachable!("the shape was just set") };
        visitor.visit_seq(Parts { parts: parts.iter_mut(), types: self.types })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.deserialize_tuple(length, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        if !matches!(self.shape, Shape::Map { .. }) {
            *self.shape = Shape::Map { key: Box::default(), value: Box::default() };
        }
        let Shape::Map { key, value } = self.shape else { unreachable!("the shape was just set") };
        visitor.visit_map(OneEntry { key: Some(key), value: Some(value), types: self.types })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let key = std::any::type_name::<V>();
        *self.shape = Shape::Named(key);
        self.types.named(key, name, |shape| read_struct(shape, names, visitor, self.types))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let key = std::any::type_name::<V>();
        *self.shape = Shape::Named(key);
        self.types.named(key, name, |shape| {
            if !matches!(shape, Shape::Enum(_)) {
                *shape = Shape::Enum(words.iter().map(|word| (*word, None)).collect());
            }
            let Shape::Enum(branches) = shape else { unreachable!("the shape was just set") };
            let again = branches.iter_mut().position(|(_, inner)| {
                let last = inner.as_mut().and_then(Shape::last_text);
                last.is_some_and(|(read, _)| self.types.rejected.get() == Some(read))
            });
            let is_open =
                |inner: &Option<Shape>| inner.as_ref().is_none_or(|inner| self.types.has_unknowns(inner));
            let open = || branches.iter().position(|(_, inner)| is_open(inner));
            let at = again.or_else(open).unwrap_or(0);
            let (word, inner) = &mut branches[at];
            visitor.visit_enum(Branch { word, inner, types: self.types })
        })
    }

    serde::forward_to_deserialize_any! { char bytes byte_buf }
}

/// Reads a struct: the first time with all fields, then with one field after the other omitted.
fn read_struct<'de, V: Visitor<'de>>(
    shape: &mut Shape,
    names: &'static [&'static str],
    visitor: V,
    types: &Types,
) -> Result<V::Value, ReadError> {
    let mut omitted = None;
    if let Shape::Struct(fields) = shape {
        omitted = fields.iter().position(|field| field.required.is_none());
    } else {
        let field = |name: &&'static str| Field { name, shape: Shape::Unknown, required: None };
        *shape = Shape::Struct(names.iter().map(field).collect());
    }
    let Shape::Struct(fields) = shape else { unreachable!("the shape was just set") };
    let present = fields.iter_mut().enumerate().filter(|(at, _)| Some(*at) != omitted);
    let present: Vec<&mut Field> = present.map(|(_, field)| field).collect();
    let read = visitor.visit_map(Fields { fields: present.into_iter(), value: None, types });
    let required = match &read {
        Ok(_) => Some(false),
        Err(ReadError::FieldIsRequired) => Some(true),
        Err(ReadError::ShapeLearned | ReadError::ValueRejected(_)) => None,
    };
    if let (Some(at), Some(required)) = (omitted, required) {
        fields[at].required = Some(required);
    }
    read.map_err(|stop| match stop {
        ReadError::FieldIsRequired => ReadError::ShapeLearned,
        other => other,
    })
}

/// The items of a list (one) or of a tuple.
struct Parts<'a> {
    parts: std::slice::IterMut<'a, Shape>,
    types: &'a Types,
}

impl<'de> SeqAccess<'de> for Parts<'_> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        let next = self.parts.next();
        next.map(|shape| seed.deserialize(ShapeReader { shape, types: self.types })).transpose()
    }
}

struct OneEntry<'a> {
    key: Option<&'a mut Shape>,
    value: Option<&'a mut Shape>,
    types: &'a Types,
}

impl<'de> MapAccess<'de> for OneEntry<'_> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadError> {
        let key = self.key.take();
        key.map(|shape| seed.deserialize(ShapeReader { shape, types: self.types })).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        let shape = self.value.take().expect("serde requests a value after its key");
        seed.deserialize(ShapeReader { shape, types: self.types })
    }
}

struct Fields<'a> {
    fields: std::vec::IntoIter<&'a mut Field>,
    value: Option<&'a mut Shape>,
    types: &'a Types,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadError> {
        let Some(Field { name, shape, .. }) = self.fields.next() else { return Ok(None) };
        self.value = Some(shape);
        let name: StrDeserializer<'_, ReadError> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        let shape = self.value.take().expect("serde requests a value after its key");
        seed.deserialize(ShapeReader { shape, types: self.types })
    }
}

struct Branch<'a> {
    word: &'static str,
    inner: &'a mut Option<Shape>,
    types: &'a Types,
}

impl<'de, 'a> EnumAccess<'de> for Branch<'a> {
    type Error = ReadError;
    type Variant = Branch<'a>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Branch<'a>), ReadError> {
        let word: StrDeserializer<'_, ReadError> = self.word.into_deserializer();
        Ok((seed.deserialize(word)?, self))
    }
}

impl<'a> Branch<'a> {
    fn inside(self) -> ShapeReader<'a> {
        ShapeReader { shape: self.inner.get_or_insert_default(), types: self.types }
    }
}

impl<'de> VariantAccess<'de> for Branch<'_> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        *self.inner = Some(Shape::Null);
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ReadError> {
        seed.deserialize(self.inside())
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, ReadError> {
        self.inside().deserialize_tuple(length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let ShapeReader { shape, types } = self.inside();
        read_struct(shape, fields, visitor, types)
    }
}
