//! A part of a response that is computed once and sent many times.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

/// A value whose clones share it and its JSON. It is transmitted like the value itself.
pub struct Shared<T>(Arc<Inner<T>>);

#[derive(Clone)]
struct Inner<T> {
    value: T,
    /// Created when the value is serialised for the first time.
    json: OnceLock<Box<RawValue>>,
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Shared<T> {
        Shared(Arc::new(Inner { value, json: OnceLock::new() }))
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared(self.0.clone())
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    /// Other clones keep their value.
    fn deref_mut(&mut self) -> &mut T {
        let inner = Arc::make_mut(&mut self.0);
        inner.json = OnceLock::new();
        &mut inner.value
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Shared<T>) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || **self == **other
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(json) = self.0.json.get() {
            return json.serialize(serializer);
        }
        let json = serde_json::value::to_raw_value(&self.0.value).map_err(ser::Error::custom)?;
        self.0.json.get_or_init(|| json).serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Shared<T>, D::Error> {
        T::deserialize(deserializer).map(Shared::from)
    }
}

impl<T: JsonSchema> JsonSchema for Shared<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_shared_value_is_transmitted_like_the_value() {
        let plain = BTreeMap::from([("a".to_owned(), vec![1, 2])]);
        let shared: BTreeMap<String, Shared<Vec<i32>>> =
            plain.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect();
        for _ in 0..2 {
            assert_eq!(serde_json::to_string(&shared).expect("plain data"), r#"{"a":[1,2]}"#);
            assert_eq!(serde_json::to_value(&shared).expect("plain data"), serde_json::json!(plain));
        }
        let received: BTreeMap<String, Shared<Vec<i32>>> =
            serde_json::from_str(r#"{"a":[1,2]}"#).expect("it was just written");
        assert_eq!(received, shared);
    }

    #[test]
    fn a_changed_value_is_transmitted_and_other_clones_keep_theirs() {
        let before: Shared<Vec<i32>> = vec![1].into();
        assert_eq!(serde_json::to_string(&before).expect("plain data"), "[1]");
        let mut after = before.clone();
        after.push(2);
        assert_eq!(serde_json::to_string(&after).expect("plain data"), "[1,2]");
        assert_eq!(serde_json::to_string(&before).expect("plain data"), "[1]");
    }
}
