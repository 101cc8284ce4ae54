//! Builds the two programs and puts them side by side in `<target>/warren-dist`.

use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds `warren` (release) and `warren-agent` (static), returns the directory that holds both.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf> {
    let triple = host_triple()?;
    must_succeed(workspace.cargo(&["build", "--release", "--package", "warren"]))?;
    let mut agent = workspace.cargo(&["build", "--package", "agent", "--profile", "agent"]);
    // An explicit --target keeps the static flag away from build scripts and proc macros.
    agent
        .args(["--target", &triple])
        .env("RUSTFLAGS", "-C target-feature=+crt-static");
    must_succeed(agent)?;

    let dist = workspace.dist();
    fs::create_dir_all(&dist).with_context(|| format!("make directory {}", dist.display()))?;
    let target = workspace.target();
    place(&target.join("release/warren"), &dist.join("warren"))?;
    let built = target.join(&triple).join("agent/warren-agent");
    place(&built, &dist.join("warren-agent"))?;
    Ok(dist)
}

fn must_succeed(mut command: Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("run {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// Replaces `to` by a copy of `from`. The old file is unlinked first: it may be running.
fn place(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_file(to).with_context(|| format!("remove {}", to.display()))?;
    }
    fs::copy(from, to)
        .with_context(|| format!("copy {} to {}", from.display(), to.display()))
        .map(|_bytes| ())
}

fn host_triple() -> Result<String> {
    let output = Command::new("rustc")
        .arg("-vV")
        .output()
        .context("run rustc -vV")?;
    let text = String::from_utf8(output.stdout).context("rustc -vV is not UTF-8")?;
    text.lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .context("rustc -vV names no host")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placing_replaces_an_existing_file_and_keeps_the_execute_bit() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("temporary directory");
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        for (path, text) in [(&from, "new"), (&to, "old and longer")] {
            let mut file = fs::File::create(path).expect("create");
            std::io::Write::write_all(&mut file, text.as_bytes()).expect("write");
        }
        fs::set_permissions(&from, fs::Permissions::from_mode(0o755)).expect("chmod");
        place(&from, &to).expect("place");
        assert_eq!(fs::read_to_string(&to).expect("read"), "new");
        let mode = fs::metadata(&to).expect("stat").permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    }

    #[test]
    fn the_host_triple_has_at_least_three_parts() {
        let triple = host_triple().expect("rustc is installed where tests run");
        assert!(triple.split('-').count() >= 3, "{triple}");
    }
}
