//! What the program of a run has printed: the lines of the debug log, and the results of an action.
//!
//! The shim stores the output; its bounds are in `hook_client::shim`. In the output of a hook the contents of secrets
//! are masked before anything else reads it. Called when a run has ended.

use super::run_files::read_output;
use api::text::log::{OMITTED_OUTPUT, omitted_bytes, omitted_lines};
use base64::prelude::{BASE64_STANDARD, Engine};
use hook_client::shim;
use host::file::{ignore_not_found, read_regular_text, write_atomic_unsynced};
use state::terms::activity::Activity;
use state::terms::process_result::{ProcessResult, StreamOutput};
use state::unit::hook_context::{Level, ReportContent};
use state::unit::local::Run;
use state::unit::middle_cut::shortened;
use state::unit::outcome::RunExit;
use state::unit::record::{REPORTS_MAX, RunReport};
use state::unit::secret_mask::SecretMask;
use std::fs;
use std::path::Path;

/// The number of last lines of a hook's output in its record: half of the reports that a record may hold.
const OUTPUT_LINES_MAX: usize = 30;
const _: () = assert!(OUTPUT_LINES_MAX == REPORTS_MAX / 2);
/// The bytes of the mark of what is left out of a stream, rounded up.
const MARK_BYTES: usize = 64;

/// The digits of a number of bytes.
const NUMBER_BYTES_MAX: u64 = 20;

/// The exit code of an action's program and its output, byte for byte (spec/hook-tools.md 2.7); none if the program has
/// no exit code. The two streams have `bytes_max` as JSON together: half of it each, and what the other one does not need.
pub(super) fn process_result(run_folder: &Path, exit: &RunExit, bytes_max: usize) -> Option<ProcessResult> {
    let RunExit::Code(exit_code) = *exit else { return None };
    let [stdout, stderr] = [(shim::STDOUT, shim::STDOUT_LEFT_OUT), (shim::STDERR, shim::STDERR_LEFT_OUT)]
        .map(|(stream, left_out)| Printed {
            bytes: read_output(&run_folder.join(stream)),
            left_out: left_out_bytes(&run_folder.join(left_out)),
        });
    let half_of_stderr = stderr.output(bytes_max / 2);
    let stdout = stdout.output(bytes_max - json_bytes(&half_of_stderr));
    let stderr = stderr.output(bytes_max.saturating_sub(json_bytes(&stdout)).max(bytes_max / 2));
    Some(ProcessResult { exit_code, stdout, stderr })
}

fn json_bytes(output: &Option<StreamOutput>) -> usize {
    output.as_ref().map_or(0, |output| serde_json::to_vec(output).map_or(0, |json| json.len()))
}

/// The unmodified output of the commands of a run, with a mark where the shim has left out a part of it: stdout and stderr.
pub(crate) fn unmodified_output(run_folder: &Path) -> [Vec<u8>; 2] {
    [(shim::STDOUT, shim::STDOUT_LEFT_OUT), (shim::STDERR, shim::STDERR_LEFT_OUT)].map(
        |(stream, left_out)| {
            let mut printed = read_output(&run_folder.join(stream));
            printed.truncate(shim::STREAM_BYTES_MAX);
            let left_out = left_out_bytes(&run_folder.join(left_out));
            if left_out > 0 {
                let at = shim::STREAM_BEGINNING_BYTES_MAX.min(printed.len());
                printed.splice(at..at, format!("\n{}\n", omitted_bytes(left_out)).into_bytes());
            }
            printed
        },
    )
}

/// How much the shim has left out of a stream.
fn left_out_bytes(file: &Path) -> usize {
    read_regular_text(file, NUMBER_BYTES_MAX).ok().and_then(|bytes| bytes.parse().ok()).unwrap_or_default()
}

/// What a program has printed to a stream.
struct Printed {
    bytes: Vec<u8>,
    /// The bytes of the middle that were not stored.
    left_out: usize,
}

