//! Scripted cases of the unit agent's decision core: commands, and the operations expected after them.
//!
//! The runner must never decide by itself. It changes a small environment ([`world`]), calls the real
//! `state::unit::resolve::next`, performs the returned step as the agent's loop would, and prints it. Expectations are
//! written by hand.
//!
//! `tests/cases/README.md` documents the format; `tests/tests/cases.rs` runs the files of `tests/cases`.

mod command;
mod controller;
pub mod view;
mod world;

use std::collections::BTreeMap;
use std::fmt::Write;
use world::World;

/// Separates the commands of a block from the expected operations.
const EXPECTED: &str = "----";

/// Cases that `given NAME` starts from, by title.
pub type Fixtures = BTreeMap<String, Case>;

/// A file of cases, with its introduction.
#[derive(Clone, Debug, Default)]
pub struct File {
    head: String,
    pub cases: Vec<Case>,
}

/// One case: blocks that are performed in order, starting with a new unit.
#[derive(Clone, Debug, Default)]
pub struct Case {
    pub title: String,
    blocks: Vec<Block>,
}

/// Commands that the agent observes together, and the operations expected after them.
#[derive(Clone, Debug, Default)]
struct Block {
    commands: Vec<String>,
    expected: Vec<String>,
}

/// The first block of a case whose operations differ from the expected ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub title: String,
    pub commands: Vec<String>,
    pub expected: Vec<String>,
    pub found: Vec<String>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "## {}", self.title)?;
        for command in &self.commands {
            writeln!(f, "  {command}")?;
        }
        writeln!(f, "  expected: {}", self.expected.join("\n            "))?;
        writeln!(f, "  found:    {}", self.found.join("\n            "))
    }
}

impl File {
    /// Reads a file; an unfinished block is an error, so that no expectation is lost.
    pub fn parse(text: &str) -> Result<File, String> {
        let mut file = File::default();
        let mut expecting = false;
        for (at, line) in text.lines().enumerate() {
            if let Some(title) = line.strip_prefix("## ") {
                file.cases.push(Case { title: title.to_owned(), blocks: Vec::new() });
                expecting = false;
                continue;
            }
            let Some(case) = file.cases.last_mut() else {
                file.head.push_str(line);
                file.head.push('\n');
                continue;
            };
            match line.trim_end() {
                "" => expecting = false,
                EXPECTED => match case.blocks.last() {
                    Some(block) if block.expected.is_empty() && !expecting => expecting = true,
                    Some(_) | None => return Err(format!("line {}: no command before {EXPECTED}", at + 1)),
                },
                line if expecting => {
                    let block = case.blocks.last_mut().expect("commands precede expectations");
                    block.expected.push(line.to_owned());
                }
                line => match case.blocks.last_mut().filter(|block| block.expected.is_empty()) {
                    Some(block) => block.commands.push(line.to_owned()),
                    None => case.blocks.push(Block { commands: vec![line.to_owned()], expected: Vec::new() }),
                },
            }
        }
        for case in &file.cases {
            if case.blocks.last().is_none_or(|block| block.expected.is_empty()) {
                return Err(format!("case {:?} expects nothing", case.title));
            }
        }
        Ok(file)
    }

    /// The cases by title, for `given`.
    pub fn fixtures(&self) -> Fixtures {
        self.cases.iter().map(|case| (case.title.clone(), case.clone())).collect()
    }

    /// Returns the text of the file with the found operations in place of the expected ones.
    pub fn updated(&self, fixtures: &Fixtures) -> Result<String, String> {
        let mut text = self.head.clone();
        for (at, case) in self.cases.iter().enumerate() {
            let gap = if at == 0 { "" } else { "\n" };
            writeln!(text, "{gap}## {}", case.title).expect("a String takes any text");
            let found = case.found(fixtures)?;
            let blocks = case.blocks.iter().zip(found).map(|(block, found)| {
                format!("{}\n{EXPECTED}\n{}\n", block.commands.join("\n"), found.join("\n"))
            });
            text.push_str(&blocks.collect::<Vec<_>>().join("\n"));
        }
        Ok(text)
    }
}

impl Case {
    /// Returns the first block whose operations differ from the expected ones. Fails if a command is invalid.
    pub fn run(&self, fixtures: &Fixtures) -> Result<Option<Difference>, String> {
        let found = self.found(fixtures)?;
        let differing = self.blocks.iter().zip(found).find(|(block, found)| block.expected != *found);
        Ok(differing.map(|(block, found)| Difference {
            title: self.title.clone(),
            commands: block.commands.clone(),
            expected: block.expected.clone(),
            found,
        }))
    }

    /// Runs all blocks and returns the operations of each.
    fn found(&self, fixtures: &Fixtures) -> Result<Vec<Vec<String>>, String> {
        let mut world = World::new(command::perform);
        self.blocks.iter().map(|block| self.run_block(&mut world, block, fixtures)).collect()
    }

    fn run_block(
        &self,
        world: &mut World,
        block: &Block,
        fixtures: &Fixtures,
    ) -> Result<Vec<String>, String> {
        for line in block.commands.iter().filter(|line| !line.starts_with("# ")) {
            match line.strip_prefix("given ") {
                Some(name) => {
                    let fixture = fixtures.get(name).ok_or_else(|| format!("no fixture {name:?}"))?;
                    for block in &fixture.blocks {
                        fixture.run_block(world, block, fixtures)?;
                    }
                }
                None => command::perform(world, line)
                    .map_err(|error| format!("## {}: {line:?}: {error}", self.title))?,
            }
        }
        world.run_until_waiting();
        let mut found = world.take_trace();
        found.push(format!("= {}", world.local.workflow()));
        Ok(found)
    }
}
