//! What the engine does while etcd fails: a lost answer, a lost member, a lost majority, compaction, a full quota.

use super::super::fixture::{GENERATION, INSTALLATION};
use super::*;
use controller::store::outage::Outage;
use controller::store::unavailable::{self, Unavailable};
use state::documents::draft::Revision;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A proxy in front of one member, which can break connections at a chosen moment.
struct Proxy {
    address: String,
    cut: Arc<AtomicU8>,
}

/// All connections are passed on.
const PASS: u8 = 0;
/// The next request that is larger than a test of the connection is not passed on, and its connection ends.
const CUT_REQUEST: u8 = 1;
/// Such a request is passed on. The connection ends when etcd answers it.
const CUT_ANSWER: u8 = 2;
/// The answer is cut.
const CUTTING: u8 = 3;

/// A transaction has at least so many bytes; tests of the connection, acknowledgements and reads of the newest revision
/// have fewer.
const TRANSACTION_BYTES: usize = 300;

impl Proxy {
    async fn start(member: String) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let cut = Arc::new(AtomicU8::new(PASS));
        let (state, to) = (cut.clone(), member);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, to.clone(), state.clone()));
            }
        });
        Proxy { address, cut }
    }

    fn cut(&self, how: u8) {
        self.cut.store(how, Ordering::SeqCst);
    }

    fn has_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst) == PASS
    }
}

