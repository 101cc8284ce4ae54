//! The native backend against real namespaces, cgroups and the real agent. Needs root and a built agent
//! (`WARREN_AGENT`, or where `cargo xtask build` puts it).
//!
//! Has no harness: the program runs itself again as the spawner. Prints what the standard harness prints.

#![expect(clippy::print_stdout, reason = "speaks as the standard harness does")]

use isolation::native::{Native, NativeConfig, SpawnerConfig, run_spawner, spawner_listens};
use isolation::{Attach, AttachError, Backend, Shell, ShellSpec};
use model::attach::{AttachFile, AttachRequest, Confinement, Init};
use model::{Resources, SandboxId};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;
use sys::mount::Attr;

type Test = (&'static str, fn(&Lab));

const TESTS: [Test; 7] = [
    (
        "a_removed_shell_leaves_no_process_cgroup_or_socket",
        removal,
    ),
    ("an_attached_sandbox_is_locked_down", lockdown),
    ("no_new_privs_is_set_when_asked_for", no_new_privs),
    (
        "a_root_whose_proc_is_a_link_is_refused_by_name",
        linked_proc,
    ),
    ("a_reused_pid_is_not_adopted", adoption),
    ("strays_are_reaped_and_the_kept_live_on", strays),
    (
        "without_its_spawner_a_node_makes_nothing_and_loses_nothing",
        lost_spawner,
    ),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, socket, agent] = arguments.as_slice()
        && role == "--spawner"
    {
        let config = SpawnerConfig {
            socket: socket.into(),
            agent: agent.into(),
        };
        return run_spawner(&config).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    // Asked by tools that list tests before they run them.
    if arguments.iter().any(|a| a == "--list") {
        return ExitCode::SUCCESS;
    }
    let Some(agent) = ready() else {
        println!(
            "test result: ok. 0 passed; 0 failed; {} ignored",
            TESTS.len()
        );
        return ExitCode::SUCCESS;
    };
    let failed = TESTS
        .iter()
        .filter(|(name, test)| !passes(name, *test, &agent))
        .count();
    let passed = TESTS.len() - failed;
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {word}. {passed} passed; {failed} failed; 0 ignored");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn passes(name: &str, test: fn(&Lab), agent: &Path) -> bool {
    let passed = std::panic::catch_unwind(|| test(&Lab::open(agent))).is_ok();
    println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
    passed
}

/// The agent, if all is there; tells each test's skip if not.
fn ready() -> Option<PathBuf> {
    let built = || {
        // <target>/<profile>/deps/<this program>
        let target = std::env::current_exe().ok()?.ancestors().nth(3)?.to_owned();
        Some(target.join("warren-dist/warren-agent"))
    };
    let agent = std::env::var_os("WARREN_AGENT")
        .map(PathBuf::from)
        .or_else(built);
    let agent = agent.filter(|a| a.is_file());
    let root = rustix::process::geteuid().is_root();
    for (name, _) in TESTS {
        // In the standard harness's words; its own line counts them as ignored.
        if !root {
            println!("test {name} ... ignored, needs root");
        } else if agent.is_none() {
            println!("test {name} ... ignored, needs a built agent (cargo xtask build)");
        }
    }
    agent.filter(|_| root)
}

/// A spawner and a backend of their own; all of it goes with this value.
struct Lab {
    dir: tempfile::TempDir,
    spawner: std::cell::RefCell<Child>,
    native: Native,
}

impl Lab {
    fn open(agent: &Path) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("wi")
            .tempdir()
            .expect("directory");
        let socket = dir.path().join("spawner.sock");
        let own = std::env::current_exe().expect("own path");
        let spawner = Command::new(own)
            .arg("--spawner")
            .arg(&socket)
            .arg(agent)
            .spawn();
        let spawner = spawner.expect("spawner");
        wait_until("the spawner listens", || spawner_listens(&socket));
        let name = dir
            .path()
            .file_name()
            .expect("name")
            .to_string_lossy()
            .replace('.', "");
        let config = NativeConfig {
            spawner: socket,
            cgroup_parent: format!("warren-test-{name}"),
        };
        let native = Native::connect(&config).expect("backend");
        Self {
            dir,
            spawner: spawner.into(),
            native,
        }
    }

    fn prepare(&self, number: u8) -> Arc<Shell> {
        self.try_prepare(number).expect("prepare")
    }

    fn try_prepare(&self, number: u8) -> Result<Arc<Shell>, isolation::PrepareError> {
        let id = SandboxId::new(0, [number; 16]);
        let socket = self.dir.path().join(format!("{number}.sock"));
        self.native.prepare(&ShellSpec { id, socket })
    }

    fn attach(&self, shell: &Shell, root: OwnedFd, nnp: bool) -> Result<(), AttachError> {
        let file = AttachFile {
            path: "/etc/hostname".to_owned(),
            content: "box\n".to_owned(),
            mode: 0o644,
        };
        let request = AttachRequest {
            sandbox_id: shell.id.to_string(),
            template_id: "template".to_owned(),
            hostname: "box".to_owned(),
            extra_mounts: Vec::new(),
            files: vec![file],
            confinement: Confinement {
                no_new_privs: nnp,
                rlimits: vec![(7, 512, 1024)],
            },
            init: Init::default(),
        };
        let resources = Resources {
            pids_max: 99,
            ..Resources::default()
        };
        let attach = Attach {
            root,
            extra_mounts: Vec::new(),
            resources,
            request,
        };
        self.native.attach(shell, attach)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // A test that failed may have left sandboxes.
        let reaped = self.native.reap_strays(&[]);
        let closed = self.native.close();
        let mut spawner = self.spawner.borrow_mut();
        if closed.is_err() {
            spawner.kill().ok();
        }
        spawner.wait().expect("reap the spawner");
        reaped.expect("reap strays");
        closed.expect("close");
    }
}

