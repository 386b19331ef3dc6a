//! Which programs of a charm are Python programs that a warm parent can start, and how
//! (docs/explanation/warm-dispatch.md).
//!
//! A program qualifies if it is a Python file, or a `dispatch` script whose every line is understood here: the scripts that
//! charmcraft and Pintle write, and their variants. Everything else runs without a warm parent, so a line that is not
//! understood is never guessed. The decision is pure: the agent reads the files.
//!
//! Called by the agent's hook process after each run and before each start.

use crate::terms::hook_name::HookName;
use crate::unit::hook_context::HookTrigger;
use std::collections::BTreeMap;

/// The facts about a program of the charm.
#[derive(Clone, Copy, Debug)]
pub struct ProgramFacts<'a> {
    /// The path of the program.
    pub program: &'a str,
    /// The folder of the charm, without symbolic links. It contains the program itself, not a link to it.
    pub charm: &'a str,
    /// The text of the program.
    pub text: &'a str,
    /// The architecture as `uname -m` prints it.
    pub architecture: &'a str,
}

/// How a program of the charm starts Python.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PythonLaunch {
    /// What is executed: a path, or a name that is looked up in PATH.
    pub command: String,
    /// The arguments, beginning with the name of the command.
    pub arguments: Vec<String>,
    /// The Python file, relative to the folder of the charm or absolute.
    pub script: String,
    /// The variables that are set in addition to those of the run.
    pub variables: BTreeMap<String, String>,
    /// The shell that waits for Python, if the script does not replace itself by Python.
    pub waiting_shell: Option<String>,
    /// The files without which the script would do something else.
    pub required_files: Vec<String>,
}

/// The shell of the scripts that are understood. Which variables it sets by itself depends on the program behind this
/// path: the agent verifies that it is dash.
pub const SHELL: &str = "/bin/sh";

/// The variable that scripts set for versions of Juju that did not: it is set for every program of a charm.
const DISPATCH_PATH: &str = "JUJU_DISPATCH_PATH";

/// Stands for the value that the run has for [`DISPATCH_PATH`]. Only the variable itself may have it.
const VALUE_OF_RUN: char = '\0';

/// The variables that no run has unless its script sets them.
const UNSET: [&str; 2] = ["PYTHONPATH", "LD_LIBRARY_PATH"];

/// Returns how the program starts Python. None if it is no Python program, or does something that is not understood.
pub fn python_launch(facts: &ProgramFacts<'_>) -> Option<PythonLaunch> {
    if is_python_file(facts.text) {
        return Some(PythonLaunch {
            command: facts.program.to_owned(),
            arguments: vec![facts.program.to_owned()],
            script: facts.program.to_owned(),
            ..PythonLaunch::default()
        });
    }
    let script = facts.text.strip_prefix("#!")?.strip_prefix(SHELL)?.strip_prefix('\n')?;
    Script { facts, variables: BTreeMap::new(), exported: BTreeMap::new(), required_files: Vec::new() }
        .launch(script)
}

/// Whether a file is executed by Python 3 without options: `#!/usr/bin/env python3` or `#!/usr/bin/python3.12`.
pub fn is_python_file(text: &str) -> bool {
    let line = text.split('\n').next().unwrap_or_default();
    let Some(words) =
        line.strip_prefix("#!").map(|rest| rest.split([' ', '\t']).filter(|word| !word.is_empty()))
    else {
        return false;
    };
    match words.collect::<Vec<_>>()[..] {
        ["/usr/bin/env", name] => !name.contains('/') && is_python(name),
        [path] => path.starts_with('/') && is_python(path),
        _ => false,
    }
}

