//! Enums whose variants are fixed words: statuses, kinds of keys.
//!
//! [`words!`] defines such an enum with its words in one place; they are the same in stores, messages and output. Code
//! compares variants, never words.

use std::fmt;

/// A word that is none of a vocabulary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    pub word: String,
    /// All words there are.
    pub known: &'static [&'static str],
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown word {:?}: expected one of {}", self.word, self.known.join(", "))
    }
}

impl std::error::Error for UnknownWord {}

/// An enum whose variants are written as fixed words, in stores, messages and output alike.
macro_rules! words {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$inner])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];
            /// The words of [`Self::ALL`], in the same order.
            pub const WORDS: &'static [&'static str] = &[$($word,)+];

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
