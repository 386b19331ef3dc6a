//! Enums whose variants are written as fixed strings: statuses, kinds, policies, events.
//!
//! `string_enum!` defines such an enum and its strings in one place. The same strings are used in stores,
//! messages and output. Code compares variants, never strings.

use std::fmt;

/// A string that names no variant of the enum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownVariant {
    /// The unknown string.
    pub text: String,
    /// The strings of all variants.
    pub known: &'static [&'static str],
}

impl fmt::Display for UnknownVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown value {:?}: expected one of {}", self.text, self.known.join(", "))
    }
}

impl std::error::Error for UnknownVariant {}

/// Defines an enum whose variants are written as fixed strings in stores, messages and output.
macro_rules! string_enum {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $name {
            $($(#[$inner])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// All variants, in the order of their definition.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];
            /// The strings of [`Self::ALL`], in the same order.
            pub const STRINGS: &'static [&'static str] = &[$($text,)+];

            /// The string of this variant.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::terms::string_enum::UnknownVariant;
            fn from_str(text: &str) -> Result<$name, $crate::terms::string_enum::UnknownVariant> {
                match text {
                    $($text => Ok($name::$variant),)+
                    _ => Err($crate::terms::string_enum::UnknownVariant { text: text.to_owned(), known: $name::STRINGS }),
                }
            }
        }
    };
}

pub(crate) use string_enum;
