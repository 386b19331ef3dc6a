//! Mutant schemata: the source of one product file with all its mutants behind a switch.
//!
//! The body of every function that a mutant changes becomes `if mutants::is(3) { BODY OF MUTANT 3 } else { ORIGINAL }`.
//! Because whole bodies are exchanged, a row of the table may replace any text inside a function: an expression, a
//! statement, a match arm. Functions are found by their indentation, which rustfmt guarantees.

use crate::table::Mutant;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::ops::Range;

/// The source with the mutants, each of which is given with its row.
pub fn source(original: &str, mutants: &[(usize, &Mutant)]) -> Result<String> {
    let mut bodies: BTreeMap<(usize, usize), Vec<(usize, String)>> = BTreeMap::new();
    for (row, mutant) in mutants {
        for (body, variant) in variants(original, mutant)? {
            bodies.entry((body.start, body.end)).or_default().push((*row, variant));
        }
    }
    let mut source = String::new();
    let mut copied = 0;
    for ((start, end), variants) in bodies {
        ensure!(copied <= start, "two mutants change a function and one inside it");
        source.push_str(&original[copied..start]);
        for (row, variant) in variants {
            source.push_str(&format!("if mutants::is({row}) {{\n{variant}}} else "));
        }
        source.push_str(&format!("{{\n{}}}\n", &original[start..end]));
        copied = end;
    }
    source.push_str(&original[copied..]);
    Ok(source)
}

/// The body of each function that the mutant changes, and its replacement.
fn variants(original: &str, mutant: &Mutant) -> Result<Vec<(Range<usize>, String)>> {
    let mut found: Vec<(Range<usize>, String)> = Vec::new();
    for (code, instead) in mutant.changes() {
        let at = once(original, code).with_context(|| format!("mutant {}: {code:?}", mutant.name))?;
        let body = body_around(original, at)
            .with_context(|| format!("mutant {}: {code:?} is not inside a function", mutant.name))?;
        match found.iter_mut().find(|(known, _)| *known == body) {
            Some((_, variant)) => *variant = variant.replacen(code, instead, 1),
            None => {
                let variant = original[body.clone()].replacen(code, instead, 1);
                found.push((body, variant));
            }
        }
    }
    Ok(found)
}

fn once(text: &str, code: &str) -> Result<usize> {
    let at = text.find(code).context("the original code does not occur in the file")?;
    ensure!(text.matches(code).count() == 1, "the original code occurs more than once in the file");
    Ok(at)
}

/// The lines between the braces of the innermost function around a position.
fn body_around(source: &str, at: usize) -> Option<Range<usize>> {
    let mut lines = Vec::new();
    let mut start = 0;
    for line in source.split_inclusive('\n') {
        lines.push((start, line.trim_end()));
        start += line.len();
    }
    let before = lines.iter().take_while(|(start, _)| *start <= at).count();
    (0..before).rev().filter(|n| begins_function(lines[*n].1)).find_map(|first| {
        let indent = indentation(lines[first].1);
        let is_outer = |line: &str| !line.is_empty() && indentation(line) == indent;
        let opens = (first..lines.len()).find(|n| is_outer(lines[*n].1) && lines[*n].1.ends_with('{'))?;
        let closes = (opens + 1..lines.len()).find(|n| is_outer(lines[*n].1) && lines[*n].1.trim() == "}")?;
        let body = lines[opens + 1].0..lines[closes].0;
        body.contains(&at).then_some(body)
    })
}

fn begins_function(line: &str) -> bool {
    let keyword = |word| matches!(word, "pub" | "pub(crate)" | "pub(super)" | "async" | "const");
    line.trim_start().split_once("fn ").is_some_and(|(before, _)| before.split_whitespace().all(keyword))
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
impl A {
    pub fn is_over(
        &self,
        now_ms: u64,
    ) -> bool {
        now_ms >= LEASE_MS
    }
}
";

    fn mutant(code: &str, instead: &str) -> Mutant {
        Mutant {
            name: "m".into(),
            about: String::new(),
            file: String::new(),
            code: code.into(),
            instead: instead.into(),
            also: Vec::new(),
            killed_by: String::new(),
            mix: BTreeMap::new(),
        }
    }

    #[test]
    fn a_body_holds_its_variants_and_the_original() {
        let (half, never) = (mutant(">= LEASE_MS", ">= LEASE_MS / 2"), mutant("now_ms >= LEASE_MS", "false"));
        let expected = "\
impl A {
    pub fn is_over(
        &self,
        now_ms: u64,
    ) -> bool {
if mutants::is(3) {
        now_ms >= LEASE_MS / 2
} else if mutants::is(4) {
        false
} else {
        now_ms >= LEASE_MS
}
    }
}
";
        assert_eq!(source(SOURCE, &[(3, &half), (4, &never)]).expect("both rows apply"), expected);
    }

    #[test]
    fn a_row_whose_code_is_not_there_exactly_once_is_refused() {
        for code in ["now_ms", ">= LEASE", "impl A {"] {
            let applied = source(SOURCE, &[(0, &mutant(code, ""))]);
            assert_eq!(applied.is_ok(), code == ">= LEASE", "{code}");
        }
        assert!(source(SOURCE, &[(0, &mutant("absent", ""))]).is_err());
    }
}
