//! Parses a page of the documentation into its fenced blocks and the commands in them.

use std::fs;
use std::path::Path;

/// A fenced block of code.
pub struct Block {
    pub line: usize,
    /// The first word behind the fence: `sh`, `console`.
    pub language: String,
    /// The second: why the block is not run.
    pub mark: Option<String>,
    pub text: Vec<String>,
}

/// One command, and the output that the page shows for it.
pub struct Step {
    pub command: String,
    pub shown: Vec<String>,
}

/// The fenced blocks of a Markdown file. Blocks in lists are indented with them.
pub fn blocks(text: &str) -> Vec<Block> {
    let (mut blocks, mut open): (Vec<Block>, Option<usize>) = (Vec::new(), None);
    for (n, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        match (fence, open) {
            (Some(info), None) => {
                let mut words = info.split_whitespace().map(str::to_owned);
                let (language, mark) = (words.next().unwrap_or_default(), words.next());
                blocks.push(Block { line: n + 1, language, mark, text: Vec::new() });
                open = Some(line.len() - line.trim_start().len());
            }
            (Some(_), Some(_)) => open = None,
            (None, Some(indent)) => {
                let block = blocks.last_mut().expect("a block is open");
                block.text.push(line.get(indent..).unwrap_or_default().to_owned());
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

impl Block {
    pub fn has_commands(&self) -> bool {
        matches!(self.language.as_str(), "sh" | "console")
    }

    /// The commands of a block. In `sh` each line is a command; in `console` a command follows `$ `, and its output is
    /// below it.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        for line in &self.text {
            let command = match self.language.as_str() {
                "sh" => Some(line.as_str()),
                _ => line.strip_prefix("$ "),
            };
            match (command, steps.last_mut()) {
                (Some(""), _) => {}
                (Some(command), _) => steps.push(Step { command: command.to_owned(), shown: Vec::new() }),
                (None, Some(step)) => step.shown.push(line.clone()),
                (None, None) => panic!("line {}: output without a command", self.line),
            }
        }
        steps
    }
}

impl Step {
    /// Whether the page shows that the command is refused.
    pub fn must_fail(&self) -> bool {
        self.shown.iter().any(|line| line.starts_with("ERROR"))
    }

    /// Whether the command changes nothing, so that it can be repeated until it prints the expected output.
    pub fn only_reads(&self) -> bool {
        let readers = ["status", "why", "show-", "debug-log", "machines", "model-config", "runs", "-agent"];
        let reads = readers.iter().any(|verb| {
            ["pintle ", "juju ", "pintle"]
                .iter()
                .any(|name| self.command.starts_with(&format!("{name}{verb}")))
        });
        (reads && !self.command.contains('=')) || self.command.contains("--dry-run")
    }

    /// Whether the output is a table or a list, in which all facts of a line must occur in one row.
    fn shows_rows(&self) -> bool {
        ["status", "machines", "--dry-run"].iter().any(|word| self.command.contains(word))
    }

    /// The first shown line whose facts the output lacks. The text of a refusal is not compared.
    pub fn missing<'a>(&'a self, output: &str) -> Option<&'a str> {
        let rows: Vec<Vec<String>> = match self.shows_rows() {
            true => output.lines().map(words).collect(),
            false => vec![words(output)],
        };
        let is_shown = |line: &&String| {
            let facts = facts(line);
            line.starts_with("ERROR") || rows.iter().any(|row| facts.iter().all(|fact| row.contains(fact)))
        };
        self.shown.iter().find(|line| !is_shown(line)).map(String::as_str)
    }
}

/// The states and hooks that are compared; the sentences around them may change.
const STATES: [&str; 21] = [
    "active",
    "alive",
    "allocating",
    "blocked",
    "config-changed",
    "dead",
    "dying",
    "error",
    "executing",
    "idle",
    "install",
    "lost",
    "maintenance",
    "pending",
    "remove",
    "start",
    "started",
    "stop",
    "stopped",
    "upgrade-charm",
    "waiting",
];

fn words(line: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || "-/".contains(c);
    line.split(|c: char| !is_part(c)).map(str::to_owned).collect()
}

/// Names of units, instances, states and hooks in a line.
fn facts(line: &str) -> Vec<String> {
    let is_unit = |word: &str| {
        let number = word.rsplit_once('/').map(|(name, number)| (name.is_empty(), number.parse::<u32>()));
        matches!(number, Some((false, Ok(_))))
    };
    let is_fact = |word: &String| {
        STATES.contains(&word.as_str())
            || word.starts_with("local-")
            || word.contains("-relation-")
            || (is_unit(word) && !word.contains("//"))
    };
    words(line).into_iter().filter(is_fact).collect()
}

/// The code in backticks in a text, outside of its blocks.
pub fn inline_code(text: &str) -> Vec<String> {
    let mut inside = false;
    let prose: Vec<&str> = text
        .lines()
        .filter(|line| {
            let is_fence = line.trim_start().starts_with("```");
            inside ^= is_fence;
            !inside && !is_fence
        })
        .collect();
    prose.iter().flat_map(|line| line.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// All Markdown files of a folder.
pub fn pages(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the documentation is readable").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn blocks_are_read_with_their_marks_and_their_output() {
    let text = "a\n```console\n$ pintle status\nweb/0*  active  ready\n```\n  ```sh root\n  one\n\n  two\n  ```\n`pintle x`\n";
    let blocks = blocks(text);
    assert_eq!(blocks.len(), 2);
    let step = &blocks[0].steps()[0];
    assert_eq!((step.command.as_str(), step.only_reads(), step.must_fail()), ("pintle status", true, false));
    assert_eq!(step.missing("db/0 active\nweb/0* idle"), Some("web/0*  active  ready"));
    assert_eq!(step.missing("web/0* is active"), None);
    assert_eq!(blocks[1].mark.as_deref(), Some("root"));
    let commands: Vec<String> = blocks[1].steps().into_iter().map(|step| step.command).collect();
    assert_eq!(commands, ["one", "two"]);
    assert_eq!(inline_code(text), ["pintle x"]);
}
