//! Why a sandbox ended. Every end carries exactly one cause.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Machine-readable reason of a sandbox's end (design section 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// PID 1 or the start command ended by itself.
    UserExit,
    /// A client asked for the end.
    Killed,
    /// The sandbox's own timeout passed.
    Timeout,
    /// The memory limit was hit and nothing was left to kill but the sandbox.
    Oom,
    /// The writable storage ran out.
    DiskFull,
    /// The node ended it to make room or because the node itself was stopped.
    Evicted,
    /// Its files are gone.
    StorageLost,
    /// Its node is gone.
    NodeLost,
    /// It never came up.
    StartFailed,
    /// A policy ended it.
    Policy,
}

impl Cause {
    /// The wire word, the same in API, CLI, logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UserExit => "user_exit",
            Self::Killed => "killed",
            Self::Timeout => "timeout",
            Self::Oom => "oom",
            Self::DiskFull => "disk_full",
            Self::Evicted => "evicted",
            Self::StorageLost => "storage_lost",
            Self::NodeLost => "node_lost",
            Self::StartFailed => "start_failed",
            Self::Policy => "policy",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
