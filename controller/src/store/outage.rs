//! Why a store on other hosts cannot execute a request.
//!
//! Most outages end by themselves or when an operator mends etcd: the same request succeeds afterwards. The exceptions are
//! a request that is too large and a store that was deleted. It is a type, so that the status of the controller, the log
//! and the errors of requests report the same fact. Engines return it; the embedded engine has none.

/// An outage of the store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Outage {
    /// No connection to any member. It has the reason for each of them: a wrong address, a certificate of another CA or
    /// one that has expired, a member that does not run.
    #[error("no member of etcd can be reached: {0}")]
    Unreachable(String),
    /// A member is connected and does not answer in time or has failed, for example because the majority is lost.
    #[error("etcd does not answer: {0}")]
    NoAnswer(String),
    /// The quota of etcd's database is used up. Reads still work.
    #[error("the space quota of etcd is used up")]
    QuotaExceeded,
    /// The watch has not yet delivered a commit that etcd has reported.
    #[error("the watch of etcd is behind: it has revision {reached}, and etcd has {newest}")]
    Behind {
        /// The revision of the mirror.
        reached: u64,
        /// The newest commit.
        newest: u64,
    },
    /// etcd does not accept the client certificate, or does not let its user read or write the keys of the store.
    #[error("etcd has refused the request: {0}")]
    PermissionDenied(String),
    /// A request exceeds a limit of etcd, although the limits were sufficient when the store was opened.
    #[error("etcd does not accept the size of the request: {0}")]
    TooLarge(String),
    /// The documents below this prefix were deleted.
    #[error("the store below {0} was deleted")]
    StoreDeleted(String),
    /// etcd has refused a request for another reason, for example because the revision to read was compacted.
    #[error("etcd has refused the request: {0}")]
    Refused(String),
}

impl Outage {
    /// What an operator can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Outage::Unreachable(_) => "check the addresses and certificates of --store, and that etcd runs",
            Outage::NoAnswer(_) => "check that a majority of etcd's members runs: etcdctl endpoint status",
            Outage::QuotaExceeded => {
                "compact and defragment etcd, then: etcdctl alarm disarm (or raise --quota-backend-bytes)"
            }
            Outage::Behind { .. } => {
                "try again; if it persists, check the load of etcd and of the controller"
            }
            Outage::PermissionDenied(_) => "check the permissions of the client certificate in etcd",
            Outage::TooLarge(_) => "start etcd with --max-txn-ops=2048 and --max-request-bytes=1572864",
            Outage::StoreDeleted(_) => "stop the controllers, and restore etcd from a backup",
            Outage::Refused(_) => "check the log of etcd's members",
        }
    }
}
