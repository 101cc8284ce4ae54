//! What the node needs from the machine: shells with their network and writable storage.

use model::attach::AttachRequest;
use model::{RootPlan, SandboxId};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::sync::Arc;

/// A waiting or running shell with its network and writable storage.
#[derive(Debug, Clone)]
pub struct HostShell {
    /// The process side.
    pub shell: Arc<isolation::Shell>,
    /// What finds it again after a restart.
    pub record: HostRecord,
}

impl HostShell {
    /// Id of the sandbox.
    #[must_use]
    pub fn id(&self) -> &SandboxId {
        &self.shell.id
    }
}

/// What is stored to find a shell again after a restart of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRecord {
    /// The process side.
    pub shell: isolation::ShellRecord,
    /// Index of its network.
    pub network_index: u32,
    /// Whether it reaches the internet; a waiting shell does, the node notes otherwise when it attaches.
    pub internet: bool,
}

/// What turns a waiting shell into a sandbox.
#[derive(Debug)]
pub struct Order {
    /// The decided root.
    pub plan: RootPlan,
    /// Message for the agent; the host fills in mount targets and descriptor counts.
    pub request: AttachRequest,
    /// Whether it reaches the internet.
    pub internet: bool,
}

/// The machine failed at something.
#[derive(Debug, thiserror::Error)]
#[error("{action} of sandbox {id}")]
pub struct HostError {
    /// What was attempted, as a noun: `prepare`, `mount root`, `attach`, `remove`.
    pub action: &'static str,
    /// Sandbox.
    pub id: String,
    /// Whether want of space, memory or another bounded thing is the reason.
    pub exhausted: bool,
    /// Cause.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// The machine below the node. All calls block; callers bring a thread.
pub trait Host: Send + Sync + Debug {
    /// Name of the isolation kind, as in the API.
    fn kind(&self) -> &'static str;

    /// Makes a waiting shell with network and writable storage: slow, off the path of requests. All or nothing.
    fn prepare_shell(&self, id: &SandboxId) -> Result<HostShell, HostError>;

    /// Mounts the root and gives it to a waiting shell; on return its agent serves. Once per shell;
    /// after a failure the caller removes the shell.
    fn attach(&self, shell: &HostShell, order: Order) -> Result<(), HostError>;

    /// Sends the kill to all its processes and returns; does not wait and must not be slow.
    fn kill(&self, shell: &HostShell) -> Result<(), HostError>;

    /// Kills, waits until nothing runs, then removes cgroup, network, mounts and files. Repeatable.
    fn remove(&self, shell: &HostShell) -> Result<(), HostError>;

    /// Reads figures from outside; cheap.
    fn usage(&self, shell: &HostShell) -> Result<isolation::Usage, HostError>;

    /// Takes over a shell made by an earlier node process; `Ok(None)` if it is gone.
    fn adopt(&self, record: &HostRecord) -> Result<Option<HostShell>, HostError>;

    /// Removes all that earlier runs left and that belongs to none of `keep`; returns what it removed.
    fn reap_strays(&self, keep: &[SandboxId]) -> Result<Vec<String>, HostError>;

    /// What this machine can do and what it lacks, for people and tools.
    fn report(&self) -> serde_json::Value;
}
