//! What a tool is, and what it may answer.

use crate::flags::{Flag, Parsed};
use crate::quote::quote_all;
use crate::settings_file;
use crate::value::Value;
use state::names::RelationNumber;
use state::unit::hook::{HookContext, Immediate, Relation, TooLarge};
use state::unit::snapshot::{BagAsked, Owner};
use std::collections::BTreeMap;

/// One tool.
pub struct Tool {
    pub name: &'static str,
    /// The positionals, for the usage line.
    pub arguments: &'static str,
    pub summary: &'static str,
    pub details: &'static str,
    pub flags: &'static [Flag],
    pub run: fn(&mut Call) -> Result<Answer, Stop>,
}

/// One call of it, its flags read.
pub struct Call<'a> {
    pub context: &'a mut HookContext,
    pub parsed: Parsed,
    pub inputs: &'a Inputs,
}

/// What the caller has fetched for the tool. Empty at first: stdin is read only if a tool asks for it, so that a
/// tool inside a `while read` loop does not eat the loop's input.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    pub stdin: Option<Vec<u8>>,
    /// By path as the tool named it; the error is what opening it says (`open /x: no such file or directory`).
    pub files: BTreeMap<String, Result<Vec<u8>, String>>,
}

/// What the caller is to fetch. It resolves a path against the client's working directory, and a leading `~/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    Stdin,
    File(String),
    /// A bag that did not come along, for the hook's context to take.
    Bag(BagAsked),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Reply(Reply),
    Need(Need),
}

/// What the client prints and exits with, and what is to be done for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// 0 success, 1 failed, 2 used wrongly.
    pub code: u8,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// To be sent now, in this order, even if the hook fails later.
    pub immediate: Vec<Immediate>,
    /// To be written instead of stdout; the path is relative to the client's working directory.
    pub output_file: Option<(String, Vec<u8>)>,
}

impl Reply {
    pub fn printed(text: String) -> Reply {
        Reply { stdout: text.into_bytes(), ..Reply::default() }
    }

    pub fn error(code: u8, text: &str) -> Reply {
        Reply { code, stderr: format!("ERROR {text}\n").into_bytes(), ..Reply::default() }
    }
}

/// Success.
#[derive(Debug, Default)]
pub struct Answer {
    pub value: Option<Value>,
    pub immediate: Vec<Immediate>,
}

impl Answer {
    /// Nothing printed, nothing sent.
    pub fn silent() -> Answer {
        Answer::default()
    }

    pub fn value(value: Value) -> Answer {
        Answer { value: Some(value), ..Answer::default() }
    }

    pub fn immediate(what: Immediate) -> Answer {
        Answer { immediate: vec![what], ..Answer::default() }
    }
}

/// No answer, or not yet.
#[derive(Debug)]
pub enum Stop {
    /// Exit 2: charm-helpers takes that as "no data", so it is never used for a failure.
    Usage(String),
    /// Exit 1.
    Failed(String),
    Need(Need),
}

impl From<TooLarge> for Stop {
    fn from(TooLarge(text): TooLarge) -> Stop {
        Stop::Failed(text)
    }
}

pub fn usage<T>(text: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Usage(text.into()))
}

pub fn failed<T>(text: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Failed(text.into()))
}

impl Call<'_> {
    /// The positionals, `max` at most.
    pub fn words(&self, max: usize) -> Result<&[String], Stop> {
        match self.parsed.words.get(max..) {
            Some(extra) if !extra.is_empty() => usage(format!("unrecognized args: {}", quote_all(extra))),
            _ => Ok(&self.parsed.words),
        }
    }

    /// The relation named by `-r`, else the hook's own.
    pub fn relation(&self) -> Result<(RelationNumber, &Relation), Stop> {
        let Some(number) = self.parsed.relation else {
            return usage("no relation id specified");
        };
        match self.context.relations.get(&number) {
            Some(relation) => Ok((number, relation)),
            None => failed("relation not found"),
        }
    }

    /// The bag is in the context, or is to be fetched first.
    pub fn have(&self, number: RelationNumber, owner: &Owner) -> Result<(), Stop> {
        self.context.wanted(number, owner).map_or(Ok(()), |asked| Err(Stop::Need(Need::Bag(asked))))
    }

    /// The settings of `--file`, none if it was not given.
    pub fn file(&self) -> Result<BTreeMap<String, String>, Stop> {
        let bytes = match self.parsed.text("file") {
            None => return Ok(BTreeMap::new()),
            Some("-") => self.inputs.stdin.as_ref().ok_or(Stop::Need(Need::Stdin))?,
            Some(path) => match self.inputs.files.get(path) {
                None => return Err(Stop::Need(Need::File(path.to_owned()))),
                Some(Err(reason)) => return failed(reason),
                Some(Ok(bytes)) => bytes,
            },
        };
        settings_file::parse(bytes).map_err(Stop::Failed)
    }
}
