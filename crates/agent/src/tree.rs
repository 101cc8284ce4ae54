//! The processes a command has started, so that they can be ended together.
//!
//! With a tracking directory every command gets its own cgroup there, `c<N>`, which no `setsid` or double
//! fork escapes. Without one (tests, hosts that cannot) its session and the descendants still linked to
//! it are ended, which is the best that can be done.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Rounds of freeze and kill before giving up; one is enough unless something keeps forking in between.
const KILL_ROUNDS_MAX: u32 = 100;
const KILL_PAUSE: Duration = Duration::from_millis(2);
/// Polls for the freezer to settle, within one round.
const FREEZE_POLLS_MAX: u32 = 50;
const FREEZE_POLL: Duration = Duration::from_micros(200);

/// The cgroups an agent works with.
#[derive(Debug, Default)]
pub struct Cgroups {
    /// Open `cgroup.procs` files every command enters: where the limits are.
    pub join: Vec<OwnedFd>,
    /// Directory that holds one cgroup per command: v1 freezer or v2 unified.
    pub track: Option<OwnedFd>,
}

/// All trees of a sandbox.
#[derive(Debug)]
pub(crate) struct Trees {
    cgroups: Cgroups,
    next: AtomicU64,
    /// Cgroups whose command has ended while something in them lives on.
    leftovers: Mutex<Vec<Arc<CommandCgroup>>>,
}

/// One command's processes.
#[derive(Debug, Clone)]
pub(crate) enum Tree {
    Cgroup(Arc<CommandCgroup>),
    Session,
}

#[derive(Debug)]
pub(crate) struct CommandCgroup {
    name: String,
    directory: OwnedFd,
    procs: OwnedFd,
}

impl Cgroups {
    /// Makes the place for the processes of command number `number`.
    pub(crate) fn grow(&self, number: u64) -> io::Result<Tree> {
        let Some(track) = &self.track else {
            return Ok(Tree::Session);
        };
        let name = format!("c{number}");
        mkdirat(track, &name, Mode::from_raw_mode(0o755))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(track, &name, flags, Mode::empty())?;
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let procs = openat(&directory, "cgroup.procs", flags, Mode::empty())?;
        Ok(Tree::Cgroup(Arc::new(CommandCgroup {
            name,
            directory,
            procs,
        })))
    }

    /// What the child of a command enters.
    pub(crate) fn entrances<'a>(&'a self, tree: &'a Tree) -> Vec<BorrowedFd<'a>> {
        let limits = self.join.iter().map(AsFd::as_fd);
        let own = match tree {
            Tree::Cgroup(cgroup) => Some(cgroup.procs.as_fd()),
            Tree::Session => None,
        };
        limits.chain(own).collect()
    }
}

impl Trees {
    pub(crate) fn new(cgroups: Cgroups) -> Self {
        Self {
            cgroups,
            next: AtomicU64::new(1),
            leftovers: Mutex::default(),
        }
    }

