//! Runs pip: installs requirements into a folder, reports each package that is fetched, and reduces a failure to one
//! line.
//!
//! All runs share one cache of downloaded and built wheels, so that a package is fetched once for all charms.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The largest number of causes of a conflict in one error.
const CAUSES_MAX: usize = 6;

/// Why pip installed nothing.
pub(super) enum PipError {
    /// The requirements cannot be met: they conflict, or a package does not exist or cannot be built.
    Unsolvable(String),
    /// Something else failed, for example the package index cannot be reached.
    Other(String),
}

impl PipError {
    /// The failure as one line.
    pub(super) fn text(&self) -> &str {
        let (PipError::Unsolvable(text) | PipError::Other(text)) = self;
        text
    }
}

/// A Python that has pip, and where it installs.
pub(super) struct Pip<'a> {
    /// The interpreter.
    pub python: PathBuf,
    /// The folder of the charm. Requirements may contain paths relative to it.
    pub root: &'a Path,
    /// The folder of the shared cache of wheels.
    pub wheels: PathBuf,
    /// A folder for temporary files.
    pub building: &'a Path,
    /// Receives a text for each step.
    pub progress: &'a dyn Fn(&str),
}

impl Pip<'_> {
    /// Installs the packages that the requirements files list, with their dependencies, into the folder `target`. The
    /// constraints pin versions, but install no package.
    pub(super) fn install(
        &self,
        target: &Path,
        requirements: &[PathBuf],
        constraints: &Path,
    ) -> Result<(), PipError> {
        let mut pip = Command::new(&self.python);
        pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-compile"]);
        // The default is five attempts with growing delays, which is too long for a person who waits.
        pip.args(["--retries", "1", "--timeout", "15"]);
        pip.arg("--cache-dir").arg(&self.wheels).arg("--target").arg(target).arg("-c").arg(constraints);
        for file in requirements {
            pip.arg("-r").arg(file);
        }
        // The user may have these settings for other uses of pip. They conflict with --target or change the parsed
        // output.
        pip.env("PIP_USER", "0").env("PIP_REQUIRE_VIRTUALENV", "0");
        pip.env("PIP_QUIET", "0").env("PIP_VERBOSE", "0").env("PIP_NO_COLOR", "1").env("LC_ALL", "C.UTF-8");
        let errors = self.building.join("pip-errors");
        let to_error = |error: std::io::Error| PipError::Other(format!("cannot run pip: {error}"));
        pip.current_dir(self.root).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = pip.stderr(File::create(&errors).map_err(to_error)?).spawn().map_err(to_error)?;
        let mut stdout = String::new();
        let mut steps = Steps::default();
        for line in BufReader::new(child.stdout.take().expect("it is piped")).split(b'\n') {
            let line = line.map_err(to_error)?;
            let line = String::from_utf8_lossy(&line);
            if let Some(step) = steps.next(&line) {
                (self.progress)(&step);
            }
            stdout.push_str(&line);
            stdout.push('\n');
        }
        if child.wait().map_err(to_error)?.success() {
            return Ok(());
        }
        let stderr = fs::read(&errors).map_err(to_error)?;
        Err(failure(&stdout, &String::from_utf8_lossy(&stderr)))
    }
}

/// Follows the output of pip.
#[derive(Default)]
struct Steps {
    packages: usize,
    current: String,
}

impl Steps {
    /// Describes the step that this line of output begins. None if it begins no step.
    fn next(&mut self, line: &str) -> Option<String> {
        let line = line.trim();
        let (verb, rest) = line.split_once(' ')?;
        let first = rest.split([' ', '<', '>', '=', '!', '~', ';', '[']).next().unwrap_or_default();
        match verb {
            "Collecting" | "Processing" => {
                self.packages += 1;
                self.current = first.rsplit('/').next().unwrap_or_default().to_owned();
                Some(format!("fetching package {}: {}", self.packages, self.current))
            }
            "Downloading" => {
                let size = rest.split_once(" (").map(|(_, size)| size.trim_end_matches(')'));
                let size = size.filter(|_| !first.ends_with(".metadata"))?;
                Some(format!("fetching package {}: {} ({size})", self.packages, self.current))
            }
            "Building" => Some(format!("building {}", rest.strip_prefix("wheel for ")?.split(' ').next()?)),
            "Installing" => {
                let names = rest.strip_prefix("collected packages: ")?;
                Some(format!("installing {} packages", names.split(',').count()))
            }
            _ => None,
        }
    }
}

