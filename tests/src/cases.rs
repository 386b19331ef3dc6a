//! Scripted cases of the unit agent's decision core (style 1.8): what is given, what happens, and by hand what is
//! expected. The format stands in `tests/cases/README.md`.
//!
//! The runner decides nothing: it changes a small world ([`world`]), asks the real `state::unit::resolve::next`, does
//! what it says as the agent's loop would, and prints it.

mod command;
pub mod view;
mod world;

use std::collections::BTreeMap;
use std::fmt::Write;
use world::World;

/// What separates a block's commands from what is expected.
const EXPECTED: &str = "----";

/// Scripts to begin from, by name.
pub type Fixtures = BTreeMap<String, Case>;

/// A file of cases: what stands before the first one, and the cases.
#[derive(Clone, Debug, Default)]
pub struct File {
    head: String,
    pub cases: Vec<Case>,
}

/// One case: from a fresh unit, blocks one after the other.
#[derive(Clone, Debug, Default)]
pub struct Case {
    pub title: String,
    blocks: Vec<Block>,
}

/// Commands that become visible in one look, and the operations expected after it.
#[derive(Clone, Debug, Default)]
struct Block {
    commands: Vec<String>,
    expected: Vec<String>,
}

/// A case that did not end as it was written.
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
                    Some(_) | None => return Err(format!("line {}: nothing to expect something of", at + 1)),
                },
                line if expecting => {
                    let block = case.blocks.last_mut().expect("a block was begun before what it expects");
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

    /// By their titles, to be begun from.
    pub fn fixtures(&self) -> Fixtures {
        self.cases.iter().map(|case| (case.title.clone(), case.clone())).collect()
    }

    /// The file as it would be written with what was found instead of what is expected.
    pub fn updated(&self, fixtures: &Fixtures) -> Result<String, String> {
        let mut text = self.head.clone();
        for (at, case) in self.cases.iter().enumerate() {
            let gap = if at == 0 { "" } else { "\n" };
            writeln!(text, "{gap}## {}", case.title).expect("a String takes any text");
            let found = case.play(fixtures)?;
            let blocks = case.blocks.iter().zip(found).map(|(block, found)| {
                format!("{}\n{EXPECTED}\n{}\n", block.commands.join("\n"), found.join("\n"))
            });
            text.push_str(&blocks.collect::<Vec<_>>().join("\n"));
        }
        Ok(text)
    }
}

impl Case {
    /// The first block that went otherwise than expected; `Err`: the script itself is wrong.
    pub fn run(&self, fixtures: &Fixtures) -> Result<Option<Difference>, String> {
        let found = self.play(fixtures)?;
        let differing = self.blocks.iter().zip(found).find(|(block, found)| block.expected != *found);
        Ok(differing.map(|(block, found)| Difference {
            title: self.title.clone(),
            commands: block.commands.clone(),
            expected: block.expected.clone(),
            found,
        }))
    }

    /// What each block does.
    fn play(&self, fixtures: &Fixtures) -> Result<Vec<Vec<String>>, String> {
        let mut world = World::new();
        self.blocks.iter().map(|block| self.play_block(&mut world, block, fixtures)).collect()
    }

    fn play_block(
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
                        fixture.play_block(world, block, fixtures)?;
                    }
                }
                None => command::perform(world, line)
                    .map_err(|error| format!("## {}: {line:?}: {error}", self.title))?,
            }
        }
        world.look();
        let mut found = world.take_trace();
        found.push(format!("= {}", world.local.workflow()));
        Ok(found)
    }
}