    /// Makes the place for a new command's processes.
    pub(crate) fn grow(&self) -> io::Result<Tree> {
        self.cgroups.grow(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// What the child of a command enters.
    pub(crate) fn entrances<'a>(&'a self, tree: &'a Tree) -> Vec<BorrowedFd<'a>> {
        self.cgroups.entrances(tree)
    }

    /// Whether commands have cgroups to enter at all.
    pub(crate) fn has_cgroups(&self) -> bool {
        self.cgroups.track.is_some() || !self.cgroups.join.is_empty()
    }

    /// The command has ended: its cgroup goes with the next sweep that finds it empty. Not here, because
    /// the kernel's one lock of all cgroups may be held for milliseconds by somebody else on the host.
    pub(crate) fn fell(&self, tree: &Tree) {
        if let Tree::Cgroup(cgroup) = tree {
            crate::locked(&self.leftovers).push(Arc::clone(cgroup));
        }
    }

    /// Removes cgroups that are empty. May block; the list is free meanwhile.
    pub(crate) fn sweep(&self) {
        let mut leftovers = std::mem::take(&mut *crate::locked(&self.leftovers));
        leftovers.retain(|cgroup| !self.remove(cgroup));
        crate::locked(&self.leftovers).append(&mut leftovers);
    }

    pub(crate) fn has_leftovers(&self) -> bool {
        !crate::locked(&self.leftovers).is_empty()
    }

    fn remove(&self, cgroup: &CommandCgroup) -> bool {
        let Some(track) = &self.cgroups.track else {
            return true;
        };
        // Anything but "still in use" will not get better by waiting.
        unlinkat(track, &cgroup.name, AtFlags::REMOVEDIR) != Err(Errno::BUSY)
    }
}

impl Tree {
    /// Ends every process of the command whose leader is `pid`.
    pub(crate) async fn kill(&self, pid: u32) {
        match self {
            Self::Cgroup(cgroup) => cgroup.kill().await,
            Self::Session => kill_session(pid),
        }
    }
}

impl CommandCgroup {
    async fn kill(&self) {
        match self.write("cgroup.kill", "1") {
            Ok(()) => return,
            // v1, or v2 before Linux 5.14.
            Err(Errno::NOENT) => {}
            Err(_) => return,
        }
        for _ in 0..KILL_ROUNDS_MAX {
            self.freeze().await;
            let pids = self.pids();
            for pid in &pids {
                send(*pid, Signal::KILL);
            }
            self.thaw();
            if pids.is_empty() {
                return;
            }
            tokio::time::sleep(KILL_PAUSE).await;
        }
    }

    /// Stops all, so that nothing forks away while the list is read.
    async fn freeze(&self) {
        if self.write("freezer.state", "FROZEN").is_err() {
            // v2 has no state file of this name; without cgroup.kill the rounds alone must do.
            return;
        }
        for _ in 0..FREEZE_POLLS_MAX {
            if self
                .read("freezer.state")
                .is_ok_and(|state| state.trim() == "FROZEN")
            {
                return;
            }
            tokio::time::sleep(FREEZE_POLL).await;
        }
    }

    fn thaw(&self) {
        // Fails only where freezing failed too.
        self.write("freezer.state", "THAWED").ok();
    }

    fn pids(&self) -> Vec<i32> {
        let list = self.read("cgroup.procs").unwrap_or_default();
        list.lines()
            .filter_map(|line| line.parse().ok())
            .filter(|pid| *pid > 1)
            .collect()
    }

    fn write(&self, file: &str, text: &str) -> Result<(), Errno> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(&self.directory, file, flags, Mode::empty())?;
        rustix::io::write(file, text.as_bytes()).map(drop)
    }

    fn read(&self, file: &str) -> io::Result<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&self.directory, file, flags, Mode::empty())?;
        io::read_to_string(std::fs::File::from(file))
    }
}

/// Sends a signal; a process that is gone needs none.
pub(crate) fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        kill_process(pid, signal).ok();
    }
}

/// Ends the session of `leader` and the descendants that can still be traced to it.
fn kill_session(leader: u32) {
    let Ok(leader) = i32::try_from(leader) else {
        return;
    };
    let processes = processes();
    let mut doomed = vec![leader];
    let mut next = 0;
    while let Some(parent) = doomed.get(next).copied() {
        let found = processes.iter().filter(|process| {
            process.parent == parent || process.session == leader || process.session == parent
        });
        let found: Vec<i32> = found.map(|process| process.pid).collect();
        doomed.extend(
            found
                .into_iter()
                .filter(|pid| !doomed.contains(pid))
                .collect::<Vec<_>>(),
        );
        next += 1;
    }
    if let Some(group) = Pid::from_raw(leader) {
        kill_process_group(group, Signal::KILL).ok();
    }
    doomed.into_iter().for_each(|pid| send(pid, Signal::KILL));
}

struct Seen {
    pid: i32,
    parent: i32,
    session: i32,
}

fn processes() -> Vec<Seen> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return vec![];
    };
    let seen = entries.flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name may hold spaces and brackets; numbers start after its last bracket.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(1);
        let parent = fields.next()?.parse().ok()?;
        let session = fields.nth(1)?.parse().ok()?;
        Some(Seen {
            pid,
            parent,
            session,
        })
    });
    seen.collect()
}
