//! The text of the errors with which a store refuses to open.

use controller::store::etcd;
use controller::store::outage::Outage;
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
        OpenError::CopiedIntoPlace { .. } => OpenError::Shared { file, names: 2 },
        OpenError::Shared { .. } => OpenError::Failed { folder, why: "it is no database".to_owned() },
        OpenError::Failed { .. } => {
            OpenError::InEtcd { file, record: "/data/controller/store/etcd.yaml".into() }
        }
        OpenError::InEtcd { .. } => return None,
    })
}

#[test]
fn each_error_of_opening_a_store_renders_as_in_the_golden_file() {
    let first = OpenError::InUse { folder: "/data/controller".into(), holder: "process 7".to_owned() };
    let errors = std::iter::successors(Some(first), next);
    compare("store_errors.txt", &errors.map(|error| format!("{error}\n")).collect::<String>());
}

/// Like [`next`], for a store in etcd.
fn next_of_etcd(error: &etcd::OpenError) -> Option<etcd::OpenError> {
    use etcd::OpenError;
    let (address, prefix) = ("etcd://10.0.0.1:2379".to_owned(), "/pintle/".to_owned());
    Some(match error {
        OpenError::Invalid { .. } => OpenError::NotEncrypted { address, host: "10.0.0.1:2379".to_owned() },
        OpenError::NotEncrypted { .. } => {
            OpenError::Outage(Outage::Unreachable("10.0.0.1:2379: connection refused".to_owned()))
        }
        OpenError::Outage(outage) => match next_outage(outage) {
            Some(outage) => OpenError::Outage(outage),
            None => OpenError::TooOld { found: "3.3.10".to_owned() },
        },
        OpenError::TooOld { .. } => OpenError::LimitTooLow {
            why: "too many operations given in txn request".to_owned(),
            flag: "--max-txn-ops=2048",
        },
        OpenError::LimitTooLow { .. } => {
            OpenError::PrefixInUse { prefix, holder: "another program".to_owned() }
        }
        OpenError::PrefixInUse { .. } => OpenError::NotInUse { prefix },
        OpenError::NotInUse { .. } => OpenError::OtherVersion { prefix, found: 2 },
        OpenError::OtherVersion { .. } => {
            OpenError::NotTheStore { why: "the prefix /pintle/ of etcd is empty".to_owned() }
        }
        OpenError::NotTheStore { .. } => OpenError::ChangedByOther,
        OpenError::ChangedByOther => return None,
    })
}

fn next_outage(outage: &Outage) -> Option<Outage> {
    Some(match outage {
        Outage::Unreachable(_) => Outage::NoAnswer("no answer within 5 s".to_owned()),
        Outage::NoAnswer(_) => Outage::QuotaExceeded,
        Outage::QuotaExceeded => Outage::Behind { reached: 7, newest: 9 },
        Outage::Behind { .. } => Outage::PermissionDenied("permission denied".to_owned()),
        Outage::PermissionDenied(_) => {
            Outage::TooLarge("too many operations given in txn request".to_owned())
        }
        Outage::TooLarge(_) => Outage::StoreDeleted("/pintle/".to_owned()),
        Outage::StoreDeleted(_) => Outage::Refused("mvcc: required revision has been compacted".to_owned()),
        Outage::Refused(_) => return None,
    })
}

#[test]
fn each_error_of_opening_a_store_in_etcd_renders_as_in_the_golden_file() {
    let why = "expected etcd://HOST[:PORT],HOST[:PORT],...".to_owned();
    let first = etcd::OpenError::Invalid { address: "http://10.0.0.1".to_owned(), why };
    let errors = std::iter::successors(Some(first), next_of_etcd);
    compare("etcd_errors.txt", &errors.map(|error| format!("{error}\n")).collect::<String>());
}
