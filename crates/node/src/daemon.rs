//! The running node: start with adoption, serving, stop.

use crate::config::NodeConfig;
use crate::end::{Removals, watch};
use crate::history::Ended;
use crate::host::{Host, HostError};
use crate::idempotency::Idempotency;
use crate::keys::{ApiKeys, KeyError, Seed};
use crate::observe;
use crate::pool::{Bounds, Pool};
use crate::record::{Record, RecordError, Records};
use crate::registry::Registry;
use crate::sandbox::{Sandbox, truncated};
use crate::server;
use crate::templates::{Catalog, Templates};
use jiff::Timestamp;
use model::{Cause, SandboxId};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How often metrics fold their samples when nobody scrapes.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);
/// How often a stopping node looks whether all is removed.
const STOP_POLL: Duration = Duration::from_millis(5);

/// A node cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A directory could not be made.
    #[error("make directory {path}", path = path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// API keys or seed.
    #[error("open keys")]
    Keys(#[source] KeyError),
    /// Records of an earlier process.
    #[error("open records of sandboxes")]
    Records(#[source] RecordError),
    /// What an earlier process left.
    #[error("adopt what an earlier node left")]
    Adopt(#[source] HostError),
    /// A worker thread failed.
    #[error("run start work")]
    Worker(#[source] tokio::task::JoinError),
    /// The address.
    #[error("listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

/// What all handlers share.
#[derive(Debug)]
pub(crate) struct Daemon {
    pub(crate) config: NodeConfig,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) catalog: Catalog,
    pub(crate) keys: ApiKeys,
    pub(crate) seed: Seed,
    pub(crate) pool: Arc<Pool>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) records: Records,
    pub(crate) removals: Removals,
    pub(crate) idempotency: Arc<Idempotency>,
}

/// A node that serves. Stop it by its token, then wait.
#[derive(Debug)]
pub struct Node {
    address: SocketAddr,
    main: JoinHandle<()>,
}

impl Node {
    /// Adopts what an earlier node left, fills the pool behind, and serves until `stop` fires.
    pub async fn start(
        config: NodeConfig,
        host: Arc<dyn Host>,
        templates: Arc<dyn Templates>,
        stop: CancellationToken,
    ) -> Result<Self, StartError> {
        let daemon = Arc::new(Daemon::open(config, host, templates)?);
        let adopting = Arc::clone(&daemon);
        let adopted = tokio::task::spawn_blocking(move || adopting.adopt())
            .await
            .map_err(StartError::Worker)??;
        for sandbox in adopted {
            tokio::spawn(watch(Arc::clone(&daemon), sandbox));
        }
        let listen = daemon.config.listen;
        let error = |source| StartError::Listen {
            address: listen,
            source,
        };
        let listener = TcpListener::bind(listen).await.map_err(error)?;
        let address = listener.local_addr().map_err(error)?;
        tracing::info!(%address, "node serves");
        Ok(Self {
            address,
            main: tokio::spawn(run(daemon, listener, stop)),
        })
    }

    /// The address it serves on.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the node has stopped and removed its sandboxes.
    pub async fn wait(self) {
        if let Err(error) = self.main.await {
            tracing::error!(%error, "node failed");
        }
    }
}

async fn run(daemon: Arc<Daemon>, listener: TcpListener, stop: CancellationToken) {
    let pool_stop = CancellationToken::new();
    let pool = tokio::spawn(Arc::clone(&daemon.pool).run(pool_stop.clone()));
    let upkeep = tokio::spawn(async {
        loop {
            tokio::time::sleep(UPKEEP_EVERY).await;
            observe::recorder().run_upkeep();
        }
    });
    server::serve(Arc::clone(&daemon), listener, stop).await;
    for sandbox in daemon.registry.close() {
        daemon.end(&sandbox, Cause::Evicted);
    }
    pool_stop.cancel();
    let all_removed = async {
        if let Err(error) = pool.await {
            tracing::error!(%error, "pool failed");
        }
        while !daemon.registry.is_empty() {
            tokio::time::sleep(STOP_POLL).await;
        }
    };
    if tokio::time::timeout(daemon.config.stop_timeout, all_removed)
        .await
        .is_err()
    {
        tracing::error!("not all sandboxes were removed in time; the next start reaps them");
    }
    upkeep.abort();
    tracing::info!("node stopped");
}

impl Daemon {
    fn open(
        config: NodeConfig,
        host: Arc<dyn Host>,
        templates: Arc<dyn Templates>,
    ) -> Result<Self, StartError> {
        make_dir(&config.data_dir)?;
        observe::recorder();
        let keys = ApiKeys::open(&config.data_dir.join("api-key")).map_err(StartError::Keys)?;
        let seed = Seed::open(&config.data_dir.join("seed")).map_err(StartError::Keys)?;
        let records = Records::open(config.records_dir()).map_err(StartError::Records)?;
        let bounds = Bounds {
            low: config.pool_low.min(config.pool_high),
            high: config.pool_high,
            parallel: config.pool_parallel,
        };
        let pool = Pool::new(Arc::clone(&host), seed.node_number(), bounds);
        Ok(Self {
            registry: Arc::new(Registry::new(config.sandboxes_max, config.history_max)),
            catalog: Catalog::new(templates),
            pool: Arc::new(pool),
            removals: Removals::new(),
            idempotency: Arc::default(),
            config,
            host,
            keys,
            seed,
            records,
        })
    }

    /// Takes over what runs, reaps the rest. Blocks.
    fn adopt(&self) -> Result<Vec<Arc<Sandbox>>, StartError> {
        let records = self.records.load().map_err(StartError::Records)?;
        let mut adopted = Vec::new();
        for record in records {
            let found = self.host.adopt(&record.host).map_err(StartError::Adopt)?;
            let Some(shell) = found else {
                self.note_lost(record)?;
                continue;
            };
            let sandbox = Sandbox::running(record.facts, record.token, shell, record.end_at);
            let sandbox = Arc::new(sandbox);
            let facts = &sandbox.facts;
            self.catalog.adopt(&facts.template_id, &facts.layers);
            self.registry.insert(&sandbox);
            tracing::info!(id = %sandbox.id(), "sandbox adopted");
            adopted.push(sandbox);
        }
        let keep: Vec<SandboxId> = adopted.iter().map(|s| s.id().clone()).collect();
        for stray in self.host.reap_strays(&keep).map_err(StartError::Adopt)? {
            tracing::info!(stray, "removed what an earlier node left");
        }
        Ok(adopted)
    }

    /// A sandbox that ended while no node watched it.
    fn note_lost(&self, record: Record) -> Result<(), StartError> {
        let id = &record.facts.id;
        self.records.delete(id).map_err(StartError::Records)?;
        tracing::info!(%id, cause = %Cause::NodeLost, "sandbox ended while the node was away");
        self.registry.note_ended(Ended {
            facts: record.facts,
            cause: Cause::NodeLost,
            end_at: record.end_at,
            ended_at: truncated(Timestamp::now()),
        });
        Ok(())
    }
}

fn make_dir(path: &Path) -> Result<(), StartError> {
    std::fs::create_dir_all(path).map_err(|source| StartError::Directory {
        path: path.to_owned(),
        source,
    })
}
