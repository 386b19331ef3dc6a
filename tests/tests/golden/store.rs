//! The text of the errors with which a store refuses to open.

use controller::store::sqlite::OpenError;
use test_support::golden::compare;

/// Returns the example after `error`; none after the last. A new error must be named here to compile.
fn next(error: &OpenError) -> Option<OpenError> {
    let (folder, file) = ("/data/controller".into(), "/data/controller/store.sqlite".into());
    Some(match error {
        OpenError::InUse { .. } => OpenError::OtherVersion { file, found: 2 },
        OpenError::OtherVersion { .. } => OpenError::NotTheStore { file, why: "it is empty".to_owned() },
        OpenError::NotTheStore { .. } => OpenError::OlderCopy { file, found: 1, reached: 2 },
        OpenError::OlderCopy { .. } => OpenError::CopiedIntoPlace { file },
        OpenError::CopiedIntoPlace { .. } => {
            OpenError::Failed { folder, why: "it is no database".to_owned() }
        }
        OpenError::Failed { .. } => return None,
    })
}

#[test]
fn each_error_of_opening_a_store_renders_as_in_the_golden_file() {
    let first = OpenError::InUse { folder: "/data/controller".into(), holder: "process 7".to_owned() };
    let errors = std::iter::successors(Some(first), next);
    compare("store_errors.txt", &errors.map(|error| format!("{error}\n")).collect::<String>());
}
