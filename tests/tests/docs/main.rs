//! Tests that the commands in README.md and `docs/` work as the pages describe.
//!
//! A shell runs the commands of each page in order, against a Pintle of its own, in a folder that looks like the
//! repository. Exit codes are checked, and the names of units, states and hooks in the output that a page shows.

mod limits;
mod page;
mod timed;

use page::{Step, blocks, inline_code, pages};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tests::host::{Host, programs};

/// The longest wait for an output; a busy machine with two cores needs a tenth of it.
const DEADLINE: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(100);

/// The blocks that are not run: page, mark, how many.
const NOT_RUN: [(&str, &str, usize); 10] = [
    ("README.md", "build", 1),
    ("docs/how-to/measure-scale.md", "build", 1),
    ("docs/how-to/test-pintle.md", "build", 5),
    ("docs/how-to/develop-a-charm.md", "interactive", 1),
    ("docs/how-to/repair-a-unit.md", "interactive", 1),
    ("docs/how-to/replay-a-hook.md", "interactive", 2),
    // tests/tests/etcd.rs runs these commands
    ("docs/how-to/store-models-in-etcd.md", "interactive", 8),
    ("docs/how-to/use-another-machine.md", "interactive", 2),
    ("docs/how-to/use-machines.md", "interactive", 1),
    ("docs/how-to/use-machines.md", "root", 2),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository exists")
}

/// The path below the root and the text of each page.
fn all_pages() -> Vec<(String, String)> {
    let root = root();
    let paths = [vec![root.join("README.md")], pages(&root.join("docs"))].concat();
    let read = |path: PathBuf| {
        let name = path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
        (name, fs::read_to_string(&path).expect("pages are UTF-8"))
    };
    paths.into_iter().map(read).collect()
}

/// A reader who has cloned and built the repository.
struct Reader {
    // dropped before its folder: `pintle down`
    _host: Host,
    folder: TempDir,
    exports: Vec<String>,
}

impl Reader {
    fn new() -> Reader {
        let folder = TempDir::with_prefix("pintle-docs-").expect("there is room for a test");
        let clone = folder.path().join("clone");
        fs::create_dir_all(&clone).expect("the folder is new");
        fs::create_dir_all(folder.path().join("home")).expect("the folder is new");
        std::os::unix::fs::symlink(root().join("charms"), clone.join("charms")).expect("the folder is new");
        let makefile = format!("programs:\n\t@$(MAKE) -s -C {} programs\n", root().display());
        fs::write(clone.join("Makefile"), makefile).expect("there is room for a test");
        let data = folder.path().join("home/.local/share/pintle");
        Reader { _host: Host::new(&data), folder, exports: Vec::new() }
    }

