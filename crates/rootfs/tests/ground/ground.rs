//! A data and a run directory of a test, and layers made by `mkfs.erofs` to put into them.

use model::{Digest, ProcessDefaults, Resources, RootPlan, RootSource, SandboxId};
use rootfs::{Roots, RootsConfig};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

pub(crate) struct Ground {
    dir: TempDir,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().expect("temporary directory");
        for sub in ["data/cache", "run", "trees"] {
            fs::create_dir_all(dir.path().join(sub)).expect("mkdir");
        }
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(dir.path(), open).expect("chmod");
        Self { dir }
    }

    pub(crate) fn path(&self, sub: &str) -> PathBuf {
        self.dir.path().join(sub)
    }

    pub(crate) fn open(&self) -> Roots {
        Roots::open(RootsConfig {
            data_dir: self.path("data"),
            run_dir: self.path("run"),
        })
        .expect("roots open")
    }

    /// Stores a layer of the tree that `fill` makes; its digest is made of `number`.
    pub(crate) fn layer(&self, number: u8, fill: impl FnOnce(&Path)) -> Digest {
        let digest = Digest::from_sha256([number; 32]);
        let tree = self.path(&format!("trees/{number}"));
        fs::create_dir(&tree).expect("mkdir");
        fill(&tree);
        let image = self.path(&format!("data/cache/{}.erofs", digest.hex()));
        let made = Command::new("mkfs.erofs").arg(image).arg(&tree).output();
        assert!(made.expect("mkfs.erofs runs").status.success());
        digest
    }
}

pub(crate) fn file(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().expect("has a parent")).expect("mkdir");
    std::io::Write::write_all(&mut File::create(path).expect("create"), text.as_bytes())
        .expect("write");
}

pub(crate) fn plan(layers: &[Digest]) -> RootPlan {
    RootPlan {
        sources: layers.iter().copied().map(RootSource::Layer).collect(),
        process: ProcessDefaults::default(),
        resources: Resources::default(),
    }
}

pub(crate) fn id(number: u8) -> SandboxId {
    SandboxId::new(number.into(), [number; 16])
}

pub(crate) fn mount_table() -> String {
    fs::read_to_string("/proc/self/mountinfo").expect("mountinfo")
}

/// Layers that are mounted under this ground's own run directory; other nodes of the host are not counted.
pub(crate) fn layers_mounted(ground: &Ground) -> usize {
    let own = format!("{}/", ground.path("run/layers").display());
    mount_table().matches(&own).count()
}
