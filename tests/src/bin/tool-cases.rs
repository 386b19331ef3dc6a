//! `cargo tool-cases FILE...`: runs files of hook-tool cases; exit code 1 if any case failed.

use std::process::ExitCode;

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        eprintln!("usage: cargo tool-cases FILE...");
        return ExitCode::from(2);
    }
    match run(&files) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ERROR {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns how many cases failed.
fn run(files: &[String]) -> Result<usize, String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (mut passed, mut failed) = (0, 0);
    for file in files {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        let report =
            tests::tool_cases::run(&text, directory.path()).map_err(|error| format!("{file}: {error}"))?;
        for line in &report.lines {
            println!("{line}");
        }
        passed += report.passed;
        failed += report.failed;
    }
    println!("passed {passed}, failed {failed}");
    Ok(failed)
}
