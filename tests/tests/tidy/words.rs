//! Terms that were replaced by standard ones must not be used again: words in identifiers and file names, phrases in
//! comments and string literals.
//!
//! A word matches a whole part of an identifier or file name, in snake and in camel case: `said` matches `is_said` and
//! `RunSaid`, but not `aside`. Words and phrases that also have a legitimate meaning (`place`, `line`, `is about to`)
//! are not listed. For this reason these replaced words are allowed, too: `cast` (a method of pointers), `settle`
//! (`--no-settle` is a flag), `waits` and `written`, `words` (of a command line, or of a status in English), `note` and
//! `note_x` (a program keeps a fact in memory).

use super::source::{Source, sources, tokens};
use std::collections::BTreeMap;

/// The word, and its replacement. The parts of a word with `_` follow each other in the identifier.
const REPLACED: &[(&str, &str)] = &[
    ("adopt", "re-attach: reattach"),
    ("adopted", "re-attached: reattached"),
    ("adoption", "re-attachment: reattach"),
    ("along", "inline settings: inline"),
    ("begun", "started"),
    ("bite", "batch"),
    ("bites", "batches"),
    ("bond", "subordinate link"),
    ("bonds", "subordinate links"),
    ("brought", "manually provisioned"),
    ("crowd", "machine full"),
    ("conversation", "hook session"),
    ("conversations", "hook sessions"),
    ("crowded", "machine full"),
    ("deaf", "slow reader, stalled"),
    ("everywhere", "global arguments"),
    ("fate", "existence"),
    ("forecast", "dry_run"),
    ("forecasts", "dry_run"),
    ("foretell", "dry_run"),
    ("foretold", "dry_run"),
    ("glance", "get_untracked"),
    ("going", "departing"),
    ("gone", "removed, departed, lost"),
    ("heed", "observe"),
    ("heeded", "observed"),
    ("heeds", "observes"),
    ("helper", "the noun of what it does"),
    ("helpers", "the noun of what they do"),
    ("history", "store generation: generation"),
    ("histories", "store generations: generations"),
    ("invitation", "enrolment token"),
    ("invitations", "enrolment tokens"),
    ("invited", "manually provisioned"),
    ("manager", "the noun of what it does"),
    ("leaving", "departing"),
    ("mortal", "crashing"),
    ("near", "affected entities"),
    ("notices", "sd_notify"),
    ("of_a_question", "hypothetical"),
    ("outside", "environment"),
    ("outward", "hook host"),
    ("owe", "pending"),
    ("owed", "pending"),
    ("owes", "pending"),
    ("owing", "pending"),
    ("play", "simulation of the removal"),
    ("restate", "resync"),
    ("restated", "resynced"),
    ("restatement", "resync"),
    ("restatements", "resyncs"),
    ("restates", "resyncs"),
    ("restating", "resync"),
    ("roll", "presence snapshot: presence"),
    ("said", "report: RunReport, PendingReport, UnrecordedReport"),
    ("saying", "report"),
    ("says", "reports"),
    ("shut_out", "pending re-entry: pending_reentry"),
    ("spoken", "to_api_error"),
    ("stranger", "unauthenticated connection"),
    ("strangers", "unauthenticated connections"),
    ("swallowed", "dropped"),
    ("tend", "unit supervisor, reach"),
    ("tended", "unit supervisor"),
    ("tends", "unit supervisor"),
    ("told", "the noun of what was reported"),
    ("trouble", "provisioning error"),
    ("troubles", "provisioning errors"),
    ("unheard", "unrecorded report: UnrecordedReport"),
    ("unheeded", "not observed"),
    ("unsaid", "pending report: PendingReport"),
    ("util", "the noun of what it does"),
    ("utils", "the noun of what they do"),
    ("whoever", "the thing of the system that is meant"),
    ("wish", "request"),
    ("wished", "requested"),
    ("wishes", "requests"),
    ("withheld", "omitted"),
    ("withhold", "omit"),
    ("withholds", "omits"),
    ("withholding", "omission"),
];

/// The phrase of a comment or string literal, in lower case, and its replacement.
const REPLACED_PHRASES: &[(&str, &str)] = &[
    ("a legal beginning", "the initial transitions are accepted"),
    ("and it is told", "has received"),
    ("as force would", "as a forced removal does"),
    ("asked again", "is requested again"),
    ("been told", "has received"),
    ("being taken away", "is being terminated"),
    ("by force it may", "the forced removal is accepted"),
    ("came along", "is inlined"),
    ("come along", "are inlined"),
    ("for who was", "the unit or agent that is meant"),
    ("is taken away", "is terminated"),
    ("it is about to\"", "the unit has a pending operation"),
    ("is heard", "sends a request"),
    ("it is there\"", "what exists"),
    ("it may be\"", "what is possible"),
    ("it may go", "the removal is accepted"),
    ("it was meant", "its nonce was reserved"),
    ("its last word", "its last report"),
    ("its superiors", "its application, machine or principal"),
    ("lived on", "continued to run"),
    ("nothing ends on it", "no unit is left on it"),
    ("of its own wish", "at its own request"),
    ("refused call", "failed call"),
    ("speak for", "authenticate as"),
    ("speaks for", "authenticates as"),
    ("take itself away", "uninstall itself"),
    ("takes itself away", "uninstalls itself"),
    ("taken itself away", "is uninstalled"),
    ("they fit", "the endpoints are compatible"),
    ("was said", "was reported"),
    ("who is alive", "the unit or agent that is meant"),
    ("who is going", "the unit or agent that is meant"),
    ("whoever is", "the thing of the system that is meant"),
];

