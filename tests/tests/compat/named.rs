//! Samples by type name, as one file contains them, and the check that each sample loads as its type.

use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

/// One file: samples by the name of their type.
pub type Named = BTreeMap<String, Vec<Value>>;

pub fn loaded<T: DeserializeOwned>(name: &str, samples: &[Value]) -> Vec<T> {
    assert!(!samples.is_empty(), "{name} has a sample");
    let load = |sample: &Value| {
        serde_json::from_value(sample.clone()).unwrap_or_else(|error| panic!("{name}: {error}: {sample}"))
    };
    samples.iter().map(load).collect()
}

/// Defines a function that makes the samples of these types, in this order, and one that loads them. A variant is
/// included in the samples of the first type that has it, so small types are listed before those that contain them.
macro_rules! types {
    ($made:ident, $loads:ident: $($name:ident)*) => {
        fn $made(maker: &mut Maker) -> Named {
            let mut named = Named::new();
            $({
                let values = maker.values::<$name>();
                let samples = values.iter().map(|value| serde_json::to_value(value).expect("plain data"));
                named.insert(stringify!($name).to_owned(), samples.collect());
            })*
            named
        }

        fn $loads(named: &Named) {
            $($crate::named::loaded::<$name>(
                stringify!($name),
                named.get(stringify!($name)).unwrap_or_else(|| panic!("{} has a sample", stringify!($name))),
            );)*
        }
    };
}
pub(crate) use types;