/// An empty root that belongs to the sandbox's own root user.
fn empty_root() -> OwnedFd {
    let options = [("mode", "755"), ("uid", "1000000"), ("gid", "1000000")];
    sys::mount::tmpfs(Attr::empty(), &options).expect("tmpfs")
}

fn status(pid: i32, field: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix(field)?.strip_prefix(':'));
    line.expect("field").trim().to_owned()
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..1000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

fn removal(lab: &Lab) {
    let shell = lab.prepare(1);
    assert!(shell.socket.exists());
    assert!(lab.native.usage(&shell).is_ok());
    lab.native.remove(&shell).expect("remove");
    lab.native.remove(&shell).expect("removing twice is fine");
    assert!(!shell.socket.exists());
    assert!(lab.native.usage(&shell).is_err(), "its cgroup is gone");
    assert!(
        sys::process::start_ticks(shell.pid).is_err(),
        "its process is gone"
    );
    assert!(lab.native.reap_strays(&[]).expect("reap").is_empty());
}

fn lockdown(lab: &Lab) {
    let shell = lab.prepare(1);
    lab.attach(&shell, empty_root(), false).expect("attach");
    // Container engines' default set; CAP_SYS_ADMIN is not in it.
    for set in ["CapEff", "CapPrm", "CapBnd"] {
        assert_eq!(status(shell.pid, set), "00000000a80425fb", "{set}");
    }
    assert_eq!(status(shell.pid, "CapInh"), "0000000000000000");
    assert_eq!(
        (
            status(shell.pid, "Seccomp"),
            status(shell.pid, "NoNewPrivs")
        ),
        ("2".into(), "0".into())
    );
    assert!(
        status(shell.pid, "Uid").starts_with("1000000"),
        "root inside is nobody outside"
    );
    let root = PathBuf::from(format!("/proc/{}/root", shell.pid));
    assert_eq!(
        std::fs::read_to_string(root.join("etc/hostname")).expect("file"),
        "box\n"
    );
    assert!(root.join("proc/1/status").exists() && root.join("dev/null").exists());
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", shell.pid)).expect("limits");
    let files = limits
        .lines()
        .find(|l| l.starts_with("Max open files"))
        .expect("line");
    assert!(files.contains("512") && files.contains("1024"), "{files}");
    let mounts = std::fs::read_to_string(format!("/proc/{}/mounts", shell.pid)).expect("mounts");
    assert!(
        !mounts.contains("warren") && !mounts.contains(" /build"),
        "{mounts}"
    );
    lab.native.remove(&shell).expect("remove");
}

fn no_new_privs(lab: &Lab) {
    let shell = lab.prepare(1);
    lab.attach(&shell, empty_root(), true).expect("attach");
    assert_eq!(status(shell.pid, "NoNewPrivs"), "1");
    lab.native.remove(&shell).expect("remove");
}

fn linked_proc(lab: &Lab) {
    let shell = lab.prepare(1);
    let root = empty_root();
    rustix::fs::symlinkat("/etc", &root, "proc").expect("link");
    let error = lab.attach(&shell, root, false).expect_err("refused");
    assert!(error.to_string().contains("/proc"), "{error}");
    lab.native.remove(&shell).expect("remove");
}

fn adoption(lab: &Lab) {
    let shell = lab.prepare(1);
    let mut record = lab.native.record(&shell).expect("record");
    let adopted = lab.native.adopt(&record).expect("adopt").expect("it runs");
    assert_eq!((adopted.pid, &adopted.id), (shell.pid, &shell.id));
    record.start_ticks += 1;
    assert!(lab.native.adopt(&record).expect("adopt").is_none());
    lab.native.remove(&shell).expect("remove");
    record.start_ticks -= 1;
    assert!(lab.native.adopt(&record).expect("adopt").is_none());
}

fn strays(lab: &Lab) {
    let (kept, stray) = (lab.prepare(1), lab.prepare(2));
    let removed = lab
        .native
        .reap_strays(std::slice::from_ref(&kept.id))
        .expect("reap");
    assert_eq!(removed.len(), 2, "its process and its cgroup: {removed:?}");
    assert!(
        removed.iter().all(|r| r.contains(stray.id.as_str())),
        "{removed:?}"
    );
    let gone =
        |shell: &Shell| sys::process::wait_exit(shell.pidfd.as_fd(), Duration::ZERO).expect("poll");
    assert!(gone(&stray) && !gone(&kept));
    lab.native.remove(&kept).expect("remove");
}

fn lost_spawner(lab: &Lab) {
    let shell = lab.prepare(1);
    lab.spawner.borrow_mut().kill().expect("kill");
    lab.spawner.borrow_mut().wait().expect("reap");
    let error = lab.try_prepare(2).expect_err("no spawner");
    assert!(error.to_string().contains("clone namespaces"), "{error}");
    assert_eq!(
        lab.native
            .reap_strays(std::slice::from_ref(&shell.id))
            .expect("reap")
            .len(),
        0
    );
    lab.attach(&shell, empty_root(), false)
        .expect("the waiting shell still works");
    lab.native.remove(&shell).expect("remove");
}