    /// Runs one command in a shell with the variables that earlier commands exported. Returns whether it succeeded, and
    /// its output.
    fn run(&self, command: &str) -> (bool, String) {
        let script = format!("{}\nexec 2>&1\n{command}", self.exports.join("\n"));
        let path = std::env::var("PATH").expect("there is a PATH");
        let output = Command::new("bash")
            .args(["-c", &script])
            .current_dir(self.folder.path().join("clone"))
            .env("HOME", self.folder.path().join("home"))
            .env("PATH", format!("{}:{path}", programs().display()))
            .env_remove("PINTLE_DATA")
            .env_remove("XDG_DATA_HOME")
            .output()
            .expect("bash exists");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Performs one step of a page. The error describes how the result differs from the page.
    fn follow(&mut self, step: &Step) -> Result<(), String> {
        // the value is evaluated once, with the commands in it
        if let Some(name) = step.command.strip_prefix("export ").and_then(|rest| rest.split('=').next()) {
            let (_, value) = self.run(&format!("{} && printf %s \"${name}\"", step.command));
            self.exports.push(format!("export {name}='{value}'"));
        }
        let end = Instant::now() + DEADLINE;
        loop {
            let (succeeded, output) = self.run(&step.command);
            let wrong = match (succeeded == step.must_fail(), step.missing(&output)) {
                (true, _) if succeeded => "succeeds, and the page shows that it is refused".to_owned(),
                (true, _) => "fails".to_owned(),
                (false, Some(line)) => format!("does not print, of {line:?}, names and states"),
                (false, None) => return Ok(()),
            };
            if !step.only_reads() || Instant::now() > end {
                return Err(format!("{:?} {wrong}; it prints:\n{output}", step.command));
            }
            std::thread::park_timeout(INTERVAL);
        }
    }
}

#[test]
fn the_commands_of_every_page_work() {
    for (name, text) in all_pages() {
        let blocks: Vec<_> = blocks(&text).into_iter().filter(|block| block.mark.is_none()).collect();
        let mut reader = Reader::new();
        for block in blocks.iter().filter(|block| block.has_commands()) {
            for step in block.steps() {
                if let Err(wrong) = reader.follow(&step) {
                    panic!("{name}:{}: {wrong}", block.line);
                }
            }
        }
    }
}

#[test]
fn blocks_that_are_not_run_are_listed() {
    let mut found: Vec<(String, String)> = Vec::new();
    for (name, text) in all_pages() {
        for block in blocks(&text) {
            let at = format!("{name}:{}", block.line);
            assert!(!block.language.is_empty(), "{at}: name the language of the block");
            let is_command =
                block.text.iter().any(|line| line.starts_with("$ ") || line.starts_with("pintle"));
            assert!(block.has_commands() || !is_command, "{at}: commands are in sh and console blocks");
            found.extend(block.mark.map(|mark| (name.clone(), mark)));
        }
    }
    let listed = NOT_RUN.iter().flat_map(|(page, mark, times)| {
        std::iter::repeat_n(((*page).to_owned(), (*mark).to_owned()), *times)
    });
    let mut listed: Vec<(String, String)> = listed.collect();
    found.sort();
    listed.sort();
    assert_eq!(found, listed, "NOT_RUN lists the blocks that are not run");
}

/// Commands in the prose are not run, but they and their flags must exist.
#[test]
fn commands_in_sentences_exist() {
    let reader = Reader::new();
    for (name, text) in all_pages() {
        for code in inline_code(&text) {
            let mut words = code.split_whitespace();
            let is_pintle = words.next() == Some("pintle");
            let Some(verb) = words.next().filter(|verb| is_pintle && !verb.starts_with('-')) else {
                continue;
            };
            if verb.chars().all(char::is_uppercase) || verb == "help" {
                continue;
            }
            let (exists, help) = reader.run(&format!("pintle {verb} --help"));
            assert!(exists, "{name}: `{code}`: there is no such command:\n{help}");
            for flag in words.filter(|word| word.starts_with("--")) {
                assert!(help.contains(flag), "{name}: `{code}`: {verb} has no {flag}:\n{help}");
            }
        }
    }
}

#[test]
fn links_lead_to_files() {
    let more = ["ARCHITECTURE.md", "CHANGELOG.md"];
    let more = more.map(|name| (name.to_owned(), fs::read_to_string(root().join(name)).expect("it exists")));
    for (name, text) in all_pages().into_iter().chain(more) {
        let folder = root().join(&name);
        let folder = folder.parent().expect("pages are in a folder");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            let is_file = path.is_empty() || path.contains("://") || folder.join(path).exists();
            assert!(is_file, "{name}: no file {link}");
        }
    }
}

