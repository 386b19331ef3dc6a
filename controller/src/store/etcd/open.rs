//! Opens a store in etcd: verifies the server and the prefix before anything is written.
//!
//! A prefix that has keys of another program, of another Pintle or of another version is refused, and so is an etcd that
//! is not the one that the data folder records: one that lost the store, has an older copy of it, or was restored from a
//! snapshot. Such a store is never treated as new (design 8). A server that is too old, or that accepts smaller
//! transactions than the controller makes, is refused with the flag that it needs.

use super::client::{CallError, Client, Tls};
use super::commit::largest_request;
use super::feed;
use super::health::Health;
use super::layout::{
    self, Layout, Migration, StoreRecord, VERSION, get_operation, put, range_written_until, written_at,
};
use super::messages::{KeyValue, Operation, RangeRequest, RequestOp, TxnRequest};
use super::mirror::{LogBounds, Mirror};
use super::newest_reads::NewestReads;
use super::shared::Core;
use super::statements;
use crate::disk_threads::DiskThreads;
use crate::store::outage::Outage;
use crate::store::{CHANGES_BYTES_MAX, CHANGES_KEPT};
use api::text::fault::not_started;
use serde::Deserialize;
use state::documents::draft::{READS_MAX, Revision};
use state::terms::names::Uuid;
use std::sync::Arc;
use tokio::sync::watch;

/// etcd's port for clients.
const DEFAULT_PORT: u16 = 2379;
/// The oldest version whose watch can split the events of one revision into several messages.
const VERSION_MIN: (u32, u32) = (3, 4);
/// The comparisons that etcd must accept in one transaction: [`READS_MAX`] and those of the engine, rounded up to the
/// documented value of `--max-txn-ops`.
const TXN_OPS: usize = 2_048;
const _: () = assert!(READS_MAX + 3 <= TXN_OPS);
/// The longest prefix. The keys of one transaction repeat it 2,600 times at most, which is 260 KB beside 1.25 MiB of
/// documents.
const PREFIX_MAX: usize = 100;
/// Attempts to create the store, while other controllers do the same.
const CREATE_ATTEMPTS: usize = 5;
/// The most fences; the oldest ones are deleted. A handle that still exists writes its own again.
const FENCES_MAX: usize = 64;

/// What the data folder records about its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedStore {
    /// The id of the cluster, in hexadecimal.
    pub cluster: String,
    /// The store generation.
    pub store_generation: Uuid,
    /// A revision that was reached.
    pub revision: Revision,
    /// The name of the newest handle of the data folder, whose process has ended; none if there was none.
    pub handle: Option<String>,
}

/// The options for opening a store.
#[derive(Clone)]
pub struct Options {
    /// The members, as `HOST:PORT` ([`parse_address`]).
    pub addresses: Vec<String>,
    /// The certificates; none for connections without TLS, which only a loopback address may have.
    pub tls: Option<Tls>,
    /// The prefix of all keys.
    pub prefix: String,
    /// The uuid of the controller's installation, to which the prefix belongs.
    pub installation: Uuid,
    /// The store generation to use if the store is new or was restored: a random uuid.
    pub new_generation: Uuid,
    /// The operator states that etcd was restored from a backup, or starts empty: a new generation starts.
    pub restored: bool,
    /// What the data folder records; none if it has used no etcd yet.
    pub recorded: Option<RecordedStore>,
    /// The name of this handle: random, and new for each process.
    pub handle: Uuid,
    /// The number of commits in the change log, at least 1.
    pub changes_kept: u64,
    /// The number of bytes in the change log; at least the newest commit is kept.
    pub changes_bytes_max: u64,
}

impl Options {
    /// The default options.
    pub fn new(addresses: Vec<String>, installation: Uuid, new_generation: Uuid, handle: Uuid) -> Options {
        Options {
            addresses,
            tls: None,
            prefix: "/pintle".to_owned(),
            installation,
            new_generation,
            restored: false,
            recorded: None,
            handle,
            changes_kept: CHANGES_KEPT,
            changes_bytes_max: CHANGES_BYTES_MAX,
        }
    }
}

