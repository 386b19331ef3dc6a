//! The controller's program: arguments, logging, run.

use anyhow::{Context, Result, bail};
use controller::host::Host;
use controller::installation::Installation;
use controller::outside::{Outside, version_4};
use controller::store::sqlite::{Options, Sqlite};
use controller::{Controller, janitor, server};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str =
    "usage: pintle-controller --data DIR [--listen ADDRESS:PORT] [--also ADDRESS]... [--restored]";

struct Arguments {
    data: PathBuf,
    /// Port 0 = the one it had, or any.
    listen: SocketAddr,
    /// Where it listens too, at the same port.
    also: Vec<IpAddr>,
    restored: bool,
}

fn arguments() -> Result<Arguments> {
    let (mut data, mut listen, mut restored) = (None, SocketAddr::from(([127, 0, 0, 1], 0)), false);
    let mut also = Vec::new();
    let mut given = std::env::args().skip(1);
    while let Some(flag) = given.next() {
        let mut value = || given.next().with_context(|| format!("{flag} needs a value\n{USAGE}"));
        match flag.as_str() {
            "--data" => data = Some(PathBuf::from(value()?)),
            "--listen" => {
                let text = value()?;
                listen = text
                    .parse()
                    .with_context(|| format!("{text:?} is not an address like 127.0.0.1:17070"))?;
            }
            "--also" => {
                let text = value()?;
                also.push(text.parse().with_context(|| format!("{text:?} is not an address"))?);
            }
            "--restored" => restored = true,
            _ => bail!("unknown argument {flag:?}\n{USAGE}"),
        }
    }
    Ok(Arguments { data: data.context(USAGE)?, listen, also, restored })
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let run = async { run(arguments()?).await };
    if let Err(error) = run.await {
        eprintln!("ERROR {error:#}");
        std::process::exit(1);
    }
}

async fn run(arguments: Arguments) -> Result<()> {
    let mut installation = Installation::open(&arguments.data)?;
    let options = Options { restored: arguments.restored, ..Options::new(version_4(host::random::bits())) };
    let store = Sqlite::open(&installation.store(), options)?;
    let host = Host::new(installation.archives())?;
    let controller = Controller::new(store.clone(), host, installation.controller());
    let mut listen = arguments.listen;
    if let (0, Some(before)) = (listen.port(), installation.address()) {
        listen.set_port(before.port());
    }
    let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    let mut listeners = Vec::new();
    for address in arguments.also {
        let also = SocketAddr::new(address, listener.local_addr()?.port());
        let bound = TcpListener::bind(also).await;
        listeners.push(bound.with_context(|| format!("cannot listen on {also}"))?);
    }
    installation.listens(listener.local_addr()?)?;
    installation.introduce(&controller).await?;
    let acceptor = server::acceptor(&installation.certificate, &installation.key)?;
    // before anybody is told that it serves, and may end it
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tracing::info!(address = %listener.local_addr()?, controller = %installation.controller(), "serving");
    listeners.push(listener);
    tokio::spawn(sweep(controller.clone()));
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    tokio::select! {
        () = server::serve(controller, listeners, acceptor, stop) => Ok(()),
        why = store.broken() => bail!("the store is broken: {why}; ending, to start again from what is on disk"),
    }
}

async fn sweep(controller: Arc<Controller<Sqlite, Host>>) {
    let mut janitor = janitor::Janitor::default();
    loop {
        // What could not be cleared now is found again by the next sweep.
        if !matches!(janitor.sweep(&controller).await, Ok(true)) {
            let next = controller.outside.monotonic_ms() + janitor::SWEEP_EVERY_MS;
            controller.until_sweep(next).await;
        }
    }
}
