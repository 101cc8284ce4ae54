//! What a node is told at its start. Checked by whoever reads the file or the flags.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Configuration of one node.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// Address of API and data plane; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Durable state: API keys, seed.
    pub data_dir: PathBuf,
    /// State that ends with the machine: records of running sandboxes.
    pub run_dir: PathBuf,
    /// The pool begins to refill below this many waiting shells.
    pub pool_low: usize,
    /// The pool refills up to this many; 0 turns it off.
    pub pool_high: usize,
    /// Shells made at the same time when refilling.
    pub pool_parallel: usize,
    /// Longest time to live that a client may ask for.
    pub timeout_max: Duration,
    /// Most sandboxes at once.
    pub sandboxes_max: usize,
    /// Name servers written into each sandbox.
    pub dns: Vec<Ipv4Addr>,
    /// Domain under which sandboxes have host names, `<port>-<id>.<domain>`.
    pub domain: Option<String>,
    /// Ended sandboxes that inspect still knows.
    pub history_max: usize,
    /// Connections that are served at once; later ones wait to be accepted.
    pub connections_max: usize,
    /// How long a stopping node waits for its sandboxes to be removed.
    pub stop_timeout: Duration,
}

impl NodeConfig {
    /// The defaults, with state in these directories.
    #[must_use]
    pub fn new(data_dir: PathBuf, run_dir: PathBuf) -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9277)),
            data_dir,
            run_dir,
            pool_low: 16,
            pool_high: 32,
            pool_parallel: 2,
            timeout_max: Duration::from_secs(24 * 3600),
            sandboxes_max: 10_000,
            dns: vec![Ipv4Addr::new(1, 1, 1, 1), Ipv4Addr::new(8, 8, 8, 8)],
            domain: None,
            history_max: 10_000,
            connections_max: 16_384,
            stop_timeout: Duration::from_secs(30),
        }
    }

    /// Where records of running sandboxes are kept.
    #[must_use]
    pub fn records_dir(&self) -> PathBuf {
        self.run_dir.join("records")
    }
}
