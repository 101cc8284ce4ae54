//! The roles of a node: the one place where the command line meets the node.

use crate::cli::{ServeFlags, SpawnerFlags};
use crate::config::Config;
use anyhow::{Context as _, Result, anyhow};
use node::{Library, Machine, MachineConfig, Node, NodeConfig};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Longest wait for work that was begun before the stop.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// Runs the node until it is told to stop.
pub(crate) fn serve(flags: ServeFlags) -> Result<ExitCode> {
    let config = Config::load(flags)?;
    start_logging();
    let machine = MachineConfig {
        data_dir: config.data_dir.clone(),
        run_dir: config.run_dir.clone(),
        subnet: config.subnet,
        dns: config.dns.clone(),
        agent: config.agent.clone(),
    };
    let own = std::env::current_exe().context("find this program")?;
    let machine = Arc::new(Machine::open(&machine, &own)?);
    let library = Library::open(&config.data_dir, Arc::clone(&machine));
    let served = library.context("open templates").and_then(|library| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build();
        let runtime = runtime.context("start the async runtime")?;
        let served = runtime.block_on(run(&config, Arc::clone(&machine), Arc::new(library)));
        // Ends the worker threads, which hold the machine while they finish.
        runtime.shutdown_timeout(STOP_LIMIT);
        served
    });
    let machine =
        Arc::into_inner(machine).ok_or_else(|| anyhow!("something still uses the machine"));
    let closed = machine.and_then(|m| m.close().context("close the machine"));
    served.and(closed).map(|()| ExitCode::SUCCESS)
}

/// Runs the parent of the sandboxes; single-threaded for its whole life.
pub(crate) fn spawner(flags: &SpawnerFlags) -> Result<ExitCode> {
    node::run_spawner(&flags.run_dir, &flags.agent)?;
    Ok(ExitCode::SUCCESS)
}

async fn run(config: &Config, machine: Arc<Machine>, library: Arc<Library>) -> Result<()> {
    let stop = CancellationToken::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut signals = signal(kind).context("listen for signals")?;
        let stop = stop.clone();
        tokio::spawn(async move {
            signals.recv().await;
            stop.cancel();
        });
    }
    let pool = usize::try_from(config.pool).context("size of the pool")?;
    let config = NodeConfig {
        listen: config.listen,
        pool_high: pool,
        pool_low: pool.div_ceil(2),
        dns: config.dns.clone(),
        domain: config.domain.clone(),
        ..NodeConfig::new(config.data_dir.clone(), config.run_dir.clone())
    };
    Node::start(config, machine, library, stop)
        .await?
        .wait()
        .await;
    Ok(())
}

/// Logs to stderr; `RUST_LOG` chooses what.
fn start_logging() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(crate::output::talks_to_a_terminal())
        .init();
}