/// Whether a program, by its name, is Python 3.
fn is_python(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let version = name.strip_prefix("python3").map(|rest| rest.strip_prefix('.').unwrap_or(rest));
    version.is_some_and(|minor| minor.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Whether a run starts the warm parent for the next one, and counts as its use. A unit with nothing to do runs update-status
/// only: its warm parent must end. After stop and remove nothing follows.
pub fn keeps_parent(trigger: &HookTrigger) -> bool {
    match trigger {
        HookTrigger::Hook(hook) => {
            !matches!(hook, HookName::UpdateStatus | HookName::Stop | HookName::Remove)
        }
        HookTrigger::Relation { .. }
        | HookTrigger::Storage { .. }
        | HookTrigger::Secret { .. }
        | HookTrigger::Workload { .. }
        | HookTrigger::Action(_) => true,
        HookTrigger::Commands(_) => false,
    }
}

/// A script of a shell, as far as it was read.
struct Script<'a> {
    facts: &'a ProgramFacts<'a>,
    variables: BTreeMap<String, String>,
    exported: BTreeMap<String, String>,
    required_files: Vec<String>,
}

/// A word of a line.
struct Word {
    text: String,
    /// The length of `NAME` if the word is `NAME=value` and no part of the name was quoted or expanded.
    name_bytes: Option<usize>,
}

impl Script<'_> {
    fn launch(mut self, text: &str) -> Option<PythonLaunch> {
        if text.lines().any(|line| line.trim_start().starts_with('#') && line.ends_with('\\')) {
            return None;
        }
        let text = text.replace("\\\n", " ");
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        loop {
            let line = lines.next()?;
            if let Some(condition) = line.strip_prefix("if [ ! -e ") {
                // the file is missing the first time only
                let [file] = &self.words(condition.strip_suffix("]; then")?)?[..] else { return None };
                self.required_files.push(file.text.clone());
                while let line = lines.next()?
                    && line != "fi"
                {
                    if ["else", "elif ", "if "].iter().any(|word| line.starts_with(word)) {
                        return None;
                    }
                }
                continue;
            }
            let mut words = self.words(line)?.into_iter().peekable();
            let exports = words.next_if(|word| word.text == "export").is_some();
            let mut assigned = BTreeMap::new();
            while let Some(word) = words.next_if(|word| word.name_bytes.is_some()) {
                let (name, value) = word.text.split_at(word.name_bytes?);
                if self.variables.contains_key(name) {
                    return None;
                }
                assigned.insert(name.to_owned(), value.strip_prefix('=')?.to_owned());
            }
            let command: Vec<String> = words.map(|word| word.text).collect();
            match (exports, command.is_empty()) {
                (true, false) => return None,
                (true, true) => self.exported.extend(assigned.clone()),
                (false, true) if assigned.keys().any(|name| may_be_inherited(name)) => return None,
                (false, true) => {}
                (false, false) => {
                    self.exported.extend(assigned);
                    return if lines.next().is_none() { self.run(command) } else { None };
                }
            }
            self.variables.extend(assigned);
        }
    }

    /// The last line of the script runs this command.
    fn run(self, command: Vec<String>) -> Option<PythonLaunch> {
        let (replaces, command) = match command.split_first()? {
            (first, rest) if first == "exec" => (true, rest.to_vec()),
            _ => (false, command),
        };
        let script = match &command[..] {
            [script] if script.contains('/') => script.clone(),
            [python, script] if is_python(python) || python.ends_with("/python") => script.clone(),
            _ => return None,
        };
        let mut variables = self.exported;
        if variables.contains_key("PATH") {
            return None;
        }
        variables.remove(DISPATCH_PATH);
        // dash exports it; the working directory of a run is the folder of the charm
        variables.insert("PWD".to_owned(), self.facts.charm.to_owned());
        Some(PythonLaunch {
            command: command.first()?.clone(),
            arguments: command,
            script,
            variables,
            waiting_shell: (!replaces).then(|| SHELL.to_owned()),
            required_files: self.required_files,
        })
    }

    /// Splits a line into words and expands its variables. None if anything in it is not understood.
    fn words(&self, line: &str) -> Option<Vec<Word>> {
        let (mut words, mut rest, mut quoted) = (Vec::new(), line, false);
        let mut word: Option<Word> = None;
        while let Some(next) = rest.chars().next() {
            if next == '$' {
                let (value, after) = self.expansion(&rest[1..])?;
                word.get_or_insert_with(Word::new).text.push_str(&value);
                rest = after;
                continue;
            }
            rest = &rest[next.len_utf8()..];
            match next {
                '"' => {
                    quoted = !quoted;
                    word.get_or_insert_with(Word::new);
                }
                ' ' | '\t' if !quoted => words.extend(word.take()),
                '=' if !quoted => {
                    let word = word.get_or_insert_with(Word::new);
                    let is_name = !word.text.is_empty() && word.text.bytes().all(is_name_byte);
                    if word.name_bytes.is_none() && is_name {
                        word.name_bytes = Some(word.text.len());
                    }
                    word.text.push('=');
                }
                _ if next.is_ascii_alphanumeric() || "/._-:".contains(next) => {
                    word.get_or_insert_with(Word::new).text.push(next);
                }
                _ => return None,
            }
        }
        words.extend(word);
        let is_kept = format!("{DISPATCH_PATH}={VALUE_OF_RUN}");
        let is_understood = |word: &Word| !word.text.contains(VALUE_OF_RUN) || word.text == is_kept;
        (!quoted && words.iter().all(is_understood)).then_some(words)
    }

    /// Expands what follows a dollar sign. Returns the value and the rest of the text.
    fn expansion<'t>(&self, text: &'t str) -> Option<(String, &'t str)> {
        if let Some(rest) = text.strip_prefix('0') {
            return Some((plain(self.facts.program)?, rest));
        }
        if text.starts_with('(') {
            let end = closing(text, '(', ')')?;
            let command: String = text.get(1..end)?.chars().filter(|c| *c != '"').collect();
            let value = match command.as_str() {
                "dirname $(realpath $0)" => self.facts.charm,
                "uname -m" => self.facts.architecture,
                _ => return None,
            };
            return Some((plain(value)?, text.get(end + 1..)?));
        }
        let Some(braced) = text.strip_prefix('{') else {
            let end = text.bytes().position(|byte| !is_name_byte(byte)).unwrap_or(text.len());
            return Some((self.variable(text.get(..end)?)?, text.get(end..)?));
        };
        let end = closing(text, '{', '}')?;
        let (inside, rest) = (braced.get(..end - 1)?, text.get(end + 1..)?);
        let name_bytes = inside.bytes().position(|byte| !is_name_byte(byte)).unwrap_or(inside.len());
        let (name, modifier) = inside.split_at(name_bytes);
        if name == DISPATCH_PATH && modifier == ":-$0" {
            return Some((VALUE_OF_RUN.to_string(), rest));
        }
        let value = self.variable(name)?;
        match modifier {
            "" => Some((value, rest)),
            _ if value.is_empty() && modifier.starts_with(":+") => Some((String::new(), rest)),
            _ => None,
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        let known = self.variables.get(name).or_else(|| self.exported.get(name)).cloned();
        known.or_else(|| UNSET.contains(&name).then(String::new))
    }
}

