//! The trait of every isolation kind. All calls block; callers bring a thread.

use model::{Resources, SandboxId};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// What a kind can do, asked before instead of failing after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Name of the kind as in the API.
    pub kind: &'static str,
    /// Can keep a sandbox frozen with its memory given back.
    pub pause: bool,
    /// Can capture memory with the files.
    pub memory_snapshot: bool,
}

/// What is needed to make a waiting shell.
#[derive(Debug, Clone)]
pub struct ShellSpec {
    /// Id that the sandbox will have.
    pub id: SandboxId,
    /// Where the agent's listening socket is made.
    pub socket: PathBuf,
}

/// A waiting or running sandbox shell. Shared by the pool, the sandbox's task and the watcher.
#[derive(Debug)]
pub struct Shell {
    /// Id of the sandbox.
    pub id: SandboxId,
    /// PID 1 of the sandbox, in the host's pid namespace.
    pub pid: i32,
    /// Becomes readable when PID 1 has exited; also proof against pid reuse.
    pub pidfd: OwnedFd,
    /// The agent's socket.
    pub socket: PathBuf,
}

/// What is needed to find a shell again after a restart of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellRecord {
    /// Id of the sandbox.
    pub id: SandboxId,
    /// PID 1 in the host's pid namespace.
    pub pid: i32,
    /// Start time of that process in clock ticks since boot (`/proc/<pid>/stat` field 22): proof against reuse.
    pub start_ticks: u64,
    /// The agent's socket.
    pub socket: PathBuf,
}

/// A mount put into the sandbox besides its root.
#[derive(Debug)]
pub struct ExtraMount {
    /// Absolute path inside.
    pub target: String,
    /// Detached mount.
    pub mount: OwnedFd,
}

/// What turns a shell into a sandbox.
#[derive(Debug)]
pub struct Attach {
    /// Detached mount of the root.
    pub root: OwnedFd,
    /// Further mounts.
    pub extra_mounts: Vec<ExtraMount>,
    /// Limits, set before anything of the user runs.
    pub resources: Resources,
    /// Message for the agent; the backend fills in the descriptor counts and mount targets.
    pub request: model::attach::AttachRequest,
}

/// Figures of one sandbox, read from outside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time used, microseconds.
    pub cpu_usec: u64,
    /// Memory in use, bytes.
    pub memory_bytes: u64,
    /// Page cache part of it, bytes.
    pub memory_cache_bytes: u64,
    /// Processes that the kernel killed for want of memory.
    pub oom_kills: u64,
}

/// A shell could not be made; nothing of it remains.
#[derive(Debug, thiserror::Error)]
#[error("prepare sandbox shell {id}: {step}")]
pub struct PrepareError {
    /// Sandbox.
    pub id: SandboxId,
    /// What was attempted.
    pub step: String,
    /// Cause.
    #[source]
    pub source: std::io::Error,
}

/// A shell could not take its root. The sandbox is lost: the caller removes it.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The message could not be exchanged.
    #[error("attach root of sandbox {id}: {step}")]
    Exchange {
        /// Sandbox.
        id: SandboxId,
        /// What was attempted.
        step: String,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// The agent refused, in its own words.
    #[error("attach root of sandbox {id}: {message}")]
    Refused {
        /// Sandbox.
        id: SandboxId,
        /// What the agent said.
        message: String,
    },
}

/// Something of a removed sandbox remains.
#[derive(Debug, thiserror::Error)]
#[error("remove sandbox {id}: {step}")]
pub struct RemoveError {
    /// Sandbox.
    pub id: SandboxId,
    /// What was attempted.
    pub step: String,
    /// Cause.
    #[source]
    pub source: std::io::Error,
}

/// One isolation kind.
pub trait Backend: Send + Sync + Debug {
    /// What this kind can do.
    fn capabilities(&self) -> Capabilities;

    /// Makes a waiting shell: slow (about 5 ms), off the path of requests. All or nothing.
    fn prepare(&self, spec: &ShellSpec) -> Result<Arc<Shell>, PrepareError>;

    /// Gives a waiting shell its root and limits; on return its agent serves. Once per shell.
    fn attach(&self, shell: &Shell, attach: Attach) -> Result<(), AttachError>;

    /// Changes the limits of a running sandbox.
    fn set_limits(&self, shell: &Shell, resources: &Resources) -> std::io::Result<()>;

    /// Reads figures from outside; cheap.
    fn usage(&self, shell: &Shell) -> std::io::Result<Usage>;

    /// What to store so that [`Backend::adopt`] finds the shell again.
    fn record(&self, shell: &Shell) -> std::io::Result<ShellRecord>;

    /// Takes over a shell made by an earlier node process; `Ok(None)` if it is gone.
    fn adopt(&self, record: &ShellRecord) -> std::io::Result<Option<Arc<Shell>>>;

    /// Kills the whole tree, waits until it is gone and removes socket and cgroup. Repeatable.
    fn remove(&self, shell: &Shell) -> Result<(), RemoveError>;

    /// Removes whatever earlier runs left that belongs to none of `keep`; returns what it removed.
    fn reap_strays(&self, keep: &[SandboxId]) -> std::io::Result<Vec<String>>;
}
