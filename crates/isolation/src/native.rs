//! Containers by Warren's own launcher: namespaces, cgroup, waiting agent, claim by descriptor.
//!
//! The node asks the spawner (a small process) for shells and talks to each waiting agent itself.

mod client;
mod protocol;
mod shell;
mod spawner;
mod strays;

pub use client::{ConnectError, Native, NativeConfig, spawner_listens};
pub use spawner::{SpawnerConfig, SpawnerError, run as run_spawner};