impl Word {
    fn new() -> Word {
        Word { text: String::new(), name_bytes: None }
    }
}

/// Whether a run may have a variable of this name: a shell then exports what a script assigns to it.
fn may_be_inherited(name: &str) -> bool {
    name.bytes().any(|byte| byte.is_ascii_uppercase()) || name.ends_with("_proxy")
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The position of the character that closes the first one.
fn closing(text: &str, open: char, close: char) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == open) - i32::from(c == close);
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// A value that a shell does not split or expand, whether it is quoted or not.
fn plain(value: &str) -> Option<String> {
    let is_plain = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-:+,@%".contains(&byte));
    is_plain.then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHARM: &str = "/d/agents/unit-web-0/charm";

    fn launch_of(program: &str, text: &str) -> Option<PythonLaunch> {
        let program = format!("{CHARM}/{program}");
        python_launch(&ProgramFacts { program: &program, charm: CHARM, text, architecture: "x86_64" })
    }

    /// A launch by a script, with the variables that it sets besides PWD.
    fn launch(arguments: &[&str], variables: &[(&str, &str)], waits: bool) -> Option<PythonLaunch> {
        let text = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        Some(PythonLaunch {
            command: arguments[0].to_owned(),
            arguments: arguments.iter().map(|argument| argument.to_string()).collect(),
            script: arguments[arguments.len() - 1].to_owned(),
            variables: variables.iter().chain(&[("PWD", CHARM)]).map(text).collect(),
            waiting_shell: waits.then(|| "/bin/sh".to_owned()),
            required_files: Vec::new(),
        })
    }

    const SET_PATH: &str = "JUJU_DISPATCH_PATH=\"${JUJU_DISPATCH_PATH:-$0}\"";

    #[test]
    fn the_scripts_that_charmcraft_and_pintle_write_are_understood() {
        let lib_venv = [("PYTHONPATH", "lib:venv")];
        let table = [
            (
                format!("{SET_PATH} PYTHONPATH=lib:venv ./src/charm.py"),
                launch(&["./src/charm.py"], &lib_venv, true),
            ),
            (
                format!("\n{SET_PATH} PYTHONPATH=lib:venv \\\n  exec ./src/charm.py\n"),
                launch(&["./src/charm.py"], &lib_venv, false),
            ),
            (
                format!("{SET_PATH} PYTHONPATH=\"lib:venv\" exec ./src/charm.py"),
                launch(&["./src/charm.py"], &lib_venv, false),
            ),
            (
                format!("{SET_PATH} PYTHONPATH=lib:venv exec python3 ./src/charm.py"),
                launch(&["python3", "./src/charm.py"], &lib_venv, false),
            ),
            (
                format!("{SET_PATH} PYTHONPATH=lib:venv /usr/bin/python3.8 src/charm.py"),
                launch(&["/usr/bin/python3.8", "src/charm.py"], &lib_venv, true),
            ),
            (
                format!("# adds .\n{SET_PATH} PYTHONPATH=lib:venv:. ./src/charm.py"),
                launch(&["./src/charm.py"], &[("PYTHONPATH", "lib:venv:.")], true),
            ),
            (
                format!("{SET_PATH} PYTHONPATH=lib:venv:$PYTHONPATH ./src/charm.py"),
                launch(&["./src/charm.py"], &[("PYTHONPATH", "lib:venv:")], true),
            ),
            (
                format!(
                    "export {SET_PATH}\nexport PYTHONPATH=\"lib:venv/lib/python3.11/site-packages${{PYTHONPATH:+:$PYTHONPATH}}\"\nexec python3 src/charm.py\n"
                ),
                launch(
                    &["python3", "src/charm.py"],
                    &[("PYTHONPATH", "lib:venv/lib/python3.11/site-packages")],
                    false,
                ),
            ),
        ];
        for (text, expected) in table {
            assert_eq!(launch_of("dispatch", &format!("#!/bin/sh\n{text}")), expected, "{text}");
        }
    }

    #[test]
    fn the_newer_script_of_charmcraft_is_understood_once_its_link_exists() {
        for dirname in ["$(dirname $(realpath $0))", "$(dirname \"$(realpath \"$0\")\")"] {
            let text = format!(
                "#!/bin/sh\ndispatch_path=\"{dirname}\"\npython_path=\"${{dispatch_path}}/venv/bin/python\"\n\
                 if [ ! -e \"${{python_path}}\" ]; then\n    mkdir -p \"${{dispatch_path}}/venv/bin\"\n    \
                 ln -s $(which python3) \"${{python_path}}\"\nfi\n\n# Add\n\
                 export PYTHONPATH=\"${{dispatch_path}}/lib:${{dispatch_path}}/src\"\n\n\
                 export LD_LIBRARY_PATH=\"${{dispatch_path}}/usr/lib:${{dispatch_path}}/usr/lib/$(uname -m)-linux-gnu\"\n\n\
                 exec \"${{python_path}}\" \"${{dispatch_path}}/src/charm.py\"\n"
            );
            let python = format!("{CHARM}/venv/bin/python");
            let script = format!("{CHARM}/src/charm.py");
            let path = format!("{CHARM}/lib:{CHARM}/src");
            let libraries = format!("{CHARM}/usr/lib:{CHARM}/usr/lib/x86_64-linux-gnu");
            let variables = [("PYTHONPATH", path.as_str()), ("LD_LIBRARY_PATH", &libraries)];
            let expected = launch(&[&python, &script], &variables, false).expect("a launch");
            let expected = PythonLaunch { required_files: vec![python.clone()], ..expected };
            assert_eq!(launch_of("dispatch", &text), Some(expected));
        }
    }

    #[test]
    fn a_python_file_is_its_own_program() {
        for (line, expected) in [
            ("#!/usr/bin/env python3", true),
            ("#! /usr/bin/python3.12", true),
            ("#!/usr/bin/env python3 -u", false),
            ("#!/usr/bin/python3 -I", false),
            ("#!/usr/bin/env -S python3 -u", false),
            ("#!/usr/bin/python", false),
            ("#!/usr/bin/env python2.7", false),
            ("#!/usr/bin/python3-dbg", false),
            ("#!/bin/bash", false),
            ("import os", false),
        ] {
            assert_eq!(is_python_file(&format!("{line}\nimport os\n")), expected, "{line}");
        }
        let program = format!("{CHARM}/hooks/install");
        let expected = PythonLaunch {
            command: program.clone(),
            arguments: vec![program.clone()],
            script: program,
            ..PythonLaunch::default()
        };
        assert_eq!(launch_of("hooks/install", "#!/usr/bin/env python3\n"), Some(expected));
    }

    #[test]
    fn a_script_that_does_anything_else_is_not_understood() {
        for text in [
            "#!/bin/bash\nexec ./src/charm.py",
            "#!/bin/sh -e\nexec ./src/charm.py",
            "#!/bin/sh\nset -e\nexec ./src/charm.py",
            "#!/bin/sh\n. ./environment\nexec ./src/charm.py",
            "#!/bin/sh\nexec ./src/charm.py \"$@\"",
            "#!/bin/sh\nexec ./src/charm.py | tee log",
            "#!/bin/sh\nexec ./src/charm.py > log",
            "#!/bin/sh\nexec python3 -u src/charm.py",
            "#!/bin/sh\nexec python3 -m debugpy",
            "#!/bin/sh\n./setup; ./src/charm.py",
            "#!/bin/sh\n./src/charm.py\necho done",
            "#!/bin/sh\nPYTHONPATH=$HOME/lib ./src/charm.py",
            "#!/bin/sh\nPYTHONPATH=$(pwd)/lib ./src/charm.py",
            "#!/bin/sh\nPYTHONPATH='lib' ./src/charm.py",
            "#!/bin/sh\nPYTHONPATH=\"lib ./src/charm.py",
            "#!/bin/sh\nsudo ./src/charm.py",
            "#!/bin/sh\nPYTHONPATH=lib charm",
            "#!/bin/sh\nif [ ! -e x ]; then\ntouch x\nexec ./src/charm.py",
            "#!/bin/sh\na=lib\na=lib2 PYTHONPATH=$a exec ./src/charm.py",
            "#!/bin/sh\nif [ ! -e x ]; then\ntouch x\nelse\nexport A=1\nfi\nexec ./src/charm.py",
            "#!/bin/sh\nexport HOOK=\"${JUJU_DISPATCH_PATH:-$0}\"\nexec ./src/charm.py",
            "#!/bin/sh\nLANG=C\nexec ./src/charm.py",
            "#!/bin/sh\nno_proxy=here\nexec ./src/charm.py",
            "#!/bin/sh\nexport PATH=/opt\nexec python3 src/charm.py",
            "#!/bin/sh\n# a comment \\\nPYTHONPATH=lib exec ./src/charm.py",
            "#!/bin/sh\nexport PYTHONPATH=lib",
            "#!/bin/sh",
            "",
        ] {
            assert_eq!(launch_of("dispatch", text), None, "{text}");
        }
    }

    #[test]
    fn a_folder_that_a_shell_would_split_is_not_guessed() {
        let text = "#!/bin/sh\npath=$(dirname $(realpath $0))\nexec $path/src/charm.py";
        let facts = ProgramFacts { program: "/a b/dispatch", charm: "/a b", text, architecture: "x86_64" };
        assert_eq!(python_launch(&facts), None);
    }

    #[test]
    fn hooks_that_nothing_follows_do_not_keep_the_parent() {
        for hook in [HookName::UpdateStatus, HookName::Stop, HookName::Remove] {
            assert!(!keeps_parent(&HookTrigger::Hook(hook)));
        }
        assert!(keeps_parent(&HookTrigger::Hook(HookName::ConfigChanged)));
    }
}
