//! Ends of sandboxes: by request, by time, by themselves; and the removal of what they leave.
//!
//! An end is two steps. The first is synchronous and quick: decide the cause, drop the connections, kill,
//! take out of reach. The second, removing cgroup, network, mounts and files, runs behind on few threads.

use crate::daemon::Daemon;
use crate::error::chain;
use crate::sandbox::Sandbox;
use model::Cause;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Removals at the same time: they are work of the kernel under few locks, more of them only queue there.
const REMOVALS_PARALLEL: usize = 4;
/// Removals that may be behind before a delete waits for its own.
const REMOVALS_BEHIND_MAX: usize = 64;
/// Attempts at one removal; between them the wait grows.
const REMOVAL_ATTEMPTS: u32 = 5;
/// Wait after the first failed attempt.
const REMOVAL_WAIT: Duration = Duration::from_millis(50);

/// Bounds the removals that run behind.
#[derive(Debug)]
pub(crate) struct Removals(Arc<Semaphore>);

impl Removals {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(REMOVALS_PARALLEL)))
    }
}

impl Daemon {
    /// Ends a sandbox: on return nothing of it can be reached. False: its end was decided before.
    pub(crate) fn end(self: &Arc<Self>, sandbox: &Arc<Sandbox>, cause: Cause) -> bool {
        if !sandbox.begin_end(cause, &self.records) {
            return false;
        }
        sandbox.ended.cancel();
        if let Err(error) = self.host.kill(&sandbox.host) {
            // The removal kills again and waits.
            tracing::warn!(id = %sandbox.id(), error = %chain(&error), "kill failed");
        }
        self.registry.retire(sandbox);
        metrics::counter!("node_ends_total", "cause" => cause.as_str()).increment(1);
        metrics::gauge!("node_sandboxes_running").set(self.registry.running_count() as f64);
        tracing::info!(id = %sandbox.id(), %cause, "sandbox ended");
        tokio::spawn(remove(Arc::clone(self), Arc::clone(sandbox)));
        true
    }

    /// Ends a sandbox for a client; waits for the removal when too many are behind.
    pub(crate) async fn end_for_client(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> bool {
        let ended = self.end(sandbox, Cause::Killed);
        if self.registry.ending_count() > REMOVALS_BEHIND_MAX {
            sandbox.removed.cancelled().await;
        }
        ended
    }
}

async fn remove(daemon: Arc<Daemon>, sandbox: Arc<Sandbox>) {
    let Ok(permit) = Arc::clone(&daemon.removals.0).acquire_owned().await else {
        return;
    };
    for attempt in 1..=REMOVAL_ATTEMPTS {
        let (host, shell) = (Arc::clone(&daemon.host), sandbox.host.clone());
        let removed = tokio::task::spawn_blocking(move || host.remove(&shell)).await;
        let error = match removed {
            Ok(Ok(())) => break,
            Ok(Err(error)) => chain(&error),
            Err(error) => chain(&error),
        };
        if attempt == REMOVAL_ATTEMPTS {
            metrics::counter!("node_removal_failures_total").increment(1);
            tracing::error!(id = %sandbox.id(), %error, "remains of a sandbox stay until restart");
        } else {
            tracing::debug!(id = %sandbox.id(), %error, attempt, "removal will be tried again");
            tokio::time::sleep(REMOVAL_WAIT * attempt).await;
        }
    }
    drop(permit);
    let facts = &sandbox.facts;
    daemon.catalog.release(&facts.template_id, &facts.layers);
    sandbox.finish_end();
    daemon.registry.bury(&sandbox);
}

/// Waits for the end of one sandbox by time or by itself. Ends with the sandbox.
pub(crate) async fn watch(daemon: Arc<Daemon>, sandbox: Arc<Sandbox>) {
    let exited = exited(&sandbox);
    tokio::pin!(exited);
    loop {
        tokio::select! {
            biased;
            () = sandbox.ended.cancelled() => return,
            () = sandbox.moved.notified() => {}
            () = &mut exited => {
                let cause = exit_cause(&daemon, &sandbox).await;
                daemon.end(&sandbox, cause);
                return;
            }
            () = tokio::time::sleep_until(sandbox.deadline()) => {
                // The end may have been moved since this sleep began.
                if sandbox.deadline() <= Instant::now() {
                    daemon.end(&sandbox, Cause::Timeout);
                    return;
                }
            }
        }
    }
}

/// Resolves when PID 1 of the sandbox has exited.
async fn exited(sandbox: &Sandbox) {
    let ready = async { register(sandbox)?.readable().await.map(drop) };
    if let Err(error) = ready.await {
        let id = sandbox.id();
        tracing::error!(%id, %error, "cannot watch the sandbox; only its timeout ends it");
        std::future::pending::<()>().await;
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe for types whose descriptor may change; this one owns its shell"
)]
fn register(sandbox: &Sandbox) -> std::io::Result<AsyncFd<PidFd>> {
    let pidfd = PidFd(Arc::clone(&sandbox.host.shell));
    AsyncFd::with_interest(pidfd, Interest::READABLE)
}

struct PidFd(Arc<isolation::Shell>);

impl AsRawFd for PidFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.pidfd.as_raw_fd()
    }
}

async fn exit_cause(daemon: &Arc<Daemon>, sandbox: &Sandbox) -> Cause {
    let (host, shell) = (Arc::clone(&daemon.host), sandbox.host.clone());
    let usage = tokio::task::spawn_blocking(move || host.usage(&shell)).await;
    match usage {
        Ok(Ok(usage)) if usage.oom_kills > 0 => Cause::Oom,
        _ => Cause::UserExit,
    }
}