/// Why a store was not opened. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The address, or a certificate, cannot be used.
    #[error("cannot use the store {address}: {why}")]
    Invalid { address: String, why: String },
    /// A host that is not this one, without TLS.
    #[error(
        "cannot use the store {address}: {host} is not this host, and connections to it must use TLS\n\
         hint: name the CA of etcd with --store-ca"
    )]
    NotEncrypted { address: String, host: String },
    /// etcd cannot be used at the moment.
    #[error("cannot open the store: {0}\nhint: {hint}", hint = .0.hint())]
    Outage(Outage),
    /// The version of etcd is not supported.
    #[error("cannot open the store: etcd {found} is too old; it must be 3.4 or newer")]
    TooOld { found: String },
    /// etcd accepts smaller transactions than the controller makes.
    #[error(
        "cannot open the store: etcd does not accept its transactions ({why})\nhint: start etcd with {flag}"
    )]
    LimitTooLow { why: String, flag: &'static str },
    /// The keys below the prefix are not those of this controller's store.
    #[error(
        "cannot open the store: the prefix {prefix} of etcd is in use by {holder}\n\
         hint: choose another prefix with --store-prefix"
    )]
    PrefixInUse { prefix: String, holder: String },
    /// A migration copies documents below the prefix, or has moved the system elsewhere.
    #[error(
        "cannot open the store: the prefix {prefix} of etcd has a copy of a migration, which is not in use\n\
         hint: to move the models of a data folder here: pintle-controller migrate"
    )]
    NotInUse { prefix: String },
    /// The store was written by another version of the controller.
    #[error(
        "cannot open the store: the version of the prefix {prefix} is {found}, and this controller uses version {VERSION}\n\
         hint: run the controller of the version that wrote it"
    )]
    OtherVersion { prefix: String, found: u32 },
    /// Another controller, or another migration, has changed the keys since they were read.
    #[error("another process has changed the keys below the prefix\nhint: stop the other controllers first")]
    ChangedByOther,
    /// etcd does not have the store that the data folder records.
    #[error(
        "cannot open the store: {why}\n\
         hint: use the etcd that has the store; or start a new store generation from this one with --restored"
    )]
    NotTheStore { why: String },
}

impl OpenError {
    /// Whether the store stays closed until an operator acts.
    pub fn needs_operator(&self) -> bool {
        !matches!(self, OpenError::Outage(_))
    }
}

impl From<CallError> for OpenError {
    fn from(error: CallError) -> OpenError {
        OpenError::Outage(error.outage())
    }
}

/// Parses `etcd://HOST[:PORT],HOST[:PORT],...`. Returns the members as `HOST:PORT`.
///
/// # Errors
/// If it is no such address.
pub fn parse_address(address: &str) -> Result<Vec<String>, OpenError> {
    let invalid = |why: String| OpenError::Invalid { address: address.to_owned(), why };
    let form = "expected etcd://HOST[:PORT],HOST[:PORT],...";
    let hosts = address.strip_prefix("etcd://").ok_or_else(|| invalid(form.to_owned()))?;
    let member = |host: &str| {
        // An IPv6 address is in brackets; only what follows them is a port.
        let end_of_name = host.rfind(']').map_or(0, |bracket| bracket + 1);
        let (name, port) = match host[end_of_name..].rfind(':') {
            Some(colon) => (&host[..end_of_name + colon], host[end_of_name + colon + 1..].parse().ok()),
            None => (host, Some(DEFAULT_PORT)),
        };
        let is_name = !name.is_empty() && !name.contains(['/', '@', '?', '#', ' ', ',']);
        let port = port.filter(|port| *port > 0 && is_name);
        port.map(|port: u16| format!("{name}:{port}")).ok_or_else(|| invalid(format!("{host:?}: {form}")))
    };
    hosts.split(',').map(member).collect()
}

/// Whether keys can begin with a prefix.
fn is_prefix(prefix: &str) -> bool {
    prefix.len() <= PREFIX_MAX
        && !prefix.trim_matches('/').is_empty()
        && prefix.bytes().all(|b| b.is_ascii_graphic())
}

