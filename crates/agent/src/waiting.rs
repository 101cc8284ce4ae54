//! The process of the next command, forked ahead, so that its entry into the cgroups is over when it comes.
//!
//! Entering a cgroup costs a grace period of the kernel, 5 to 10 ms measured; without a process in waiting
//! every command would pay it between its request and its first byte.

use crate::reaper::Reaper;
use crate::tree::{Cgroups, Tree, Trees};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use sys::confine::{Confine, Seccomp};
use sys::exec::{ExitStatus, Spawn, Standby, Started};
use tokio::sync::oneshot;

/// Forked before the lockdown, so it has to lock itself down.
#[derive(Debug)]
pub struct Waiting {
    standby: Standby,
    tree: Tree,
    confine: Option<Confine>,
}

impl Waiting {
    /// Forks the process of the first command. Only while the agent has one thread.
    pub(crate) fn first(cgroups: &Cgroups, seccomp: &Seccomp) -> io::Result<Self> {
        let tree = cgroups.grow(0)?;
        let standby = Standby::fork(&cgroups.entrances(&tree), Some(seccomp))?;
        Ok(Self {
            standby,
            tree,
            confine: None,
        })
    }

    /// With the restrictions it shall take on itself.
    pub(crate) fn confined(self, confine: Confine) -> Self {
        Self {
            confine: Some(confine),
            ..self
        }
    }
}

/// At most one process in waiting.
#[derive(Debug, Default)]
pub(crate) struct Line {
    next: Mutex<Option<InLine>>,
    /// Whether one is being forked.
    refilling: AtomicBool,
}

#[derive(Debug)]
struct InLine {
    waiting: Waiting,
    exit: oneshot::Receiver<ExitStatus>,
}

/// A program on its way, with its end and its tree.
pub(crate) type Launched = (Started, oneshot::Receiver<ExitStatus>, Tree);

impl Line {
    /// A line with the process that was forked before the lockdown.
    pub(crate) fn new(first: Option<Waiting>, reaper: &Reaper) -> Self {
        let in_line = first.map(|waiting| {
            let exit = reaper.expect(waiting.standby.pid);
            InLine { waiting, exit }
        });
        Self {
            next: Mutex::new(in_line),
            refilling: AtomicBool::new(false),
        }
    }

    /// Starts a program in the waiting process; `None` if there is none or it cannot.
    pub(crate) fn launch(&self, spawn: &Spawn<'_>, trees: &Trees) -> io::Result<Option<Launched>> {
        let Some(InLine { waiting, exit }) = crate::locked(&self.next).take() else {
            return Ok(None);
        };
        let Waiting {
            standby,
            tree,
            confine,
        } = waiting;
        match standby.start(spawn, confine.as_ref()) {
            Ok(Some(started)) => Ok(Some((started, exit, tree))),
            other => {
                trees.fell(&tree);
                other.map(|_| None)
            }
        }
    }

    /// Forks the next one, if there is something to gain by it. May block for milliseconds in the kernel's
    /// lock of cgroups, so not on the runtime's thread; holds no lock of ours meanwhile.
    pub(crate) fn refill(&self, trees: &Trees, reaper: &Reaper) -> io::Result<()> {
        let wanted = trees.has_cgroups() && crate::locked(&self.next).is_none();
        if !wanted || self.refilling.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let forked = fork(trees, reaper).map(|next| *crate::locked(&self.next) = Some(next));
        self.refilling.store(false, Ordering::Release);
        forked
    }
}

fn fork(trees: &Trees, reaper: &Reaper) -> io::Result<InLine> {
    let tree = trees.grow()?;
    let forked = reaper.watch_child(|| {
        let standby = Standby::fork(&trees.entrances(&tree), None)?;
        Ok((standby.pid, standby))
    });
    match forked {
        Ok((standby, exit)) => Ok(InLine {
            waiting: Waiting {
                standby,
                tree,
                confine: None,
            },
            exit,
        }),
        Err(error) => {
            trees.fell(&tree);
            Err(error)
        }
    }
}
