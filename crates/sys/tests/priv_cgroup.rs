//! Limits and figures of real control groups. Needs root and writable cgroups.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Duration;
use sys::cgroup::{Cgroups, Limits};

/// The node's parent group of one test; gone with it.
struct Groups(Box<dyn Cgroups>);

impl Groups {
    fn open(test: &str) -> Option<Self> {
        let name = format!("warren-test-{}-{test}", std::process::id());
        match sys::cgroup::open(&name) {
            Ok(groups) => Some(Self(groups)),
            Err(e) => {
                testkit::skipped(test, &format!("needs root and writable cgroups: {e}"));
                None
            }
        }
    }

    /// Runs a shell command as a member of `group`.
    fn run(&self, group: &str, script: &str) -> std::process::Output {
        let mut files = self.0.join_files(group).expect("join files");
        let child = Command::new("sh")
            .args(["-c", &format!("read go; {script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.expect("sh");
        for file in &mut files {
            join(file, child.id());
        }
        child
            .stdin
            .take()
            .expect("piped")
            .write_all(b"go\n")
            .expect("go");
        child.wait_with_output().expect("output")
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for group in self.0.list().expect("list") {
            for pid in self.0.procs(&group).expect("procs") {
                let pidfd = sys::process::pidfd(pid).expect("pidfd");
                sys::process::kill(pidfd.as_fd()).expect("kill");
                sys::process::wait_exit(pidfd.as_fd(), Duration::from_secs(5)).expect("wait");
            }
            // A process is counted until it is reaped, a moment after its end.
            let removed = (0..100).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                self.0.remove(&group).is_ok()
            });
            assert!(removed, "group {group} stays");
        }
        self.0.close().expect("close");
    }
}

fn join(file: &mut File, pid: u32) {
    file.write_all(pid.to_string().as_bytes()).expect("join");
}

const SMALL: Limits = Limits {
    cpu_milli: 1000,
    memory_bytes: 64 << 20,
    pids_max: 16,
};

#[test]
fn more_memory_than_the_limit_is_killed_and_counted() {
    let Some(groups) = Groups::open("memory") else {
        return;
    };
    groups.0.create("one").expect("create");
    groups.0.set_limits("one", &SMALL).expect("limits");
    let within = groups.run("one", "head -c 20m /dev/zero | tail | wc -c");
    assert_eq!(String::from_utf8_lossy(&within.stdout).trim(), "20971520");
    assert_eq!(groups.0.usage("one").expect("usage").oom_kills, 0);
    let beyond = groups.run("one", "head -c 200m /dev/zero | tail | wc -c");
    assert_ne!(String::from_utf8_lossy(&beyond.stdout).trim(), "209715200");
    let usage = groups.0.usage("one").expect("usage");
    assert!(usage.oom_kills > 0 && usage.cpu_usec > 0, "{usage:?}");
}

#[test]
fn more_processes_than_the_limit_are_refused() {
    let Some(groups) = Groups::open("pids") else {
        return;
    };
    groups.0.create("one").expect("create");
    groups.0.set_limits("one", &SMALL).expect("limits");
    let script =
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18; do sleep 3 & done; kill $(jobs -p)";
    let output = groups.run("one", script);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.to_lowercase().contains("fork"), "{text}");
}

#[test]
fn limits_go_up_and_down_and_groups_are_listed_until_removed() {
    let Some(groups) = Groups::open("change") else {
        return;
    };
    groups.0.create("one").expect("create");
    for megabytes in [64, 256, 128] {
        let limits = Limits {
            memory_bytes: megabytes << 20,
            ..SMALL
        };
        groups.0.set_limits("one", &limits).expect("limits");
    }
    let mut names = groups.0.list().expect("list");
    names.sort();
    assert_eq!(names, ["agents", "one"]);
    groups.0.remove("one").expect("remove");
    groups
        .0
        .remove("one")
        .expect("removing what is gone is fine");
    assert_eq!(groups.0.list().expect("list"), ["agents"]);
}

#[test]
fn a_group_with_groups_below_is_removed_whole() {
    let Some(groups) = Groups::open("tree") else {
        return;
    };
    groups.0.create("one").expect("create");
    let dir = groups.0.track_dir("one", 1_000_000).expect("track");
    rustix::fs::mkdirat(&dir, "c1", rustix::fs::Mode::RWXU).expect("mkdir");
    groups.0.remove("one").expect("remove");
    assert_eq!(groups.0.list().expect("list"), ["agents"]);
}