impl Printed {
    /// The output, of at most `bytes_max` as JSON: without the middle if it is longer; none if it is empty.
    fn output(&self, bytes_max: usize) -> Option<StreamOutput> {
        if self.bytes.is_empty() {
            return None;
        }
        let mark = |bytes| omitted_bytes(bytes + self.left_out);
        let mut kept_max = bytes_max.min(self.bytes.len());
        loop {
            let kept = shortened(&self.bytes, kept_max, mark).unwrap_or_else(|| self.bytes.clone());
            let output = Some(match String::from_utf8(kept) {
                Ok(text) => StreamOutput::Text(text),
                Err(error) => StreamOutput::Base64(BASE64_STANDARD.encode(error.as_bytes())),
            });
            // characters are escaped in JSON, and base64 is longer than the bytes: the cut is larger then
            let bytes = json_bytes(&output);
            if bytes <= bytes_max || kept_max <= MARK_BYTES {
                return output;
            }
            kept_max = (kept_max * bytes_max / bytes).saturating_sub(MARK_BYTES);
        }
    }
}

/// The output of a hook that has ended, in which the contents of secrets are masked. If it contains any, the file is written
/// anew, or deleted if that fails.
pub(super) fn masked_output(run_folder: &Path, secrets: &SecretMask) -> String {
    let path = run_folder.join(shim::OUTPUT);
    let printed = String::from_utf8_lossy(&read_output(&path)).into_owned();
    let Some(masked) = secrets.masked(&printed) else { return printed };
    if let Err(error) = write_atomic_unsynced(&path, masked.as_bytes()) {
        tracing::error!("cannot mask the contents of secrets in {}: {error}", path.display());
        delete_output(&path);
    }
    masked
}

/// Deletes the output of a hook in which the contents of secrets cannot be masked. Returns a line that states this.
pub(super) fn omitted_output(run_folder: &Path) -> String {
    delete_output(&run_folder.join(shim::OUTPUT));
    let mut entry = [0; shim::ENTRY_BYTES_MAX];
    String::from_utf8_lossy(shim::encode_entry(shim::STDERR, OMITTED_OUTPUT.as_bytes(), &mut entry))
        .into_owned()
}

pub(super) fn delete_output(path: &Path) {
    if let Err(error) = ignore_not_found(fs::remove_file(path)) {
        tracing::error!("cannot delete {}, which contains secrets: {error}", path.display());
    }
}

