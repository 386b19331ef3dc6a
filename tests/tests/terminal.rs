//! What a person sees in a terminal: a shell in a machine, colours, progress, a narrow screen, and the completion of zsh
//! and fish.

use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use tests::host::{Host, programs, sample, skip};
use tests::terminal::{Terminal, lines};

/// The command on the data folder of a host.
fn pintle(host: &Host, words: &[&str]) -> Command {
    let mut command = Command::new(programs().join("pintle"));
    command.arg("--data").arg(&host.dir).args(words).env("SHELL", "/bin/sh");
    command
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the paths of tests are text")
}

fn hello(dir: &TempDir) -> Host {
    let host = Host::up(&dir.path().canonicalize().expect("the folder was just created").join("data"));
    host.ok(&["deploy", text(&sample("hello"))]);
    host.until_status("hello/0", "active", "Hello");
    host
}

#[test]
fn ssh_is_a_shell_in_the_machine_with_a_terminal_of_its_own() {
    let dir = TempDir::with_prefix("pintle-terminal-").expect("a temporary folder can be created");
    let host = hello(&dir);
    let mut terminal = Terminal::run(&pintle(&host, &["ssh", "hello/0"]), 100);
    // the shell echoes what is typed, so that the answer must not be part of it
    terminal.type_text("test -t 0 && test -t 1 && echo terminal-$((40 + 2))\n");
    terminal.until("terminal-42");
    terminal.type_text("stty size\n");
    terminal.until("24 100");
    terminal.type_text("exit 7\n");
    assert_eq!(terminal.finish().0.code(), Some(7));
}

#[test]
fn statuses_have_colours_on_a_terminal_and_none_elsewhere() {
    let dir = TempDir::with_prefix("pintle-terminal-").expect("a temporary folder can be created");
    let host = hello(&dir);
    let (ended, printed) = Terminal::run(&pintle(&host, &["status"]), 120).finish();
    assert!(ended.success() && printed.contains("\x1b[32m"), "{printed:?}");
    let piped = host.ok(&["status"]);
    assert!(!piped.contains('\x1b'), "{piped:?}");
    // only times differ
    let words = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let shown: Vec<_> = lines(&printed).iter().map(|line| words(line)).collect();
    let plain: Vec<_> = lines(&piped).iter().map(|line| words(line)).collect();
    assert_eq!(shown, plain);
    let (_, printed) = Terminal::run(&pintle(&host, &["status", "--no-color"]), 120).finish();
    assert!(!printed.contains('\x1b'), "{printed:?}");
}

/// A line that is longer than the terminal would wrap, and could not be rewritten.
#[test]
fn progress_is_one_line_on_a_terminal_and_plain_lines_elsewhere() {
    let dir = TempDir::with_prefix("pintle-terminal-").expect("a temporary folder can be created");
    let host = Host::up(&dir.path().canonicalize().expect("the folder was just created").join("data"));
    let charm = dir.path().join("charm");
    std::fs::create_dir_all(charm.join("src")).expect("a new folder");
    for (name, content) in [
        ("metadata.yaml", "name: waits\nsummary: s\ndescription: d\n"),
        ("requirements.txt", "--no-index\nno-such-package-of-this-long-name-that-fills-a-line\n"),
        ("src/charm.py", "import sys\n"),
    ] {
        std::fs::write(charm.join(name), content).expect("written");
    }
    let command = pintle(&host, &["deploy", text(&charm)]);
    let (ended, printed) = Terminal::run(&command, 40).finish();
    assert_eq!(ended.code(), Some(1), "{printed}");
    let rewritten: Vec<&str> = printed.split('\r').filter(|part| part.contains("\x1b[K")).collect();
    assert!(!rewritten.is_empty(), "{printed:?}");
    for part in rewritten {
        let shown = part.split("\x1b[K").next().unwrap_or_default();
        assert!(shown.chars().count() < 40, "{shown:?}");
    }
    let piped = host.refused(&["deploy", text(&charm)]);
    assert!(!piped.contains(['\r', '\x1b']) && piped.lines().count() >= 2, "{piped:?}");
}

