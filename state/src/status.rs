//! The closed vocabularies of statuses (spec/uniter.md F.5, spec/clients.md 2.4): one enum for each, and its words.
//!
//! The words are what is stored, sent and shown, exactly as Juju's clients know them. Code compares variants, never
//! words.

use std::fmt;
use std::str::FromStr;

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

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;
            fn from_str(word: &str) -> Result<$name, UnknownWord> {
                match word {
                    $($word => Ok($name::$variant),)+
                    _ => Err(UnknownWord { word: word.to_owned(), known: $name::WORDS }),
                }
            }
        }
    };
}

words! {
    /// How far an action is (a task, for people).
    ActionStatus {
        /// Queued; its unit's agent has not started it.
        Pending = "pending",
        Running = "running",
        Completed = "completed",
        Failed = "failed",
    }
}

words! {
    /// Where the value of a model setting comes from.
    SettingSource {
        /// The user did not set it.
        Default = "default",
        Model = "model",
    }
}

impl ActionStatus {
    /// It will not change any more.
    pub fn is_final(self) -> bool {
        match self {
            ActionStatus::Pending | ActionStatus::Running => false,
            ActionStatus::Completed | ActionStatus::Failed => true,
        }
    }
}
