//! English: the only place where facts of the API become sentences, for the commands and for `pintle-agent why`.

pub mod cause;
