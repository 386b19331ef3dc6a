//! Makes values of a type from the requests of its `Deserialize`, so that no sample is written by hand.
//!
//! Every field is present, every list and map has one entry. Values are made until each variant of each enum inside the
//! type has occurred once; if a [`Maker`] is used for several types, a variant that they share occurs once. A type that
//! contains itself is left out below the first level. The result depends only on the types.

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess,
    SeqAccess, VariantAccess, Visitor,
};
use std::any::type_name;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The texts that are tried, in this order, where a type parses a text.
const TEXTS: [&str; 10] = [
    "text",
    "web/0",
    "00000000-0000-0000-0000-000000000001",
    "0",
    "10.0.0.1",
    "10.0.0.1:17070",
    "web:db",
    "9m4e2mr0ui3e8a215n4g",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOS7xlIjyC3OfoK8Bxez7x/enitRUWt72fL6o+iQHsUQ",
    "mem=1024M",
];

/// The maximum number of attempts at one value. Each text that a type rejects, and each recursion, takes one attempt.
const ATTEMPTS_MAX: usize = 10_000;

/// Makes values, and records the variants that occurred in them, over all types.
#[derive(Default)]
pub struct Maker {
    /// By enum: the variants that occurred, and whether the last occurrence contained a new variant.
    shown: BTreeMap<&'static str, BTreeMap<usize, bool>>,
    /// The names of all structs and enums that were made, alone or inside others.
    pub types: BTreeSet<&'static str>,
}

impl Maker {
    /// Values that together contain every variant that did not occur in an earlier call; at least one value.
    pub fn values<T: DeserializeOwned>(&mut self) -> Vec<T> {
        let mut values = Vec::new();
        loop {
            let before = self.shown.clone();
            let value = self.value();
            let count =
                |shown: &BTreeMap<_, BTreeMap<_, _>>| shown.values().map(BTreeMap::len).sum::<usize>();
            if values.is_empty() || count(&self.shown) > count(&before) {
                values.push(value);
            } else if self.shown == before {
                return values;
            }
        }
    }

    fn value<T: DeserializeOwned>(&mut self) -> T {
        let mut plan = Plan::default();
        for _ in 0..ATTEMPTS_MAX {
            let mut making = Sampler {
                shown: self.shown.clone(),
                plan: &mut plan,
                path: Vec::new(),
                under_way: BTreeSet::new(),
                types: BTreeSet::new(),
                last_text: None,
            };
            match T::deserialize(Part(&mut making)) {
                Ok(value) => {
                    self.shown = making.shown;
                    self.types.append(&mut making.types);
                    return value;
                }
                Err(Stop::Recursive) => {}
                Err(Stop::ValueRejected(why)) => {
                    let last = making.last_text.unwrap_or_else(|| panic!("{}: {why}", type_name::<T>()));
                    let text = plan.texts.entry(last).or_default();
                    *text += 1;
                    assert!(*text < TEXTS.len(), "{}: {why}: no text is taken", type_name::<T>());
                }
            }
        }
        panic!("no value of {} after {ATTEMPTS_MAX} attempts", type_name::<T>());
    }
}

/// The results of earlier attempts at the same value, by path.
#[derive(Default)]
struct Plan {
    texts: BTreeMap<String, usize>,
    /// Options, lists and maps that would contain the type that they are part of.
    left_out: BTreeSet<String>,
}

struct Sampler<'a> {
    shown: BTreeMap<&'static str, BTreeMap<usize, bool>>,
    plan: &'a mut Plan,
    path: Vec<String>,
    /// The structs around the current value.
    under_way: BTreeSet<&'static str>,
    types: BTreeSet<&'static str>,
    last_text: Option<String>,
}

/// Why an attempt ended.
#[derive(Debug)]
enum Stop {
    Recursive,
    /// The type rejected a value, with this error.
    ValueRejected(String),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Stop {}

impl de::Error for Stop {
    fn custom<T: fmt::Display>(message: T) -> Stop {
        Stop::ValueRejected(message.to_string())
    }
}

/// The value that a `Deserialize` requests.
struct Part<'m, 'a>(&'m mut Sampler<'a>);

impl Sampler<'_> {
    fn below<T>(&mut self, name: &str, make: impl FnOnce(&mut Self) -> Result<T, Stop>) -> Result<T, Stop> {
        self.path.push(name.to_owned());
        let made = make(self)?;
        self.path.pop();
        Ok(made)
    }

    /// Whether the current option, list or map would contain the type that it is part of.
    fn is_left_out(&self) -> bool {
        self.plan.left_out.contains(&self.path.join("."))
    }

    fn inside<T>(
        &mut self,
        name: &'static str,
        make: impl FnOnce(&mut Self) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        if !self.under_way.insert(name) {
            let innermost = self.path.iter().rposition(|part| part.starts_with('?'));
            let innermost = innermost.expect("a type holds itself in an option, a list or a map");
            self.plan.left_out.insert(self.path[..innermost].join("."));
            return Err(Stop::Recursive);
        }
        let made = make(self)?;
        self.under_way.remove(name);
        Ok(made)
    }
}

