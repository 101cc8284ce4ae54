//! What this machine can do, probed once and told with the fix for each lack.

use serde::Serialize;
use std::path::Path;

/// One fact about the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// Whether it is as needed.
    pub ok: bool,
    /// Whether Warren cannot work without it.
    pub required: bool,
    /// What was found.
    pub found: String,
    /// What to do if it is not ok.
    pub fix: Option<String>,
}

/// Kernel that mounts EROFS from a plain file.
const EROFS_FILE: (u32, u32) = (6, 12);
/// Kernel that stacks overlays on detached mounts.
const DETACHED_LAYERS: (u32, u32) = (6, 15);

/// A few for each of a thousand sandboxes.
const INOTIFY_INSTANCES: u64 = 8192;

/// Probes everything. Reads only; mounts nothing.
#[must_use]
pub fn report() -> Vec<Check> {
    let mut checks = vec![root(), kernel(), kernel_stacking()];
    checks.extend(filesystems());
    checks.push(user_namespaces());
    checks.push(cgroups());
    checks.extend(programs());
    checks.push(sudo());
    checks.push(usr_merge());
    checks.push(inotify());
    checks.push(resource_capability());
    checks.push(device(
        "KVM",
        "/dev/kvm",
        "virtual machines will run in software emulation",
    ));
    checks.push(device(
        "FUSE",
        "/dev/fuse",
        "layers on demand need it; eager layers do not",
    ));
    checks
}

fn check(name: &'static str, required: bool, ok: bool, found: &str, fix: &str) -> Check {
    let fix = (!ok).then(|| fix.to_owned());
    Check {
        name,
        ok,
        required,
        found: found.to_owned(),
        fix,
    }
}

fn root() -> Check {
    let uid = rustix::process::geteuid();
    let found = format!("uid {}", uid.as_raw());
    check(
        "root",
        true,
        uid.is_root(),
        &found,
        "run warren as root: it mounts and makes namespaces",
    )
}

