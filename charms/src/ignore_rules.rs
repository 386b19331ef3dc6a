//! The file `.jujuignore` of a charm's folder: which of its files are not part of the charm.
//!
//! The rules are those of Juju's client, which are like those of git. Each line is a rule; the last one that matches a
//! path decides. `#` begins a comment, `!` a rule that includes again what an earlier one excludes. A rule that ends in `/`
//! is for folders only. One that begins with `/` is for the charm's folder itself, any other for each folder below it.
//! `*` and `?` match within a name, `**` matches any number of folders, `[a-z]` and `[!a-z]` match one character. What is
//! in an excluded folder cannot be included again. Called by `folder`.

use std::ops::RangeInclusive;

/// The name of the file.
pub const FILE: &str = ".jujuignore";
/// The largest such file: some 2,000 rules.
pub const BYTES_MAX: u64 = 64 << 10;

/// The rules of one charm, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IgnoreRules(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// The names on the path, below the charm's folder.
    names: Vec<Names>,
    includes: bool,
    folders_only: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    /// `**`: any names.
    Any,
    One(Vec<Characters>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Characters {
    /// `*`: any characters.
    Any,
    /// `?`.
    AnyOne,
    This(char),
    /// `[a-z_]`, or `[!a-z_]` if it is negated.
    Set {
        ranges: Vec<RangeInclusive<char>>,
        negated: bool,
    },
}

impl IgnoreRules {
    /// Parses the content of the file. Each text is a rule: what cannot be a pattern matches the name that it is.
    pub fn parse(text: &str) -> IgnoreRules {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        IgnoreRules(lines.filter_map(rule).collect())
    }

    /// Whether the file or folder at this path is not part of the charm.
    pub fn exclude(&self, path: &str, is_folder: bool) -> bool {
        let names: Vec<Vec<char>> = path.split('/').map(|name| name.chars().collect()).collect();
        let applies = |rule: &&Rule| (is_folder || !rule.folders_only) && is_match(&rule.names, &names);
        self.0.iter().rev().find(applies).is_some_and(|rule| !rule.includes)
    }
}

fn rule(line: &str) -> Option<Rule> {
    let (line, includes) = line.strip_prefix('!').map_or((line, false), |line| (line, true));
    // `\#` and `\!` begin a name
    let line = line.strip_prefix('\\').unwrap_or(line);
    let (line, folders_only) = line.strip_suffix('/').map_or((line, false), |line| (line, true));
    let (line, is_anchored) = line.strip_prefix('/').map_or((line, false), |line| (line, true));
    if line.is_empty() {
        return None;
    }
    let anywhere = (!is_anchored).then_some(Names::Any);
    let names =
        line.split('/').map(|name| if name == "**" { Names::Any } else { Names::One(characters(name)) });
    Some(Rule { names: anywhere.into_iter().chain(names).collect(), includes, folders_only })
}

fn characters(name: &str) -> Vec<Characters> {
    let (mut parsed, mut rest) = (Vec::new(), name);
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        // a bracket that begins the set belongs to it
        let end =
            (first == '[').then(|| rest.char_indices().skip(1).find(|(_, char)| *char == ']')).flatten();
        parsed.push(match (first, end) {
            ('*', _) => Characters::Any,
            ('?', _) => Characters::AnyOne,
            ('[', Some((end, _))) => {
                let set = &rest[..end];
                rest = &rest[end + 1..];
                characters_in(set)
            }
            _ => Characters::This(first),
        });
    }
    parsed
}

fn characters_in(set: &str) -> Characters {
    let without = set.strip_prefix(['!', '^']);
    let mut rest = without.unwrap_or(set).chars().collect::<Vec<char>>().into_iter().peekable();
    let mut ranges = Vec::new();
    while let Some(first) = rest.next() {
        let mut ahead = rest.clone();
        let end = if ahead.next() == Some('-') { ahead.next() } else { None };
        if end.is_some() {
            rest = ahead;
        }
        ranges.push(first..=end.unwrap_or(first));
    }
    Characters::Set { ranges, negated: without.is_some() }
}