#[test]
fn the_reference_names_every_command_and_setting() {
    let read =
        |page: &str| fs::read_to_string(root().join("docs/reference").join(page)).expect("the page exists");
    let (_, help) = Reader::new().run("pintle help");
    let list =
        help.split("Commands:").nth(1).and_then(|rest| rest.split("Options:").next()).unwrap_or_default();
    // a command is indented by two, the second line of its description by more
    let without_indent =
        |line: &str| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')).map(str::to_owned);
    let commands: Vec<String> = list.lines().filter_map(without_indent).collect();
    assert!(commands.len() > 30, "{help}");
    let commands_page = read("commands.md");
    for command in commands.iter().filter_map(|line| line.split_whitespace().next()) {
        assert!(
            commands_page.contains(&format!("`{command}`")) || command == "help",
            "commands.md: {command}"
        );
    }
    let settings_page = read("model-settings.md");
    for setting in state::lifecycle::model::defaults().keys() {
        assert!(settings_page.contains(&format!("`{setting}`")), "model-settings.md: {setting}");
    }
}

/// The columns of the tables of hook tools: each row states what is different from Juju, and why.
#[test]
fn each_hook_tool_is_in_one_row_with_its_differences_from_juju() {
    let page = fs::read_to_string(root().join("docs/reference/hook-tools.md")).expect("the page exists");
    let mut documented = BTreeMap::new();
    let mut is_in_table = false;
    for line in page.lines() {
        let Some(row) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else {
            is_in_table &= line.starts_with("|-");
            continue;
        };
        let columns: Vec<&str> = row.split(" | ").collect();
        if columns[0] == "tools" {
            is_in_table = true;
        } else if is_in_table {
            let [tools, _, differences] = columns[..] else { panic!("three columns: {line}") };
            // a difference without a reason is not one that was decided
            assert!(differences == "no" || differences.contains(": "), "{line}");
            for tool in tools.split(", ") {
                let tool = tool.trim_matches('`').to_owned();
                assert!(documented.insert(tool, differences).is_none(), "twice: {line}");
            }
        }
    }
    let documented: Vec<&str> = documented.keys().map(String::as_str).collect();
    assert_eq!(documented, commands::NAMES);
}

/// The commands in the picture of the README, one after the other.
fn drawn_commands(svg: &Path) -> Vec<String> {
    let text = fs::read_to_string(svg).expect("the picture exists");
    let plain = |line: &str| {
        let pieces = line.split('<').filter_map(|piece| Some(piece.split_once('>')?.1));
        pieces.collect::<String>()
    };
    text.lines().map(plain).filter_map(|line| line.strip_prefix("$ ").map(str::to_owned)).collect()
}

#[test]
fn the_picture_can_be_drawn_again() {
    let folder = TempDir::with_prefix("pintle-docs-").expect("there is room for a test");
    let again = folder.path().join("session.svg");
    let output = Command::new("python3")
        .arg(root().join("docs/picture/record.py"))
        .arg("--programs")
        .arg(programs())
        .arg("--out")
        .arg(&again)
        .output()
        .expect("python3 is there: tests/prerequisites.sh");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let commands = drawn_commands(&again);
    assert!(commands.len() > 5, "{commands:?}");
    let hint = "run python3 docs/picture/record.py";
    assert_eq!(drawn_commands(&root().join("docs/picture/session.svg")), commands, "{hint}");
}

/// Checks the paths that begin with a folder of the repository; shortened paths are not checked.
#[test]
fn files_that_the_architecture_names_exist() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("there is a map");
    let folders =
        ["agent/", "api/", "charms/", "cli/", "controller/", "docs/", "hooks-tools/", "state/", "tests/"];
    let is_path =
        |code: &String| folders.iter().any(|folder| code.starts_with(folder)) && !code.contains(' ');
    // recipes: a file that is to be written, or all of a folder
    let is_new = |code: &String| ["NAME", "NOUN", "*"].iter().any(|word| code.contains(word));
    let wrong: Vec<String> = inline_code(&text)
        .into_iter()
        .filter(|code| is_path(code) && !is_new(code) && !root().join(code).exists())
        .collect();
    assert!(wrong.is_empty(), "ARCHITECTURE.md names files that do not exist: {wrong:#?}");
}
