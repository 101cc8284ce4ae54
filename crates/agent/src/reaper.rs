//! Collects ended children and tells whoever started them.

use std::collections::HashMap;
use std::io;
use std::sync::Mutex;
use sys::exec::{ExitStatus, Started};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, oneshot};

/// Whose children the server collects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaping {
    /// Every child of the process, also adopted ones: as PID 1.
    All,
    /// Only its own: when it shares its process with others.
    Own,
}

/// The one place that waits for children.
#[derive(Debug)]
pub(crate) struct Reaper {
    reaping: Reaping,
    /// Who waits for which child. Held while a child is made, so that its end cannot come unnoticed
    /// before it is entered here; never across an await.
    waiting: Mutex<HashMap<i32, oneshot::Sender<ExitStatus>>>,
    /// Signalled after each round.
    pub(crate) reaped: Notify,
}

impl Reaper {
    pub(crate) fn new(reaping: Reaping) -> Self {
        Self {
            reaping,
            waiting: Mutex::default(),
            reaped: Notify::new(),
        }
    }

    /// Starts a child by `spawn` and returns with it how it will have ended.
    pub(crate) fn watch(
        &self,
        spawn: impl FnOnce() -> io::Result<Started>,
    ) -> io::Result<(Started, oneshot::Receiver<ExitStatus>)> {
        self.watch_child(|| spawn().map(|started| (started.pid, started)))
    }

    /// [`Self::watch`] for children of other kinds: `fork` returns the process id and what goes with it.
    pub(crate) fn watch_child<T>(
        &self,
        fork: impl FnOnce() -> io::Result<(i32, T)>,
    ) -> io::Result<(T, oneshot::Receiver<ExitStatus>)> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = crate::locked(&self.waiting);
        let (pid, child) = fork()?;
        waiting.insert(pid, sender);
        Ok((child, receiver))
    }

    /// How a child will have ended that was made before [`Self::run`] began.
    pub(crate) fn expect(&self, pid: i32) -> oneshot::Receiver<ExitStatus> {
        let (sender, receiver) = oneshot::channel();
        crate::locked(&self.waiting).insert(pid, sender);
        receiver
    }

    /// Collects for ever.
    pub(crate) async fn run(&self) -> io::Result<()> {
        let mut child_ended = signal(SignalKind::child())?;
        loop {
            self.collect();
            self.reaped.notify_one();
            child_ended.recv().await;
        }
    }

    fn collect(&self) {
        let mut waiting = crate::locked(&self.waiting);
        let ended = match self.reaping {
            Reaping::All => sys::exec::reap_all(),
            Reaping::Own => {
                let pids = waiting.keys();
                pids.filter_map(|pid| Some((*pid, sys::exec::reap(*pid)?)))
                    .collect()
            }
        };
        for (pid, status) in ended {
            if let Some(sender) = waiting.remove(&pid) {
                // The waiter may have gone with a cancelled call.
                sender.send(status).ok();
            }
        }
    }
}