#[test]
fn a_terminal_of_40_columns_shows_status_and_help() {
    let dir = TempDir::with_prefix("pintle-terminal-").expect("a temporary folder can be created");
    let host = hello(&dir);
    let (ended, printed) = Terminal::run(&pintle(&host, &["status"]), 40).finish();
    assert!(ended.success(), "{printed}");
    assert!(lines(&printed).iter().any(|line| line.starts_with("hello/0")), "{printed}");
    for words in [&["help"][..], &["help", "deploy"], &["ssh", "--help"]] {
        let (ended, printed) = Terminal::run(&pintle(&host, words), 40).finish();
        assert!(ended.success(), "{words:?}: {printed}");
        // what is longer is an example, or cannot be broken: a usage line, a default, an environment variable
        let unbroken = ["pintle ", "Usage:", "["];
        let is_wide =
            |line: &String| line.chars().count() > 40 && !unbroken.iter().any(|words| line.contains(words));
        let wide: Vec<String> = lines(&printed).into_iter().filter(is_wide).collect();
        assert!(wide.is_empty(), "{words:?}: {wide:#?}");
        let is_word = |line: &&String| line.starts_with("      ") && line.split_whitespace().count() == 1;
        let words_alone = lines(&printed).iter().filter(is_word).count();
        assert!(words_alone < 40, "{words:?}: most lines have one word\n{printed}");
    }
}

/// Whether a shell is installed.
fn has_shell(shell: &str) -> bool {
    Command::new(shell).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// A shell that reads no configuration of its user, in which `pintle` is that of the host.
fn shell(host: &Host, shell: &str, home: &TempDir, words: &[&str]) -> Command {
    let path = std::env::var("PATH").expect("there is a PATH");
    let mut command = Command::new(shell);
    command.args(words).env("PATH", format!("{}:{path}", text(&programs()))).env("PINTLE_DATA", &host.dir);
    command.env("HOME", home.path()).env("XDG_CONFIG_HOME", home.path()).env("XDG_DATA_HOME", home.path());
    command
}

/// A completion is unique, so that one tab completes the word.
const COMPLETIONS: [(&str, &str); 5] = [
    ("pintle destroy-", "destroy-model"),
    ("pintle show-unit h", "hello/0"),
    ("pintle config h", "hello"),
    ("pintle why machine/", "machine/0"),
    ("pintle status --form", "--format"),
];

#[test]
fn zsh_completes_commands_flags_and_the_names_of_the_model() {
    if !has_shell("zsh") {
        return skip("zsh_completes_commands_flags_and_the_names_of_the_model", "zsh is not installed");
    }
    let dir = TempDir::with_prefix("pintle-terminal-").expect("a temporary folder can be created");
    let host = hello(&dir);
    let home = TempDir::with_prefix("pintle-home-").expect("a temporary folder can be created");
    let mut terminal = Terminal::run(&shell(&host, "zsh", &home, &["-f", "-i"]), 200);
    terminal.type_text("autoload -U compinit; compinit -D; source <(pintle completion zsh)\n");
    // what is typed before the shell reads keys is no completion
    terminal.type_text("print -r -- ready-$((40 + 2))\n");
    terminal.until("ready-42");
    for (typed, completed) in COMPLETIONS {
        let line = typed.rsplit_once(' ').expect("several words").0;
        terminal.type_text(&format!("{typed}\t"));
        terminal.until(completed);
        // Ctrl-A is the beginning of the line, which is then printed instead of executed
        terminal.type_text("\x01print -r -- completed: \n");
        terminal.until(&format!("completed: {line} {completed}"));
    }
    terminal.type_text("exit 7\n");
    assert_eq!(terminal.finish().0.code(), Some(7));
}

#[test]
fn fish_completes_commands_flags_and_the_names_of_the_model() {
    if !has_shell("fish") {
        return skip("fish_completes_commands_flags_and_the_names_of_the_model", "fish is not installed");
    }
    let dir = TempDir::with_prefix("pintle-terminal-").expect("a temporary folder can be created");
    let host = hello(&dir);
    let home = TempDir::with_prefix("pintle-home-").expect("a temporary folder can be created");
    for (typed, completed) in COMPLETIONS {
        let script = format!("pintle completion fish | source; complete --do-complete {typed:?}");
        let output = shell(&host, "fish", &home, &["--no-config", "-c", &script]).output().expect("it runs");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let words: Vec<&str> = printed.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(words, [completed], "{typed}: {output:?}");
    }
}