/// `(major, minor)` of the running kernel.
#[must_use]
pub fn kernel_version() -> (u32, u32) {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let mut parts = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|p| p.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

fn kernel() -> Check {
    let version = kernel_version();
    let found = format!("{}.{}", version.0, version.1);
    let fix = "use Linux 6.12 or newer: it mounts EROFS layers from plain files";
    check(
        "kernel for EROFS files",
        true,
        version >= EROFS_FILE,
        &found,
        fix,
    )
}

fn kernel_stacking() -> Check {
    let version = kernel_version();
    let found = format!("{}.{}", version.0, version.1);
    let fix = "use Linux 6.15 or newer: it stacks overlays on detached mounts";
    check(
        "kernel for detached layers",
        true,
        version >= DETACHED_LAYERS,
        &found,
        fix,
    )
}

fn filesystems() -> Vec<Check> {
    let text = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let has = |name: &str| {
        text.lines()
            .any(|l| l.split('\t').next_back() == Some(name))
    };
    let one = |name, required, fix| {
        let ok = has(name);
        check(
            name,
            required,
            ok,
            if ok {
                "available"
            } else {
                "not in this kernel"
            },
            fix,
        )
    };
    vec![
        one(
            "erofs",
            true,
            "load or build the kernel module erofs (CONFIG_EROFS_FS)",
        ),
        one(
            "overlay",
            true,
            "load or build the kernel module overlay (CONFIG_OVERLAY_FS)",
        ),
        one(
            "btrfs",
            false,
            "load the kernel module btrfs; without it snapshots copy files",
        ),
    ]
}

fn user_namespaces() -> Check {
    let path = "/proc/sys/user/max_user_namespaces";
    let max = std::fs::read_to_string(path).unwrap_or_else(|_| "0".to_owned());
    let ok = max.trim().parse::<u64>().is_ok_and(|n| n > 0);
    let fix = "set the sysctl user.max_user_namespaces above the number of sandboxes";
    check(
        "user namespaces",
        true,
        ok,
        &format!("limit {}", max.trim()),
        fix,
    )
}

fn cgroups() -> Check {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let v2 = mounts
        .lines()
        .find(|l| l.split(' ').nth(2) == Some("cgroup2"));
    let controllers = v2
        .and_then(|l| l.split(' ').nth(1))
        .and_then(|dir| std::fs::read_to_string(Path::new(dir).join("cgroup.controllers")).ok())
        .unwrap_or_default();
    let by_v2 = ["cpu", "memory", "pids"]
        .iter()
        .all(|c| controllers.contains(c));
    let by_v1 = ["cpu", "memory", "pids", "freezer"].iter().all(|c| {
        mounts.lines().any(|l| {
            let mut f = l.split(' ').skip(2);
            f.next() == Some("cgroup") && f.next().is_some_and(|o| o.split(',').any(|o| o == *c))
        })
    });
    let found = match (by_v2, by_v1) {
        (true, _) => "version 2",
        (false, true) => "version 1",
        (false, false) => "no usable controllers",
    };
    let fix = "mount cgroup2 with the controllers cpu, memory and pids";
    check("cgroups", true, by_v2 || by_v1, found, fix)
}

fn programs() -> Vec<Check> {
    let one = |name, required, fix| match find_program(name) {
        Some(path) => check(name, required, true, &path, fix),
        None => check(name, required, false, "not installed", fix),
    };
    vec![
        one("nft", true, "apt-get install nftables"),
        one(
            "mkfs.btrfs",
            false,
            "apt-get install btrfs-progs, or put the data directory on btrfs",
        ),
    ]
}

fn find_program(name: &str) -> Option<String> {
    let dirs = [
        "/usr/local/sbin",
        "/usr/local/bin",
        "/usr/sbin",
        "/usr/bin",
        "/sbin",
        "/bin",
    ];
    dirs.iter()
        .map(|d| format!("{d}/{name}"))
        .find(|p| Path::new(p).is_file())
}

fn sudo() -> Check {
    let path = find_program("sudo");
    let found = path.as_deref().unwrap_or("not installed");
    let fix = "apt-get install sudo, if sandboxes of the template host are to have it";
    check("sudo", false, path.is_some(), found, fix)
}

fn usr_merge() -> Check {
    let merged = std::fs::read_link("/bin").is_ok_and(|t| t.ends_with("usr/bin"));
    let found = if merged {
        "/bin is a link into /usr"
    } else {
        "/bin is a directory"
    };
    let fix = "apt-get install usrmerge; without it the template host is not available";
    check("merged /usr", false, merged, found, fix)
}

/// All sandboxes share one user's instances, which editors and build tools take some of each.
fn inotify() -> Check {
    let path = "/proc/sys/fs/inotify/max_user_instances";
    let max = std::fs::read_to_string(path).unwrap_or_default();
    let ok = max
        .trim()
        .parse::<u64>()
        .is_ok_and(|n| n >= INOTIFY_INSTANCES);
    let fix = "set the sysctl fs.inotify.max_user_instances to 8192: all sandboxes together have that many";
    check(
        "inotify instances",
        false,
        ok,
        &format!("limit {}", max.trim()),
        fix,
    )
}

fn resource_capability() -> Check {
    use rustix::thread::CapabilitySet;
    let ok = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_RESOURCE));
    let found = if ok { "held" } else { "missing" };
    let fix = "give CAP_SYS_RESOURCE if resource limits above warren's own are wanted in sandboxes";
    check("CAP_SYS_RESOURCE", false, ok, found, fix)
}

fn device(name: &'static str, path: &str, fix: &str) -> Check {
    let ok = Path::new(path).exists();
    let found = if ok {
        format!("{path} is there")
    } else {
        format!("{path} is missing")
    };
    check(name, false, ok, &found, fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lack_has_a_fix_and_nothing_else_has() {
        let report = report();
        assert!(report.len() > 10);
        for check in report {
            assert_eq!(check.fix.is_some(), !check.ok, "{check:?}");
            assert!(!check.found.is_empty(), "{check:?}");
        }
    }

    #[test]
    fn this_kernel_has_a_version() {
        assert!(kernel_version() > (2, 6));
    }
}
