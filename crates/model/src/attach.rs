//! The two messages that turn a waiting shell into a sandbox.
//!
//! Sent by the node on the first two connections to the agent's socket: a `u32` little-endian length,
//! then a [`Message`] as JSON, with file descriptors as ancillary data of the first byte. The agent answers
//! in the same framing with [`AttachReply`] and closes the connection. First [`Message::Prepare`], when the
//! shell is made, then [`Message::Attach`], when it is claimed; later connections are HTTP/2.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Longest attach message either side accepts, bytes; environments may be large (P17), hence MiBs.
pub const MESSAGE_BYTES_MAX: u32 = 8 << 20;
/// Most descriptors in one message; the kernel's own limit (SCM_MAX_FD) is 253.
pub const FDS_MAX: usize = 64;
/// First inherited descriptor of the agent: its listening unix socket.
pub const FD_LISTEN: i32 = 3;
/// Inherited detached mount tree that becomes `/proc`.
pub const FD_PROC: i32 = 4;
/// Inherited detached mount tree that becomes `/dev`.
pub const FD_DEV: i32 = 5;
/// Inherited detached mount tree that becomes `/sys`.
pub const FD_SYS: i32 = 6;

/// What the node tells a waiting agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Get ready.
    Prepare(PrepareRequest),
    /// Become the sandbox.
    Attach(Box<AttachRequest>),
}

/// Where commands will run, told ahead so that the first one can be prepared.
///
/// Descriptors: [`Self::cgroup_join`] open `cgroup.procs` files; if [`Self::cgroup_track`], one cgroup
/// directory in which the agent makes a child per command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrepareRequest {
    /// How many `cgroup.procs` descriptors there are.
    pub cgroup_join: usize,
    /// Whether a cgroup directory for command trees follows last.
    pub cgroup_track: bool,
}

/// Everything the agent needs to become the sandbox.
///
/// Descriptors: the root mount; one mount per [`Self::extra_mounts`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachRequest {
    /// Sandbox id, also `E2B_SANDBOX_ID`.
    pub sandbox_id: String,
    /// Template id, also `E2B_TEMPLATE_ID`.
    pub template_id: String,
    /// Host name to set.
    pub hostname: String,
    /// Absolute targets of the extra mounts, in order; missing directories are made.
    pub extra_mounts: Vec<String>,
    /// Files the node owns (hosts, resolv.conf, hostname); each replaces what is there, also a symlink.
    pub files: Vec<AttachFile>,
    /// What may be done inside.
    pub confinement: Confinement,
    /// Process defaults and tokens.
    pub init: Init,
}

/// A file written into the root before anything runs in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachFile {
    /// Absolute path.
    pub path: String,
    /// Content.
    pub content: String,
    /// Permission bits.
    pub mode: u32,
}

/// Restrictions that hold for the agent and all it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Whether setuid programs (sudo) are without effect.
    pub no_new_privs: bool,
    /// Resource limits by kernel number (`RLIMIT_*`): soft, hard.
    pub rlimits: Vec<(u32, u64, u64)>,
}

/// Defaults of every process, and the token that opens the data plane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Init {
    /// The image's environment, in order; lowest precedence.
    pub image_env: Vec<(String, String)>,
    /// The environment given at create; over the image's.
    pub env: BTreeMap<String, String>,
    /// Default user as in an image's USER; `None`: `user` if it exists, else root.
    pub user: Option<String>,
    /// Default working directory; `None`: the user's home.
    pub workdir: Option<String>,
    /// Token that data-plane calls must carry (`X-Access-Token`); `None`: open.
    pub access_token: Option<String>,
}

/// The agent's answer. After a failure the agent exits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachReply {
    /// Locked down and listening.
    Ready,
    /// Which step failed, on what, and why.
    Failed(String),
}