macro_rules! scalars {
    ($($method:ident $visit:ident($($value:expr)?);)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
            visitor.$visit($($value)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Part<'_, '_> {
    type Error = Stop;

    scalars! {
        deserialize_any visit_str("any");
        deserialize_ignored_any visit_unit();
        deserialize_unit visit_unit();
        deserialize_bool visit_bool(true);
        deserialize_i8 visit_i8(1);
        deserialize_i16 visit_i16(1);
        deserialize_i32 visit_i32(1);
        deserialize_i64 visit_i64(1);
        deserialize_u8 visit_u8(1);
        deserialize_u16 visit_u16(1);
        deserialize_u32 visit_u32(1);
        deserialize_u64 visit_u64(1);
        deserialize_f32 visit_f32(1.0);
        deserialize_f64 visit_f64(1.0);
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        let path = self.0.path.join(".");
        let text = TEXTS[self.0.plan.texts.get(&path).copied().unwrap_or_default()];
        self.0.last_text = Some(path);
        visitor.visit_str(text)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        match self.0.is_left_out() {
            true => visitor.visit_none(),
            false => self.0.below("?some", |making| visitor.visit_some(Part(making))),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.0.types.insert(name);
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.0.types.insert(name);
        visitor.visit_unit()
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        let length = usize::from(!self.0.is_left_out());
        visitor.visit_seq(Items { making: self.0, prefix: "?", at: 0, length })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Stop> {
        visitor.visit_seq(Items { making: self.0, prefix: "", at: 0, length })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.0.types.insert(name);
        self.deserialize_tuple(length, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        let is_empty = self.0.is_left_out();
        visitor.visit_map(OneEntry { making: self.0, is_over: is_empty })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.0.types.insert(name);
        self.0.inside(type_name::<V>(), |making| {
            visitor.visit_map(Fields { making, next: fields.iter(), name: "" })
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.0.types.insert(name);
        let (name, making) = (type_name::<V>(), self.0);
        let shown = making.shown.entry(name).or_default();
        // the first variant that has not occurred, else one whose last occurrence contained a new variant
        let unseen = (0..variants.len()).find(|at| !shown.contains_key(at));
        let at = unseen.or_else(|| shown.iter().find(|(_, news)| **news).map(|(at, _)| *at)).unwrap_or(0);
        shown.insert(at, false);
        let before = making.shown.clone();
        let made = making.below(variants[at], |making| visitor.visit_enum(Variant(making, variants[at])))?;
        let news = unseen.is_some() || making.shown != before;
        making.shown.entry(name).or_default().insert(at, news);
        Ok(made)
    }

    serde::forward_to_deserialize_any! { char bytes byte_buf }
}

/// The one item of a list, or the items of a tuple.
struct Items<'m, 'a> {
    making: &'m mut Sampler<'a>,
    prefix: &'static str,
    at: usize,
    length: usize,
}

impl<'de> SeqAccess<'de> for Items<'_, '_> {
    type Error = Stop;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Stop> {
        if self.at == self.length {
            return Ok(None);
        }
        let name = format!("{}{}", self.prefix, self.at);
        self.at += 1;
        self.making.below(&name, |making| seed.deserialize(Part(making))).map(Some)
    }
}

struct OneEntry<'m, 'a> {
    making: &'m mut Sampler<'a>,
    is_over: bool,
}

impl<'de> MapAccess<'de> for OneEntry<'_, '_> {
    type Error = Stop;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Stop> {
        if std::mem::replace(&mut self.is_over, true) {
            return Ok(None);
        }
        self.making.below("?key", |making| seed.deserialize(Part(making))).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Stop> {
        self.making.below("?value", |making| seed.deserialize(Part(making)))
    }
}

struct Fields<'m, 'a> {
    making: &'m mut Sampler<'a>,
    next: std::slice::Iter<'static, &'static str>,
    name: &'static str,
}

impl<'de> MapAccess<'de> for Fields<'_, '_> {
    type Error = Stop;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Stop> {
        let Some(name) = self.next.next() else { return Ok(None) };
        self.name = name;
        let name: StrDeserializer<'_, Stop> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Stop> {
        self.making.below(self.name, |making| seed.deserialize(Part(making)))
    }
}

struct Variant<'m, 'a>(&'m mut Sampler<'a>, &'static str);

impl<'de, 'm, 'a> EnumAccess<'de> for Variant<'m, 'a> {
    type Error = Stop;
    type Variant = Part<'m, 'a>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Part<'m, 'a>), Stop> {
        let name: StrDeserializer<'_, Stop> = self.1.into_deserializer();
        Ok((seed.deserialize(name)?, Part(self.0)))
    }
}

impl<'de> VariantAccess<'de> for Part<'_, '_> {
    type Error = Stop;

    fn unit_variant(self) -> Result<(), Stop> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Stop> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Stop> {
        self.deserialize_tuple(length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        visitor.visit_map(Fields { making: self.0, next: fields.iter(), name: "" })
    }
}
