//! Waiting shells, made before they are asked for.
//!
//! Below `low` a background task refills to `high`, at most `parallel` at once, so that refilling does not
//! take the processors from the requests that emptied the pool. A claim of an empty pool is a miss, not an
//! error: the caller makes a shell itself.

use crate::error::chain;
use crate::host::{Host, HostShell};
use model::SandboxId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// First wait after a failed refill; doubled up to [`BACKOFF_MAX`].
const BACKOFF_MIN: Duration = Duration::from_millis(100);
/// Longest wait after failed refills.
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// Bounds of a pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) low: usize,
    pub(crate) high: usize,
    pub(crate) parallel: usize,
}

/// The waiting shells of a node.
#[derive(Debug)]
pub(crate) struct Pool {
    host: Arc<dyn Host>,
    node_number: u32,
    bounds: Bounds,
    /// Guards the queue; held for a push or a pop.
    waiting: Mutex<VecDeque<HostShell>>,
    low: Notify,
    /// Set by the first shell.
    proven: AtomicBool,
}

impl Pool {
    pub(crate) fn new(host: Arc<dyn Host>, node_number: u32, bounds: Bounds) -> Self {
        Self {
            host,
            node_number,
            bounds,
            waiting: Mutex::new(VecDeque::with_capacity(bounds.high)),
            low: Notify::new(),
            proven: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<HostShell>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether the machine has shown that it can make shells. An empty pool later is only slow.
    pub(crate) fn is_ready(&self) -> bool {
        self.bounds.high == 0 || self.proven.load(Ordering::Relaxed)
    }

    pub(crate) fn new_id(&self) -> SandboxId {
        SandboxId::new(self.node_number, rand::random())
    }

    /// Takes a waiting shell that is alive; removes those that are not.
    pub(crate) fn claim(&self) -> Option<HostShell> {
        loop {
            let (shell, left) = {
                let mut waiting = self.lock();
                (waiting.pop_front(), waiting.len())
            };
            metrics::gauge!("node_pool_waiting").set(left as f64);
            if left < self.bounds.low {
                self.low.notify_one();
            }
            let shell = shell?;
            if is_alive(&shell) {
                return Some(shell);
            }
            tracing::warn!(id = %shell.id(), "a waiting shell died");
            self.remove(&shell);
        }
    }

    fn remove(&self, shell: &HostShell) {
        if let Err(error) = self.host.remove(shell) {
            tracing::error!(id = %shell.id(), error = %chain(&error), "waiting shell remains");
        }
    }

    /// Keeps the pool filled until `stop`, then removes what waits.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut backoff = BACKOFF_MIN;
        while !stop.is_cancelled() && self.bounds.high > 0 {
            let wait = match self.refill(&stop).await {
                true => {
                    backoff = BACKOFF_MIN;
                    None
                }
                false => {
                    backoff = (backoff * 2).min(BACKOFF_MAX);
                    Some(backoff)
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = sleep_or_never(wait) => {}
                () = self.low.notified(), if wait.is_none() => {}
            }
        }
        stop.cancelled().await;
        self.drain().await;
    }

    /// Fills to the high mark; false after a failure.
    async fn refill(self: &Arc<Self>, stop: &CancellationToken) -> bool {
        let mut making = JoinSet::new();
        let mut ok = true;
        loop {
            let missing = self.bounds.high.saturating_sub(self.len() + making.len());
            let free = self.bounds.parallel.max(1).saturating_sub(making.len());
            if ok && !stop.is_cancelled() {
                for _ in 0..missing.min(free) {
                    let pool = Arc::clone(self);
                    making.spawn_blocking(move || pool.make());
                }
            }
            match making.join_next().await {
                None => return ok,
                Some(made) => ok &= made.unwrap_or(false),
            }
        }
    }

    fn make(&self) -> bool {
        match self.host.prepare_shell(&self.new_id()) {
            Ok(shell) => {
                self.proven.store(true, Ordering::Relaxed);
                let mut waiting = self.lock();
                waiting.push_back(shell);
                metrics::gauge!("node_pool_waiting").set(waiting.len() as f64);
                true
            }
            Err(error) => {
                tracing::error!(error = %chain(&error), "pool cannot refill");
                false
            }
        }
    }

    async fn drain(self: Arc<Self>) {
        let drained = tokio::task::spawn_blocking(move || {
            // One statement per step: the lock must not be held while a shell is removed.
            loop {
                let shell = self.lock().pop_front();
                let Some(shell) = shell else { break };
                self.remove(&shell);
            }
        });
        if let Err(error) = drained.await {
            tracing::error!(%error, "waiting shells remain");
        }
    }
}

async fn sleep_or_never(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

/// Whether PID 1 has not exited: its pidfd is not readable.
fn is_alive(shell: &HostShell) -> bool {
    let mut fds = [PollFd::new(&shell.shell.pidfd, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&Timespec::default())), Ok(0))
}