/// Passes on one connection until it ends or is cut.
async fn pass(mut client: TcpStream, member: String, cut: Arc<AtomicU8>) {
    let Ok(mut server) = TcpStream::connect(member).await else { return };
    let (mut request, mut answer) = ([0; 65536], [0; 65536]);
    let mut is_cutting = false; // the request came on this connection
    loop {
        tokio::select! {
            read = client.read(&mut request) => {
                let Ok(count @ 1..) = read else { return };
                if count >= TRANSACTION_BYTES {
                    if cut.compare_exchange(CUT_REQUEST, PASS, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                        return;
                    }
                    is_cutting |=
                        cut.compare_exchange(CUT_ANSWER, CUTTING, Ordering::SeqCst, Ordering::SeqCst).is_ok();
                }
                if server.write_all(&request[..count]).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut answer) => {
                let Ok(count @ 1..) = read else { return };
                // An acknowledgement of HTTP/2 has 17 or 26 bytes; the answer of a transaction has more.
                if is_cutting && count > 40 {
                    cut.store(PASS, Ordering::SeqCst);
                    return;
                }
                if client.write_all(&answer[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn increment(store: &impl Store) -> Result<Revision, RunError<()>> {
    let increment = |draft: &mut Draft<'_>| {
        let count = draft.get(&key("m/count")).unwrap_or(0) + 1;
        draft.put(&key("m/count"), &count);
        Ok::<_, ()>(count)
    };
    store.run(increment).await.map(|committed| committed.revision)
}

async fn count(store: &impl Store) -> u64 {
    let found = scan(store, "m/count").await;
    found.first().map_or(0, |stored| stored.value.parse().expect("a number"))
}

/// Whether the request or its answer is lost: the effect happens once, and the caller receives its own result.
#[tokio::test]
async fn a_lost_answer_neither_doubles_nor_loses_a_commit() {
    let cluster = EtcdCluster::shared();
    let proxy = Proxy::start(cluster.addresses()[0].clone()).await;
    let options = Options { addresses: vec![proxy.address.clone()], ..etcd_options(&cluster) };
    let store = another(&options).await;
    for n in 1..=20 {
        proxy.cut(if n % 2 == 0 { CUT_REQUEST } else { CUT_ANSWER });
        let revision = increment(&store).await.expect("it is decided");
        assert!(proxy.has_cut(), "the connection was cut");
        assert_eq!(scan(&store, "m/count").await, [stored("m/count", revision, n)]);
    }
}

#[tokio::test]
async fn a_member_that_is_killed_costs_no_commit() {
    let cluster = EtcdCluster::start(&["--max-txn-ops=2048"]);
    let options = etcd_options(&cluster);
    let store = another(&options).await;
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                for _ in 0..50 {
                    increment(&store).await.expect("two members are a majority");
                }
            })
        })
        .collect();
    for member in [0, 1] {
        store.wait_past(store.newest_revision() + 10).await;
        cluster.kill(member);
        store.wait_past(store.newest_revision() + 10).await;
        cluster.start_member(member);
        assert!(wait_for_member(&cluster, member), "it joins again");
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    assert_eq!(count(&store).await, 200);
    assert_eq!(count(&another(&options).await).await, 200);
}

/// Waits until a member serves requests.
fn wait_for_member(cluster: &EtcdCluster, member: usize) -> bool {
    let endpoint = format!("--endpoints={}", cluster.addresses()[member]);
    (0..100).any(|_| cluster.etcdctl(&[&endpoint, "endpoint", "health"]))
}

#[tokio::test]
async fn without_a_majority_requests_end_and_the_store_works_again_after_it() {
    let cluster = EtcdCluster::start(&["--max-txn-ops=2048"]);
    let store = another(&etcd_options(&cluster)).await;
    increment(&store).await.expect("it commits");
    cluster.kill(0);
    cluster.kill(1);
    let read = unavailable::catch(store.read(|reader| reader.revision())).await;
    assert!(matches!(read, Err(Unavailable::Outage(_))), "{read:?}");
    assert!(store.outage().is_some());
    let refused = store.run(|_| Err::<(), _>("no")).await;
    assert!(matches!(refused, Err(RunError::Failed(StoreError::Unavailable(_)))), "{refused:?}");
    // A commit that was sent has no known outcome: it is decided when the majority is back.
    let (committed, ()) = tokio::join!(increment(&store), async {
        tokio::task::yield_now().await;
        cluster.start_member(0);
    });
    committed.expect("it is decided");
    assert_eq!(count(&store).await, 2);
    assert_eq!(store.outage(), None);
}

#[tokio::test]
async fn a_compaction_costs_only_the_positions_that_were_missed() {
    let cluster = EtcdCluster::start(&["--max-txn-ops=2048"]);
    let proxy = Proxy::start(cluster.addresses()[0].clone()).await;
    let options = etcd_options(&cluster);
    let writer = another(&options).await;
    let (reader, follower) = {
        let options = Options { addresses: vec![proxy.address.clone()], ..options.clone() };
        (another(&options).await, another(&options).await)
    };
    let before = position_of(&reader, write(&writer, &[("m/a", Some(1))]).await);
    assert_eq!(reader.read(|reader| reader.revision()).await, before.revision);
    // A compaction behind the mirror costs nothing.
    assert!(cluster.etcdctl(&["compact", &before.revision.to_string()]));
    let second = write(&writer, &[("m/a", Some(2))]).await;
    assert_eq!(reader.read(|reader| reader.revision()).await, second);
    assert_eq!(reader.changes_after(before, 9).await.map(|changes| changes.len()), Ok(1));
    // The member of these handles is down while the others commit and compact.
    cluster.kill(0);
    let mut newest = second;
    for n in 3..10 {
        newest = write(&writer, &[("m/a", Some(n))]).await;
    }
    assert!((0..100).any(|_| cluster.etcdctl(&["compact", &newest.to_string()])));
    cluster.start_member(0);
    assert!(wait_for_member(&cluster, 0));
    for store in [&reader, &follower] {
        let seen = loop {
            // Requests end during the outage.
            if let Ok(seen) = unavailable::catch(store.read(|reader| reader.get("m/a"))).await {
                break seen;
            }
        };
        assert_eq!(seen, Some(stored("m/a", newest, 9)));
        assert_eq!(store.changes_after(before, 9).await, Err(Compacted));
        assert_eq!(store.changes_after(position_of(store, newest), 9).await, Ok(vec![]));
    }
}

/// Reads succeed. Writes are refused with the reason, and succeed once there is space.
#[tokio::test]
async fn a_full_quota_refuses_writes_and_nothing_else() {
    let flags = ["--max-txn-ops=2048", "--quota-backend-bytes=8000000"];
    let cluster = EtcdCluster::start_members(1, &flags, None);
    let prefix = "/test/quota".to_owned();
    let options = Options::new(cluster.addresses(), INSTALLATION, GENERATION, Uuid(1));
    let store = another(&Options { prefix, ..options }).await;
    let large = "x".repeat(500_000);
    let mut committed = 0;
    let full = loop {
        let large = large.clone();
        let write = store.run(move |draft| {
            draft.put(&Key::new("m/large".to_owned()), &large);
            Ok::<_, ()>(())
        });
        match write.await {
            Ok(_) => committed += 1,
            Err(error) => break error,
        }
        assert!(committed < 100, "8 MB have an end");
    };
    let quota = StoreError::Unavailable(Outage::QuotaExceeded);
    assert_eq!(full, RunError::Failed(quota));
    assert_eq!(store.outage(), Some(Outage::QuotaExceeded));
    assert_eq!(scan(&store, "m/").await.len(), 1, "reads go on");
    let newest = store.newest_revision().to_string();
    assert!(cluster.etcdctl(&["compact", &newest]) && cluster.etcdctl(&["defrag"]));
    assert!(cluster.etcdctl(&["alarm", "disarm"]));
    increment(&store).await.expect("there is space");
    assert_eq!(store.outage(), None);
}