/// Whether a member's connections leave this host.
fn is_remote(member: &str) -> bool {
    let name = member.rsplit_once(':').map_or(member, |(name, _)| name);
    let address = name.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    name != "localhost" && !address.is_ok_and(|address| address.is_loopback())
}

/// What is below a prefix.
pub(super) struct Found {
    pub cluster: u64,
    pub record: Option<(StoreRecord, Revision)>,
    pub newest: Revision,
}

/// Returns a client and the keys, after it has verified that etcd can be used.
pub(super) async fn connect(options: &Options) -> Result<(Client, Layout), OpenError> {
    let address = format!("etcd://{}", options.addresses.join(","));
    if options.tls.is_none()
        && let Some(member) = options.addresses.iter().find(|member| is_remote(member))
    {
        return Err(OpenError::NotEncrypted { address, host: member.clone() });
    }
    if !is_prefix(&options.prefix) {
        let why =
            format!("invalid prefix {:?}: expected 1 to {PREFIX_MAX} printable characters", options.prefix);
        return Err(OpenError::Invalid { address, why });
    }
    let invalid = |why: String| OpenError::Invalid { address: address.clone(), why };
    let client = Client::new(&options.addresses, options.tls.as_ref()).map_err(invalid)?;
    require_version(&client).await?;
    let layout = Layout::new(&options.prefix);
    require_limits(&client, &layout).await?;
    Ok((client, layout))
}

/// Opens the store below a prefix; creates it if there is none. Its mirror has a first list of all documents.
pub(super) async fn open(options: Options) -> Result<Arc<Core>, OpenError> {
    let readers = DiskThreads::start().map_err(|error| OpenError::Invalid {
        address: format!("etcd://{}", options.addresses.join(",")),
        why: format!("cannot start a thread: {}", not_started(&error)),
    })?;
    let (client, layout) = connect(&options).await?;
    let found = find_or_create(&client, &layout, &options).await?;
    let Some((record, store_revision)) = found.record else {
        return Err(OpenError::Outage(Outage::Refused("the store cannot be created".to_owned())));
    };
    let handle = options.handle.to_string();
    let bounds = LogBounds { changes: options.changes_kept.max(1), bytes: options.changes_bytes_max };
    let health = Arc::new(Health::default());
    let core = Arc::new(Core {
        newest_reads: NewestReads::new(client.clone(), layout.clone(), health.clone()),
        mirror: std::sync::Mutex::new(Mirror::new(layout.clone(), handle.clone(), bounds)),
        watcher: client.separate(),
        client,
        layout,
        handle,
        store_generation: record.store_generation,
        store_revision,
        cluster: found.cluster,
        newest: watch::Sender::new(0),
        reached: watch::Sender::new(0),
        broken: watch::Sender::new(None),
        stale_watch: Default::default(),
        health,
        transactions: Default::default(),
        fence: Default::default(),
        lease: Default::default(),
        too_large: Default::default(),
        raising: Default::default(),
        retry_lock: Default::default(),
        readers,
    });
    write_first_fence(&core).await?;
    if let Some(handle) = options.recorded.and_then(|recorded| recorded.handle) {
        statements::end_handle(&core, &handle).await?;
    }
    delete_old_fences(&core).await?;
    feed::list(&core).await?;
    Ok(core)
}

