//! A resolved root: which layers, bottom to top, and how processes start in it.

use crate::{Digest, Resources};
use serde::{Deserialize, Serialize};

/// Where one element of a root comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RootSource {
    /// An immutable layer in the store.
    Layer(Digest),
    /// This machine's `/usr`, seen at `/usr`; the template `host` alone uses it.
    HostUsr,
}

/// Defaults of every process, from the image's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessDefaults {
    /// `NAME=value` pairs in image order.
    pub env: Vec<(String, String)>,
    /// As in the image: `name`, `uid`, `name:group`, `uid:gid`. `None`: the agent's choice.
    pub user: Option<String>,
    /// Absolute path. `None`: the user's home.
    pub workdir: Option<String>,
}

/// A root that is fully decided before anything is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootPlan {
    /// Bottom to top.
    pub sources: Vec<RootSource>,
    /// How processes start in it.
    pub process: ProcessDefaults,
    /// What it may use.
    pub resources: Resources,
}

impl RootPlan {
    /// The layers, bottom to top, without the machine's own `/usr`.
    pub fn layers(&self) -> impl Iterator<Item = &Digest> {
        self.sources.iter().filter_map(|s| match s {
            RootSource::Layer(d) => Some(d),
            RootSource::HostUsr => None,
        })
    }

    /// Whether this machine's `/usr` is part of the root.
    #[must_use]
    pub fn uses_host_usr(&self) -> bool {
        self.sources.contains(&RootSource::HostUsr)
    }
}
