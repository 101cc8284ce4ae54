//! Names of what a node owns on its host, so that several nodes can share one.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// The run directory whose node has the plain names.
const DEFAULT_RUN_DIR: &str = "/run/warren";

/// What one node calls its things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instance {
    /// Parent cgroup.
    pub(crate) cgroup: String,
    /// nftables table.
    pub(crate) table: String,
    /// Start of the names of veth devices; 6 characters at most, the last no digit.
    pub(crate) veth_prefix: String,
}

impl Instance {
    /// The names that belong to a run directory: the same at every start.
    pub(crate) fn of(run_dir: &Path) -> Self {
        if run_dir == Path::new(DEFAULT_RUN_DIR) {
            return Self {
                cgroup: "warren".to_owned(),
                table: "warren".to_owned(),
                veth_prefix: "wv".to_owned(),
            };
        }
        // `DefaultHasher::new` is the same function in every process of one build.
        let mut hasher = DefaultHasher::new();
        run_dir.hash(&mut hasher);
        let hash = hasher.finish();
        let letters: String = (0..4)
            .map(|i| char::from(b'a' + u8::try_from(hash >> (8 * i) & 0xff).unwrap_or(0) % 26))
            .collect();
        Self {
            cgroup: format!("warren-{hash:016x}"),
            table: format!("warren_{hash:016x}"),
            veth_prefix: format!("w{letters}v"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_node_has_plain_names_and_others_have_their_own() {
        let default = Instance::of(Path::new(DEFAULT_RUN_DIR));
        assert_eq!(default.table, "warren");
        let (a, b) = (
            Instance::of(Path::new("/run/a")),
            Instance::of(Path::new("/run/b")),
        );
        assert_ne!(a, b);
        assert_eq!(a, Instance::of(Path::new("/run/a")));
        assert_eq!(a.veth_prefix.len(), 6);
        assert!(a.veth_prefix.ends_with('v'));
    }
}