async fn require_version(client: &Client) -> Result<(), OpenError> {
    let found = client.status().await?.version;
    let mut numbers = found.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    match (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < VERSION_MIN {
        true => Err(OpenError::TooOld { found }),
        false => Ok(()),
    }
}

/// Sends a transaction of the largest size, whose comparisons never hold. There is no request for the limits of etcd.
async fn require_limits(client: &Client, layout: &Layout) -> Result<(), OpenError> {
    match client.idempotent_txn(largest_request(layout, TXN_OPS)).await {
        Ok(_) => Ok(()),
        Err(CallError::TooLarge(why)) => {
            let flag = match why.contains("too many operations") {
                true => "--max-txn-ops=2048",
                false => "--max-request-bytes=1572864",
            };
            Err(OpenError::LimitTooLow { why, flag })
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads what is below the prefix.
pub(super) async fn find(client: &Client, layout: &Layout) -> Result<Found, OpenError> {
    let (key, range_end) = layout.all();
    let any = RangeRequest { key, range_end, limit: 1, ..RangeRequest::default() };
    let any = RequestOp { operation: Some(Operation::Range(any)) };
    let success = vec![get_operation(layout.store()), get_operation(layout.newest()), any];
    let request = TxnRequest { compare: Vec::new(), success, failure: Vec::new() };
    let response = client.idempotent_txn(request).await?;
    let first =
        |index: usize| -> Option<&KeyValue> { response.responses.get(index)?.range.as_ref()?.kvs.first() };
    let in_use = |holder: &str| OpenError::PrefixInUse {
        prefix: layout.prefix().to_owned(),
        holder: holder.to_owned(),
    };
    let record = match first(0) {
        Some(kv) => {
            // Of a store of another version, only the version can be read.
            #[derive(Deserialize)]
            struct OfAnyVersion {
                version: u32,
            }
            let version = serde_json::from_slice::<OfAnyVersion>(&kv.value);
            let version = version.map_err(|_| in_use("another program"))?.version;
            if version != VERSION {
                let prefix = layout.prefix().to_owned();
                return Err(OpenError::OtherVersion { prefix, found: version });
            }
            let record = serde_json::from_slice(&kv.value).map_err(|_| in_use("another program"))?;
            Some((record, kv.mod_revision.unsigned_abs()))
        }
        None if first(2).is_some() => return Err(in_use("another program")),
        None => None,
    };
    let newest = first(1).map_or(0, |kv| kv.mod_revision.unsigned_abs());
    Ok(Found { cluster: response.header.unwrap_or_default().cluster_id, record, newest })
}

/// Finds the store of this installation; creates it, or starts a new store generation, if that is what the options state.
async fn find_or_create(client: &Client, layout: &Layout, options: &Options) -> Result<Found, OpenError> {
    let mut is_created = false;
    for _ in 0..CREATE_ATTEMPTS {
        let found = find(client, layout).await?;
        let mut new = StoreRecord {
            version: VERSION,
            installation: options.installation,
            store_generation: options.new_generation,
            replaced: options.recorded.as_ref().map(|recorded| recorded.store_generation),
            migration: None,
        };
        let precondition = match &found.record {
            Some((record, revision)) => {
                require_own(layout, record, options.installation)?;
                let is_migrated = record.migration.is_some();
                if is_migrated && !may_open(record, options) {
                    return Err(OpenError::NotInUse { prefix: layout.prefix().to_owned() });
                }
                if !options.restored || is_created {
                    why_other(&found, record, options)
                        .map_or(Ok(()), |why| Err(OpenError::NotTheStore { why }))?;
                    if !is_migrated {
                        return Ok(found);
                    }
                    new = StoreRecord { migration: None, ..record.clone() };
                }
                written_at(layout.store(), *revision)
            }
            None => {
                if options.recorded.is_some() && !options.restored {
                    let why = format!("the prefix {} of etcd is empty", layout.prefix());
                    return Err(OpenError::NotTheStore { why });
                }
                let (first, end) = layout.all();
                range_written_until(first, end, 0)
            }
        };
        let text = serde_json::to_string(&new).expect("a record is plain data");
        let request = TxnRequest {
            compare: vec![precondition],
            success: vec![put(layout.store(), &text), put(layout.newest(), "")],
            failure: Vec::new(),
        };
        match client.txn(request).await {
            Ok(response) => is_created = response.succeeded,
            // If the response was lost, the next round finds what was written.
            Err(CallError::Unknown(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    find(client, layout).await
}

/// Refuses the store of another Pintle.
pub(super) fn require_own(
    layout: &Layout,
    record: &StoreRecord,
    installation: Uuid,
) -> Result<(), OpenError> {
    if record.installation == installation {
        return Ok(());
    }
    let holder = format!("another Pintle (controller {})", record.installation);
    Err(OpenError::PrefixInUse { prefix: layout.prefix().to_owned(), holder })
}

/// Whether a store that a migration has written or left may be opened: by the data folder that records it, and after it was
/// left only if the operator states that it continues.
fn may_open(record: &StoreRecord, options: &Options) -> bool {
    let recorded = options.recorded.as_ref().map(|recorded| recorded.store_generation);
    match record.migration {
        Some(Migration::Candidate) => recorded == Some(record.store_generation),
        Some(Migration::Left) => options.restored && recorded == Some(record.store_generation),
        None => true,
    }
}

/// Returns why a store is not the one that the data folder records.
fn why_other(found: &Found, record: &StoreRecord, options: &Options) -> Option<String> {
    let recorded = options.recorded.as_ref()?;
    let is_replaced_now = record.store_generation == options.new_generation;
    let generation = record.store_generation;
    if is_replaced_now || record.replaced == Some(recorded.store_generation) {
        // A process that was started with `--restored` ended before it recorded the new generation.
        return None;
    }
    if generation != recorded.store_generation {
        let expected = recorded.store_generation;
        return Some(format!("etcd has store generation {generation}, but {expected} is recorded"));
    }
    let cluster = format!("{:x}", found.cluster);
    if cluster != recorded.cluster {
        let expected = &recorded.cluster;
        return Some(format!(
            "etcd is cluster {cluster}, but cluster {expected} is recorded: it was restored from a backup"
        ));
    }
    (found.newest < recorded.revision).then(|| {
        let (newest, reached) = (found.newest, recorded.revision);
        format!("etcd has an older copy: it has revision {newest}, but revision {reached} was reached")
    })
}

/// Writes the first fence of a handle.
async fn write_first_fence(core: &Core) -> Result<(), OpenError> {
    let request = TxnRequest {
        compare: vec![written_at(core.layout.store(), core.store_revision)],
        success: vec![put(core.layout.fence(&core.handle), &core.handle)],
        failure: Vec::new(),
    };
    let response = core.client.idempotent_txn(request).await?;
    if !response.succeeded {
        return Err(OpenError::NotTheStore { why: core.other_generation().to_string() });
    }
    let revision = response.header.unwrap_or_default().revision.unsigned_abs();
    *core.fence.lock().expect("no holder panics") = revision;
    Ok(())
}

/// Deletes the oldest fences beyond the bound.
async fn delete_old_fences(core: &Core) -> Result<(), OpenError> {
    let (key, range_end) = core.layout.fences();
    let request = RangeRequest { key, range_end, ..RangeRequest::default() };
    let mut fences = core.client.range(request).await?.kvs;
    fences.sort_by_key(|fence| std::cmp::Reverse(fence.mod_revision));
    let old: Vec<RequestOp> = fences.into_iter().skip(FENCES_MAX).map(|kv| layout::delete(kv.key)).collect();
    if old.is_empty() {
        return Ok(());
    }
    core.client.idempotent_txn(TxnRequest { success: old, ..TxnRequest::default() }).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_members_and_a_wrong_one_is_refused() {
        let members = parse_address("etcd://a,b:1,[::1]:2,10.0.0.1,[::1]").expect("valid");
        assert_eq!(members, ["a:2379", "b:1", "[::1]:2", "10.0.0.1:2379", "[::1]:2379"]);
        for wrong in
            ["a:1", "http://a", "etcd://", "etcd://a,", "etcd://a:x", "etcd://a:0", "etcd://a/b", "etcd://:1"]
        {
            assert!(matches!(parse_address(wrong), Err(OpenError::Invalid { .. })), "{wrong}");
        }
    }

    #[test]
    fn only_connections_within_this_host_need_no_tls() {
        for local in ["localhost:1", "127.0.0.1:1", "127.1.2.3:1", "[::1]:1"] {
            assert!(!is_remote(local), "{local}");
        }
        for remote in ["a:1", "10.0.0.1:1", "localhost.example:1", "[fe80::1]:1"] {
            assert!(is_remote(remote), "{remote}");
        }
    }
}
