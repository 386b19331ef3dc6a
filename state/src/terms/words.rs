//! Enums whose variants are fixed words: statuses and kinds of keys.
//!
//! `words!` defines such an enum and its words in one place. The same words are used in stores, messages and
//! output. Code compares variants, never words.

use std::fmt;

/// A word that is not in the vocabulary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    /// The unknown word.
    pub word: String,
    /// All words of the vocabulary.
    pub known: &'static [&'static str],
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown word {:?}: expected one of {}", self.word, self.known.join(", "))
    }
}

impl std::error::Error for UnknownWord {}

/// Defines an enum whose variants are written as fixed words in stores, messages and output.
macro_rules! words {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $name {
            $($(#[$inner])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// All variants, in the order of their definition.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];
            /// The words of [`Self::ALL`], in the same order.
            pub const WORDS: &'static [&'static str] = &[$($word,)+];

            /// The word of this variant.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::terms::words::UnknownWord;
            fn from_str(word: &str) -> Result<$name, $crate::terms::words::UnknownWord> {
                match word {
                    $($word => Ok($name::$variant),)+
                    _ => Err($crate::terms::words::UnknownWord { word: word.to_owned(), known: $name::WORDS }),
                }
            }
        }
    };
}

pub(crate) use words;