/// An element of a pattern.
trait Element {
    type Item;
    /// Whether it matches any number of items.
    fn is_any(&self) -> bool;
    fn matches(&self, item: &Self::Item) -> bool;
}

impl Element for Names {
    type Item = Vec<char>;

    fn is_any(&self) -> bool {
        matches!(self, Names::Any)
    }

    fn matches(&self, name: &Vec<char>) -> bool {
        match self {
            Names::Any => true,
            Names::One(characters) => is_match(characters, name),
        }
    }
}

impl Element for Characters {
    type Item = char;

    fn is_any(&self) -> bool {
        matches!(self, Characters::Any)
    }

    fn matches(&self, character: &char) -> bool {
        match self {
            Characters::Any | Characters::AnyOne => true,
            Characters::This(this) => this == character,
            Characters::Set { ranges, negated } => {
                ranges.iter().any(|range| range.contains(character)) != *negated
            }
        }
    }
}

/// Whether a pattern matches all items. At most their product is compared: only the last element that matches any number
/// of items is tried again.
fn is_match<E: Element>(pattern: &[E], items: &[E::Item]) -> bool {
    let (mut at, mut next, mut again) = (0, 0, None);
    loop {
        match (pattern.get(at), items.get(next)) {
            (Some(element), _) if element.is_any() => {
                at += 1;
                again = Some((at, next));
            }
            (Some(element), Some(item)) if element.matches(item) => {
                at += 1;
                next += 1;
            }
            (None, None) => return true,
            _ => match again {
                Some((after, from)) if from < items.len() => {
                    again = Some((after, from + 1));
                    (at, next) = (after, from + 1);
                }
                _ => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::IgnoreRules;

    #[track_caller]
    fn check(rules: &str, excluded: &[&str], included: &[&str]) {
        let rules = IgnoreRules::parse(rules);
        let exclude = |path: &str| rules.exclude(path.trim_end_matches('/'), path.ends_with('/'));
        excluded.iter().for_each(|path| assert!(exclude(path), "{path} is included"));
        included.iter().for_each(|path| assert!(!exclude(path), "{path} is excluded"));
    }

    #[test]
    fn a_rule_matches_in_each_folder_unless_it_begins_with_a_slash() {
        check("*.tmp\n/build/", &["a.tmp", "x/y/a.tmp", "build/"], &["a.tmpl", "x/build/", "build", "tmp"]);
        check("docs/*.md", &["docs/a.md", "x/docs/a.md"], &["docs/x/a.md", "a.md"]);
        check("/a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["x/a/b", "a/bb"]);
    }

    #[test]
    fn the_last_rule_that_matches_decides() {
        check("*.tmp\n!keep.tmp", &["a.tmp"], &["keep.tmp", "x/keep.tmp"]);
        check("!keep.tmp\n*.tmp", &["keep.tmp"], &[]);
    }

    #[test]
    fn comments_and_empty_lines_are_no_rules() {
        check("# a\n\n  \n/\n!\n", &[], &["a", "#", "# a", "!"]);
        check("\\#a\n\\!b", &["#a", "!b"], &["a", "b"]);
    }

    #[test]
    fn characters_of_a_name_match_alone_or_in_sets() {
        check("?.[ch]\n[!a-y]_*", &["a.c", "b.h", "z_", "z_x"], &["ab.c", "a.x", "b_x", ".c"]);
        check("a[b", &["a[b"], &["ab"]);
        check("[]]x", &["]x"], &["x"]);
    }

    #[test]
    fn a_long_pattern_costs_its_product_with_the_name() {
        let rules = IgnoreRules::parse(&format!("{}b", "*a".repeat(120)));
        assert!(!rules.exclude(&"a".repeat(255), false));
    }
}