/// The failure that pip reports in its output.
fn failure(stdout: &str, stderr: &str) -> PipError {
    let unreachable = [
        "NewConnectionError",
        "NameResolutionError",
        "ConnectionError",
        "ConnectTimeout",
        "name resolution",
        "ProxyError",
    ];
    if unreachable.iter().any(|word| stderr.contains(word)) {
        let hint = "deploy from a host that can reach it, or set PIP_INDEX_URL or PIP_FIND_LINKS";
        return PipError::Other(format!("the package index is unreachable; {hint}"));
    }
    // Some versions of pip write the causes of a conflict to stdout, others to stderr.
    if let Some((_, causes)) =
        [stdout, stderr].iter().find_map(|text| text.split_once("The conflict is caused by:\n"))
    {
        let causes = causes.lines().map(str::trim).take_while(|line| !line.is_empty());
        let causes: Vec<String> = causes.take(CAUSES_MAX).map(cause).collect();
        return PipError::Unsolvable(format!("conflicting versions: {}", causes.join("; ")));
    }
    let lines: Vec<&str> = stderr.lines().collect();
    let Some(at) = lines.iter().rposition(|line| line.starts_with("ERROR:")) else {
        return PipError::Unsolvable(lines.last().unwrap_or(&"").trim().to_owned());
    };
    // packages, and the hashes that were expected, are in the indented lines after the error
    let more = lines[at + 1..].iter().take_while(|line| line.starts_with(' ')).take(CAUSES_MAX);
    let more: Vec<&str> = more.map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
    let error = lines[at].trim_start_matches("ERROR:").trim();
    PipError::Unsolvable(
        [&[error], &more[..]].concat().join(" ").split_whitespace().collect::<Vec<_>>().join(" "),
    )
}

/// A cause of a conflict in pip's words, with the charm in place of the user: the charm requires the packages.
fn cause(line: &str) -> String {
    if let Some(version) = line.strip_prefix("The user requested (constraint) ") {
        return format!("{version} is pinned");
    }
    match line.strip_prefix("The user requested ") {
        Some(requirement) => format!("the charm requires {requirement}"),
        None => line.to_owned(),
    }
}

/// Runs a program and returns its output; the error is text for a person.
pub(super) fn run(command: &mut Command) -> Result<Output, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_is_reported_by_package_names() {
        let stdout = "Collecting web==1\n\nThe conflict is caused by:\n    The user requested sdk==1.25\n    \
                      exporter 1.21 depends on sdk==1.21\n    The user requested (constraint) sdk==1.24\n\n\
                      To fix this you could try to:\n";
        let stderr =
            "ERROR: Cannot install web\nERROR: ResolutionImpossible: for help visit https://example.com\n";
        let failed = failure(stdout, stderr);
        let text = failed.text();
        assert!(["sdk==1.25", "exporter 1.21", "sdk==1.24"].iter().all(|part| text.contains(part)), "{text}");
        assert!(!text.contains("example.com") && text.lines().count() == 1, "{text}");
    }

    #[test]
    fn the_packages_of_an_error_about_hashes_are_named() {
        let stderr = "ERROR: In --require-hashes mode, these do not:\n    six>=1 from w (from ops)\n    \
                      Expected sha256 ab\n         Got        cd\n[notice] A new release of pip\n";
        let text = failure("", stderr).text().to_owned();
        let words: Vec<&str> = text.split(' ').collect();
        assert!(["six>=1", "ab", "cd"].iter().all(|word| words.contains(word)), "{text}");
        assert!(!text.contains("notice") && text.lines().count() == 1, "{text}");
    }

    #[test]
    fn steps_name_and_count_the_packages() {
        let mut steps = Steps::default();
        let lines = [
            "Looking in links: w",
            "Collecting ops<3,>=2 (from -r x (line 1))",
            "  Downloading ops-2.17.0-py3-none-any.whl.metadata (10 kB)",
            "  Downloading ops-2.17.0-py3-none-any.whl (180 kB)",
            "Processing ./w/sdk-1.25-py3-none-any.whl",
            "  Building wheel for ops (pyproject.toml): started",
            "Installing collected packages: sdk, ops",
        ];
        let steps: Vec<String> = lines.iter().filter_map(|line| steps.next(line)).collect();
        let expected = [
            "fetching package 1: ops",
            "fetching package 1: ops (180 kB)",
            "fetching package 2: sdk-1.25-py3-none-any.whl",
            "building ops",
            "installing 2 packages",
        ];
        assert_eq!(steps, expected);
    }
}
