//! What the layer needs to know of the machine: names and links, and public certificates.

use crate::error::HostError;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Directories that must be links into `/usr` for the template to work.
const MERGED: [&str; 3] = ["bin", "sbin", "lib"];
/// Directories that are such links where they exist.
const MERGED_TOO: [&str; 5] = ["lib32", "lib64", "libo32", "libx32", "libexec"];
/// Where links into `/etc/alternatives` lie, and how deep to look.
const LINKED: [(&str, usize); 5] = [
    ("usr/bin", 0),
    ("usr/sbin", 0),
    ("usr/games", 0),
    ("usr/lib", 1),
    ("usr/share/man", 2),
];
/// Links followed within `/etc/alternatives`.
const CHAIN_MAX: usize = 8;

/// Facts about one root.
#[derive(Debug, Default)]
pub(super) struct Probe {
    /// Name at the root and target.
    pub(super) merged: BTreeMap<String, String>,
    /// Name in `/etc/alternatives` and the file under `/usr` that it stands for.
    pub(super) alternatives: BTreeMap<String, String>,
    /// All certificates, one after the other.
    pub(super) certificates: String,
    pub(super) has_os_release: bool,
}

impl Probe {
    pub(super) fn of(root: &Path) -> Result<Self, HostError> {
        let mut probe = Self {
            has_os_release: root.join("usr/lib/os-release").is_file(),
            ..Self::default()
        };
        for name in MERGED.iter().chain(&MERGED_TOO) {
            match merged_target(root, name) {
                Some(target) => drop(probe.merged.insert((*name).to_owned(), target)),
                None if MERGED.contains(name) => {
                    return Err(HostError::NotMerged {
                        path: root.join(name),
                    });
                }
                None => {}
            }
        }
        for (directory, depth) in LINKED {
            alternatives(root, &root.join(directory), depth, &mut probe.alternatives)?;
        }
        certificates(
            &root.join("usr/share/ca-certificates"),
            &mut probe.certificates,
        )?;
        Ok(probe)
    }
}

fn merged_target(root: &Path, name: &str) -> Option<String> {
    let target = fs::read_link(root.join(name)).ok()?;
    let target = target.to_str()?;
    let within = target.strip_prefix('/').unwrap_or(target);
    within.starts_with("usr/").then(|| within.to_owned())
}

/// The entries of a directory in order of name; none if there is no such directory.
fn entries(directory: &Path) -> Result<Vec<PathBuf>, HostError> {
    let failed = |source| HostError::Read {
        path: directory.to_owned(),
        source,
    };
    let listing = match fs::read_dir(directory) {
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(Vec::new());
        }
        listing => listing.map_err(failed)?,
    };
    let mut paths = Vec::new();
    for entry in listing {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort_unstable();
    Ok(paths)
}

fn alternatives(
    root: &Path,
    directory: &Path,
    depth: usize,
    out: &mut BTreeMap<String, String>,
) -> Result<(), HostError> {
    for path in entries(directory)? {
        let Ok(target) = fs::read_link(&path) else {
            let is_directory = depth > 0 && path.is_dir();
            if is_directory {
                alternatives(root, &path, depth - 1, out)?;
            }
            continue;
        };
        let Some(name) = alternative_name(&target) else {
            continue;
        };
        if let Some(file) = file_under_usr(root, &name) {
            out.insert(name, file);
        }
    }
    Ok(())
}

/// `name` of `/etc/alternatives/name`.
fn alternative_name(target: &Path) -> Option<String> {
    let name = target.strip_prefix("/etc/alternatives").ok()?.to_str()?;
    (!name.is_empty() && !name.contains('/')).then(|| name.to_owned())
}

/// What the alternative stands for on this machine, if that is under `/usr`.
fn file_under_usr(root: &Path, name: &str) -> Option<String> {
    let mut name = name.to_owned();
    for _ in 0..CHAIN_MAX {
        let target = fs::read_link(root.join("etc/alternatives").join(&name)).ok()?;
        match alternative_name(&target) {
            Some(next) => name = next,
            None => {
                let text = target.to_str()?;
                let leaves = text.split('/').any(|part| part == "..");
                return (text.starts_with("/usr/") && !leaves).then(|| text.to_owned());
            }
        }
    }
    None
}

/// Gathers `*.crt` below the directory in order of path; what is no text is no certificate.
fn certificates(directory: &Path, out: &mut String) -> Result<(), HostError> {
    for path in entries(directory)? {
        if path.is_dir() && !path.is_symlink() {
            certificates(&path, out)?;
        } else if path.extension().is_some_and(|e| e == "crt") {
            let bytes = fs::read(&path).map_err(|source| HostError::Read { path, source })?;
            if let Ok(text) = String::from_utf8(bytes) {
                out.push_str(text.trim_end());
                out.push('\n');
            }
        }
    }
    Ok(())
}
