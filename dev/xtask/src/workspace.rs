//! Where the workspace is and how cargo is called in it.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The checked-out tree and cargo's output directory.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// The workspace that cargo runs this program for; the target directory as cargo sees it.
    pub(crate) fn find() -> Result<Self> {
        // Asked at run time: clones that share a target directory also share this program.
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .context("run xtask through cargo: `cargo xtask ...`")?;
        let manifest = Path::new(&manifest);
        let root = manifest
            .ancestors()
            .nth(2)
            .context("xtask is not at dev/xtask of the workspace")?
            .to_owned();
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(dir) => root.join(dir),
            None => root.join("target"),
        };
        Ok(Self { root, target })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Directory with the two binaries side by side, so that `warren` finds its agent.
    pub(crate) fn dist(&self) -> PathBuf {
        self.target.join("warren-dist")
    }

    /// A cargo command in the workspace, with the toolchain that runs this program.
    pub(crate) fn cargo(&self, args: &[&str]) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .args(args);
        command
    }

    /// Paths of all files that belong to the tree (tracked, or new and not ignored), relative.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>> {
        let output = Command::new("git")
            .current_dir(&self.root)
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .output()
            .context("run git ls-files")?;
        if !output.status.success() {
            bail!(
                "git ls-files failed in {}: {}",
                self.root.display(),
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        let listed = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
        let mut files: Vec<PathBuf> = listed
            .split('\0')
            .filter(|name| !name.is_empty())
            .map(PathBuf::from)
            .filter(|path| self.root.join(path).is_file())
            .collect();
        files.sort();
        files.dedup();
        Ok(files)
    }
}
