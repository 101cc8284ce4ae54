//! Messages between node and spawner: one packet each on a `SOCK_SEQPACKET` unix socket.

use serde::{Deserialize, Serialize};

/// Longest packet, bytes: the texts of errors are the longest part.
pub(super) const PACKET_BYTES_MAX: usize = 64 * 1024;
/// Most descriptors of one packet.
pub(super) const FDS_MAX: usize = 2;

/// What the node asks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// Make a shell, in the spawner's own cgroup. Descriptor: the agent's listening socket.
    Spawn {
        /// Sandbox id; the name of the process in listings.
        id: String,
    },
    /// End the spawner. Shells live on.
    Quit,
}

/// What the spawner answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// The shell is being set up. Descriptors: pidfd; pipe that ends empty when the agent was executed
    /// or carries the text of the failure.
    Spawned {
        /// PID 1 of the sandbox, in the host's pid namespace.
        pid: i32,
    },
    /// Nothing was made.
    Failed {
        /// Step and reason.
        message: String,
    },
}
