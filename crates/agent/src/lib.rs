//! The server inside every sandbox: starts programs, moves files, opens ports; speaks envd's protocol.
//!
//! ```text
//! serve ── route ─┬─ tunnel              CONNECT: a port of the sandbox
//!                 ├─ process  (rpc)      Start, Connect, List, input, signals
//!                 ├─ filesystem (rpc)    Stat, MakeDir, Move, ListDir, Remove
//!                 └─ files               up- and download
//! ```
//! One runtime thread; file calls go to a small blocking pool. All state is in [`Sandbox`]. What turns a
//! waiting process into PID 1 of a sandbox is in [`attach`]; tests serve without it.

mod accounts;
pub mod attach;
mod connect;
mod environment;
mod files;
mod filesystem;
mod paths;
mod process;
mod reaper;
mod route;
mod sandbox;
mod serve;
mod signature;
mod tree;
mod tunnel;
mod waiting;

pub use reaper::Reaping;
pub use sandbox::{Config, Sandbox};
pub use serve::serve;
pub use tree::Cgroups;
pub use waiting::Waiting;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; state behind our locks is consistent between statements, so a panic elsewhere does not spoil it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