/// The text of a file in lower case and as one line, without the marks of comments, so that a phrase is found across
/// a line break.
fn prose(text: &str) -> String {
    let unmarked = text.lines().map(|line| line.trim().trim_start_matches(['/', '!']).trim());
    unmarked.collect::<Vec<_>>().join(" ").to_lowercase()
}

/// The replaced phrases in a text. Code is not left out, because no phrase with a space is an identifier.
fn replaced_phrases(text: &str) -> Vec<(&'static str, &'static str)> {
    let prose = prose(text);
    let is_whole = |(at, phrase): (usize, &str)| {
        let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        !is_letter(prose[..at].chars().next_back()) && !is_letter(prose[at + phrase.len()..].chars().next())
    };
    REPLACED_PHRASES.iter().copied().filter(|(phrase, _)| prose.match_indices(phrase).any(is_whole)).collect()
}

/// The lower-case parts of an identifier or file name: `is_said` and `IsSaid` are `is`, `said`.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut last_lower = false;
    for c in name.chars() {
        let boundary = !c.is_alphanumeric() || (c.is_uppercase() && last_lower);
        if boundary {
            parts.push(String::new());
        }
        if c.is_alphanumeric() {
            parts.last_mut().expect("there is always one").extend(c.to_lowercase());
        }
        last_lower = c.is_lowercase() || c.is_numeric();
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// The replaced words in a name.
fn replaced(name: &str) -> Vec<&'static str> {
    let parts = parts(name);
    let has = |word: &str| {
        let length = word.split('_').count();
        parts.windows(length).any(|window| window.iter().eq(word.split('_')))
    };
    REPLACED.iter().map(|(word, _)| *word).filter(|word| has(word)).collect()
}

/// The folder of the crate of a file: `hooks-tools/client` for `hooks-tools/client/src/lib.rs`.
fn member(path: &str) -> &str {
    let end = ["/src/", "/tests/", "/benches/", "/build.rs"].iter().filter_map(|part| path.find(part)).min();
    end.map_or(path, |end| &path[..end])
}

/// The occurrences of each replaced word.
fn found(sources: &[Source]) -> BTreeMap<&'static str, Vec<String>> {
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    // most names occur in many files
    let mut known: BTreeMap<String, Vec<&'static str>> = BTreeMap::new();
    for source in sources {
        let file = source.path[member(&source.path).len()..].trim_end_matches(".rs").to_owned();
        let foreign = |name: &String| name == "hyper_util";
        for name in tokens(&source.text).into_iter().chain([file]).filter(|name| !foreign(name)) {
            for word in known.entry(name.clone()).or_insert_with(|| replaced(&name)).iter() {
                let place = format!("{}: {name}", source.path);
                found.entry(*word).or_default().push(place);
            }
        }
    }
    found
}

#[test]
fn replaced_words_do_not_come_back() {
    // this file names them all
    let sources: Vec<Source> =
        sources().into_iter().filter(|source| source.path != "tests/tests/tidy/words.rs").collect();
    let mut violations = String::new();
    for (word, places) in found(&sources) {
        let (_, instead) = REPLACED.iter().find(|(old, _)| *old == word).expect("only these are found");
        violations += &format!("{word}: use {instead}\n  {}\n", places.join("\n  "));
    }
    assert!(violations.is_empty(), "replaced words came back:\n{violations}");
}

#[test]
fn replaced_phrases_do_not_come_back_in_comments_and_strings() {
    let mut violations = String::new();
    // this file names them all
    for source in sources().iter().filter(|source| source.path != "tests/tests/tidy/words.rs") {
        for (phrase, instead) in replaced_phrases(&source.text) {
            violations += &format!("{}: {phrase}: use {instead}\n", source.path);
        }
    }
    assert!(violations.is_empty(), "replaced phrases came back:\n{violations}");
}

#[test]
fn a_phrase_is_found_in_comments_and_strings_and_across_lines() {
    let found = |text: &str| replaced_phrases(text).into_iter().map(|(phrase, _)| phrase).collect::<Vec<_>>();
    assert_eq!(found("/// The agent has taken\n    /// itself away."), ["taken itself away"]);
    assert_eq!(found("run().expect(\"They fit\")"), ["they fit"]);
    assert_eq!(found("// it is about to start"), [""; 0]);
    assert_eq!(found("next.expect(\"it is about to\")"), ["it is about to\""]);
    assert_eq!(found("// they fitted"), [""; 0], "a phrase ends with a word");
}

#[test]
fn a_word_matches_whole_parts_of_snake_and_camel_case() {
    assert_eq!(replaced("is_said"), ["said"]);
    assert_eq!(replaced("RunSaid"), ["said"]);
    assert_eq!(replaced("SAID_MAX"), ["said"]);
    assert_eq!(replaced("shutOut2"), Vec::<&str>::new(), "a digit belongs to the part before it");
    assert_eq!(replaced("is_shut_out_now"), ["shut_out"]);
    assert_eq!(replaced("aside"), Vec::<&str>::new());
    assert_eq!(replaced("rollback"), Vec::<&str>::new());
}
