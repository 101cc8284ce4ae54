//! The node daemon as a library: lifecycle of sandboxes, pool of waiting shells, API server, data-plane proxy.
//!
//! It joins the crates below it and touches the machine only through two traits: [`Host`] (shells, roots,
//! network) and [`Templates`] (catalog and import). Everything else here is decisions and HTTP.

mod config;
mod create;
mod daemon;
mod end;
mod error;
mod history;
mod host;
mod idempotency;
mod keys;
mod library;
mod listing;
mod machine;
mod observe;
mod pool;
mod proxy;
mod record;
mod registry;
mod routes;
mod sandbox;
mod seconds;
mod server;
mod templates;

pub use config::NodeConfig;
pub use daemon::{Node, StartError};
pub use error::ApiError;
pub use host::{Host, HostError, HostRecord, HostShell, Order};
pub use keys::KeyError;
pub use library::Library;
pub use machine::{CloseError, Machine, MachineConfig, OpenError, run_spawner};
pub use record::RecordError;
pub use sys::host::{Check as HostCheck, report as host_report};
pub use templates::{ResolvedTemplate, TemplateError, Templates};