/// The output of the charm as log lines: stderr as warnings, stdout with the level DEBUG if the model stores it
/// (spec/hook-tools.md 5.6). Beyond [`OUTPUT_LINES_MAX`] the oldest lines are left out, those of stdout first.
pub(super) fn output_lines(text: &str, run: &Run, last_report: u32, lowest: Level) -> Vec<RunReport> {
    let activity = Activity::from(&run.operation);
    let decode = |entry| match shim::decode_entry(shim::STDERR, entry) {
        Some(line) => Some((Level::Warning, line)),
        None => shim::decode_entry(shim::STDOUT, entry)
            .filter(|_| lowest <= Level::Debug)
            .map(|line| (Level::Debug, line)),
    };
    let mut lines: Vec<(Level, &str)> = text.lines().filter_map(decode).collect();
    let left_out = lines.len().saturating_sub(OUTPUT_LINES_MAX);
    let mut excess = left_out;
    for level in [Level::Debug, Level::Warning] {
        lines.retain(|line| {
            let is_left_out = excess > 0 && line.0 == level;
            excess -= usize::from(is_left_out);
            !is_left_out
        });
    }
    let more = (left_out > 0).then(|| (Level::Warning, omitted_lines(left_out, run.number)));
    let line = |((level, text), number): ((Level, String), u32)| RunReport {
        number,
        at_ms: crate::clock::wall_ms(),
        what: ReportContent::Output { run: activity.clone(), level, text }.shortened(omitted_bytes),
    };
    let lines = lines.into_iter().map(|(level, text)| (level, text.to_owned()));
    more.into_iter().chain(lines).zip(last_report + 1..).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::terms::operation::{Hook, Operation};
    use state::terms::start_reason::StartReason;

    fn lines(text: &str, lowest: Level) -> Vec<(Level, String)> {
        let run = Run::new(1, Operation::Hook(Hook::Install), StartReason::CharmInstalled);
        let shown = |report: RunReport| match report.what {
            ReportContent::Output { level, text, .. } => (level, text),
            other => panic!("{other:?}"),
        };
        output_lines(text, &run, 0, lowest).into_iter().map(shown).collect()
    }

    #[test]
    fn stdout_is_logged_if_the_model_stores_the_level_debug() {
        let text = "stdout: one\nstderr: two\nstdout: three\n";
        let line = |level, text: &str| (level, text.to_owned());
        let two = line(Level::Warning, "two");
        assert_eq!(lines(text, Level::Info), std::slice::from_ref(&two));
        let all = [line(Level::Debug, "one"), two, line(Level::Debug, "three")];
        assert_eq!(lines(text, Level::Debug), all);
        assert_eq!(lines(text, Level::Trace), all);
    }

    #[test]
    fn stdout_displaces_no_line_of_stderr() {
        let text = format!("stderr: first\n{}", "stdout: x\n".repeat(OUTPUT_LINES_MAX));
        let lines = lines(&text, Level::Debug);
        assert_eq!(lines.len(), OUTPUT_LINES_MAX + 1, "one is the number of those that are left out");
        assert_eq!(lines[1], (Level::Warning, "first".to_owned()));
    }

    #[test]
    fn the_result_of_an_action_has_the_beginning_and_the_end_of_its_output() {
        const MAX: usize = 100_000;
        let printed = |bytes: usize| [b"HEAD".to_vec(), vec![b'x'; bytes], b"TAIL\n".to_vec()].concat();
        let text = |bytes, left_out| match (Printed { bytes, left_out }).output(MAX) {
            Some(StreamOutput::Text(text)) => text,
            other => panic!("{other:?}"),
        };
        let long = text(printed(3_000_000), 0);
        assert!(long.starts_with("HEADx") && long.ends_with("xTAIL\n"), "{} bytes", long.len());
        assert!(long.len() > MAX - 500 && long.len() < MAX, "{} bytes", long.len());
        assert_eq!(text(printed(10), 0), "HEADxxxxxxxxxxTAIL\n");
        let endless = text(printed(3_000_000), 7_000_000);
        let omitted = 3_000_009 + 7_000_000 - (endless.len() - omitted_bytes(9_000_000).len());
        assert!(endless.contains(&omitted_bytes(omitted)), "{omitted}");
        assert_eq!((Printed { bytes: Vec::new(), left_out: 0 }).output(MAX), None);
    }

    /// A record of more bytes than a transaction holds would never be accepted.
    #[test]
    fn the_output_of_an_action_is_bounded_as_it_is_stored() {
        const MAX: usize = 300_000;
        let run = tempfile::tempdir().expect("a folder");
        let result = |stdout: &[u8], stderr: &[u8]| {
            fs::write(run.path().join(shim::STDOUT), stdout).expect("written");
            fs::write(run.path().join(shim::STDERR), stderr).expect("written");
            let result = process_result(run.path(), &RunExit::Code(0), MAX).expect("it has an exit code");
            let bytes = [json_bytes(&result.stdout), json_bytes(&result.stderr)];
            assert!(bytes.iter().sum::<usize>() <= MAX, "{bytes:?}");
            bytes
        };
        let (text, control, binary) = (vec![b'x'; 1 << 20], vec![1; 1 << 20], vec![0xff; 1 << 20]);
        for long in [&text, &control, &binary] {
            assert!(result(long, b"").iter().sum::<usize>() > MAX * 9 / 10, "one stream uses all");
            assert!(result(b"", long).iter().sum::<usize>() > MAX * 9 / 10, "the other, too");
            for other in [&text, &control, &binary] {
                let both = result(long, other);
                assert!(both.iter().all(|bytes| *bytes > MAX * 2 / 5), "half of it each: {both:?}");
            }
        }
    }
}
