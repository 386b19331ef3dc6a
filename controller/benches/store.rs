//! Benchmark: durable transactions per second of the SQLite engine at 1, 16 and 64 clients.
//!
//! The reference is raw SQLite that writes the same rows, with one transaction per commit and with as many per commit
//! as there are clients. All three take turns in one run on the same disk, so only the ratios are meaningful.

use controller::store::Store as _;
use controller::store::sqlite::{Options, Sqlite};
use rusqlite::{Connection, TransactionBehavior, params};
use state::documents::draft::{Draft, Key};
use state::terms::names::Uuid;
use std::time::Instant;

const CLIENTS: [usize; 3] = [1, 16, 64];
const ROUNDS: usize = 7;
/// Transactions of one client in one round: with one client, 100 syncs.
const TRANSACTIONS_PER_CLIENT: usize = 100;
/// Documents that one transaction reads and writes, and their size: a hook's settings and its replica.
const DOCUMENTS: usize = 2;
const DOCUMENT_BYTES: usize = 1000;

fn main() {
    // The folder is on the disk of the build, because the folder for temporary files may be in memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let store = Sqlite::open(folder.path(), Options::new(Uuid(1))).expect("opens");
    let mut raw = RawSqlite::open(&folder.path().join("raw.sqlite"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    println!("{DOCUMENTS} documents of {DOCUMENT_BYTES} bytes a transaction; median of {ROUNDS} rounds\n");
    println!("clients | store tx/s | raw, 1 a commit | ratio | raw, `clients` a commit | ratio");
    for clients in CLIENTS {
        let mut rates: [Vec<f64>; 3] = Default::default();
        for _ in 0..ROUNDS {
            rates[0].push(rate(clients, || runtime.block_on(drive(&store, clients))));
            rates[1].push(rate(clients, || raw.drive(clients, 1)));
            rates[2].push(rate(clients, || raw.drive(clients, clients)));
        }
        let [store, single, batched] = rates.map(median);
        let (to_single, to_batched) = (store / single, store / batched);
        println!(
            "{clients:7} | {store:10.0} | {single:15.0} | {to_single:5.2} | {batched:23.0} | {to_batched:5.2}"
        );
    }
}

fn rate(clients: usize, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    (clients * TRANSACTIONS_PER_CLIENT) as f64 / start.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn key(client: usize, n: usize) -> String {
    format!("00000000-0000-0000-0000-000000000001/unit/{client:04}/{n}")
}

async fn drive(store: &Sqlite, clients: usize) {
    let clients: Vec<_> = (0..clients)
        .map(|client| {
            let store = store.clone();
            tokio::spawn(async move {
                for _ in 0..TRANSACTIONS_PER_CLIENT {
                    store.run(move |draft| write(draft, client)).await.expect("commits");
                }
            })
        })
        .collect();
    for client in clients {
        client.await.expect("no panic");
    }
}

fn write(draft: &mut Draft<'_>, client: usize) -> Result<(), ()> {
    for n in 0..DOCUMENTS {
        let key = Key::<String>::new(key(client, n));
        let _ = draft.get(&key);
        draft.put(&key, &"x".repeat(DOCUMENT_BYTES));
    }
    Ok(())
}

struct RawSqlite {
    connection: Connection,
    revision: i64,
}

impl RawSqlite {
    fn open(file: &std::path::Path) -> RawSqlite {
        let connection = Connection::open(file).expect("opens");
        connection.pragma_update(None, "journal_mode", "WAL").expect("set");
        connection.pragma_update(None, "synchronous", "FULL").expect("set");
        let tables = "
            CREATE TABLE documents (key TEXT PRIMARY KEY, revision INTEGER, value TEXT) WITHOUT ROWID;
            CREATE TABLE changes (revision INTEGER, key TEXT, value TEXT, revision_before INTEGER, value_before TEXT,
                PRIMARY KEY (revision, key)) WITHOUT ROWID;";
        connection.execute_batch(tables).expect("created");
        RawSqlite { connection, revision: 0 }
    }

    fn drive(&mut self, clients: usize, per_commit: usize) {
        let value = format!("{:?}", "x".repeat(DOCUMENT_BYTES));
        for first in (0..clients * TRANSACTIONS_PER_CLIENT).step_by(per_commit) {
            let transaction = self
                .connection
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .expect("a transaction starts");
            let mut put = transaction
                .prepare_cached("INSERT OR REPLACE INTO documents VALUES (?1, ?2, ?3)")
                .expect("valid");
            let mut log =
                transaction.prepare_cached("INSERT INTO changes VALUES (?1, ?2, ?3, ?4, ?5)").expect("valid");
            for i in first..first + per_commit {
                self.revision += 1;
                for n in 0..DOCUMENTS {
                    let key = key(i % clients, n);
                    put.execute(params![key, self.revision, value]).expect("written");
                    log.execute(params![self.revision, key, value, self.revision, value]).expect("written");
                }
            }
            drop((put, log));
            transaction.commit().expect("synced");
        }
    }
}
