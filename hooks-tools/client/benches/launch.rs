//! Measures the time of one call of a hook tool, from launch to exit.
//!
//! The benchmark compares `pintle-hook` with the floor (`tests/benches-src/floor_client.c`, a static program without
//! libc that makes one round trip) and with `/bin/true`. The programs take turns in one run, so that other load on the
//! machine affects all of them alike. The ratios are the result: the goal for `pintle-hook` / floor is at most 1.3.
//! Run: `cargo bench -p hook-client --bench launch [-- ROUNDS]`.

use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io, process, thread};

use hook_client::{HEADER_BYTES, ReplyFrame, frame_length};

/// Rounds for more than a second. On an idle machine the medians differ by less than one percent between runs.
const ROUNDS: usize = 3000;
const WARM_UP_ROUNDS: usize = 100;
/// All orders of the programs: the program after `/bin/true` finds colder caches, so each follows each equally often.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0], [1, 0, 2], [0, 2, 1]];
/// The reply to a `relation-get` of one key.
const ANSWER: ReplyFrame<'_> = ReplyFrame::Done { code: 0, stdout: b"10.0.0.7\n", stderr: b"" };

fn main() {
    // Cargo itself passes arguments such as --bench.
    let rounds = env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(ROUNDS);
    let folder = env::temp_dir().join(format!("pintle-launch-{}", process::id()));
    fs::create_dir(&folder).expect("a new temporary folder");
    let result = measure(&folder, rounds);
    fs::remove_dir_all(&folder).expect("the temporary folder can be removed");
    result.expect("all three programs run");
}

fn measure(folder: &Path, rounds: usize) -> io::Result<()> {
    let socket = folder.join("agent.socket");
    let listener = UnixListener::bind(&socket)?;
    thread::spawn(move || serve(&listener));

    let link = folder.join("relation-get");
    symlink(env!("CARGO_BIN_EXE_pintle-hook"), &link)?;
    let mut tool = Command::new(link);
    tool.args(["-r", "db:1", "private-address", "mysql/0"]);
    tool.env("JUJU_AGENT_SOCKET_ADDRESS", &socket);
    let mut floor = Command::new(compile_floor(folder)?);
    floor.arg(&socket);
    let mut commands = [("pintle-hook", tool), ("floor", floor), ("/bin/true", Command::new("/bin/true"))];
    for (_, command) in &mut commands {
        command
            .env("JUJU_CONTEXT_ID", "web/0-db-relation-changed-1")
            .env("JUJU_AGENT_SOCKET_NETWORK", "unix");
        command.stdin(Stdio::null()).stdout(Stdio::null());
    }

    let mut times: [Vec<Duration>; 3] = Default::default();
    for round in 0..WARM_UP_ROUNDS + rounds {
        for which in ORDERS[round % ORDERS.len()] {
            let (name, command) = &mut commands[which];
            let started = Instant::now();
            let status = command.status()?;
            let time = started.elapsed();
            if !status.success() {
                return Err(io::Error::other(format!("{name}: {status}")));
            }
            if round >= WARM_UP_ROUNDS {
                times[which].push(time);
            }
        }
    }

    let ratio = |numerator: usize, denominator: usize| {
        let pairs = times[numerator].iter().zip(&times[denominator]);
        median(pairs.map(|(a, b)| a.as_secs_f64() / b.as_secs_f64()).collect())
    };
    println!("{rounds} rounds, in turns; microseconds of launch to exit, p50");
    for ((name, _), times) in commands.iter().zip(&times) {
        println!("{name:12} {:8.1}", median(times.iter().map(|time| time.as_secs_f64() * 1e6).collect()));
    }
    println!(
        "pintle-hook / floor      {:.2}  (median of the rounds' ratios; goal at most 1.30)",
        ratio(0, 1)
    );
    println!("pintle-hook / /bin/true  {:.2}", ratio(0, 2));
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Answers one request on every connection. A client that disconnects early reports this by its exit code.
fn serve(listener: &UnixListener) -> io::Result<()> {
    let mut answer = vec![0; ANSWER.encoded_length().map_err(io::Error::other)?];
    ANSWER.encode(&mut answer).map_err(io::Error::other)?;
    loop {
        let (connection, _) = listener.accept()?;
        let _ = serve_one(connection, &answer);
    }
}

fn serve_one(mut connection: UnixStream, answer: &[u8]) -> io::Result<()> {
    let mut header = [0; HEADER_BYTES];
    connection.read_exact(&mut header)?;
    let mut body = vec![0; frame_length(&header).map_err(io::Error::other)? - HEADER_BYTES];
    connection.read_exact(&mut body)?;
    connection.write_all(answer)
}

fn compile_floor(folder: &Path) -> io::Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/benches-src/floor_client.c");
    let program = folder.join("floor_client");
    let flags = [
        "-O2",
        "-s",
        "-static",
        "-nostdlib",
        "-ffreestanding",
        "-fno-stack-protector",
        "-fno-pie",
        "-no-pie",
        "-Wl,--build-id=none",
        "-Wl,-z,norelro",
        "-Wl,-z,noseparate-code",
    ];
    let status = Command::new("cc").args(flags).arg("-o").arg(&program).arg(source).status()?;
    if status.success() { Ok(program) } else { Err(io::Error::other("cc cannot compile the floor")) }
}
