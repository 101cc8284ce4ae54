//! What a program's caller sees of it.

use crate::client::{Server, own_user};
use api::envd::Code;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

const START: &str = "process.Process/Start";

#[tokio::test]
async fn multi_byte_characters_survive_wherever_output_is_cut() {
    // P1
    let server = Server::start().await;
    let script = "for i in $(seq 3000); do printf 'aaaaaaaaaa😀é'; done; printf 'ü' >&2";
    let outcome = server.run(script).await;
    assert_eq!(outcome.text(), "aaaaaaaaaa😀é".repeat(3000));
    assert_eq!(outcome.stderr, "ü".as_bytes());
}

#[tokio::test]
async fn any_bytes_pass_unchanged_and_the_exit_code_is_delivered() {
    // P2
    let server = Server::start().await;
    let file = server.path("random");
    let script = format!("head -c 3000000 /dev/urandom | tee {file}; exit 3");
    let outcome = server.run(&script).await;
    assert_eq!(outcome.stdout, std::fs::read(file).unwrap());
    let end = outcome.end.unwrap();
    assert_eq!((end.exit_code, end.exited), (3, true));
    assert_eq!(end.status, "exit status 3");
    assert_eq!(end.error.as_deref(), Some("exit status 3"));
}

#[tokio::test]
async fn a_program_without_stdin_reads_its_end_at_once() {
    // P5
    let server = Server::start().await;
    let outcome = server.run("cat; readlink /proc/self/fd/0").await;
    assert_eq!(outcome.text(), "/dev/null\n");
}

#[tokio::test]
async fn a_run_ends_with_its_shell_and_background_children_live_on() {
    // P6
    let server = Server::start().await;
    let started = Instant::now();
    let script = "(while sleep 0.1; do echo x; done) & echo $!; sleep 0.2; echo done";
    let outcome = server.run(script).await;
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(outcome.exit_code(), 0);
    assert!(outcome.text().contains("done"));
    let child: i32 = outcome.text().lines().next().unwrap().parse().unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(
        is_running(child),
        "it neither blocks nor dies writing to nobody"
    );
    kill(child);
}

#[tokio::test]
async fn a_filter_that_outlives_the_shell_for_a_moment_is_still_heard() {
    let server = Server::start().await;
    let outcome = server.run("exec > >(sleep 0.02; sed s/a/b/); echo a").await;
    assert_eq!(outcome.text(), "b\n");
}

#[tokio::test]
async fn the_deadline_ends_the_whole_tree_and_keeps_the_output_before_it() {
    // P7, P28
    let server = Server::start().await;
    let script = "sleep 987 & echo $!; setsid sleep 988 & echo $!; echo start; sleep 989";
    let outcome = server
        .run_with(&[("connect-timeout-ms", "500.0")], script)
        .await;
    let text = outcome.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[2], "start");
    assert_eq!(outcome.error.unwrap().code, Code::DeadlineExceeded);
    assert!(outcome.end.is_none());
    for pid in &lines[..2] {
        assert_gone(pid.parse().unwrap()).await;
    }
    assert_gone(i32::try_from(outcome.pid).unwrap()).await;
}

#[tokio::test]
async fn a_kill_ends_children_too_and_is_told_from_an_exit() {
    // P7
    let server = Server::start().await;
    let mut events = server.begin(&[], "sleep 986 & echo $!; wait").await;
    let pid = events.pid().await;
    let data = events.event().await.data.unwrap().stdout.unwrap().0;
    let child: i32 = String::from_utf8(data).unwrap().trim().parse().unwrap();
    let selector = json!({"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"});
    server
        .call("process.Process/SendSignal", selector.clone())
        .await
        .unwrap();
    let end = events.event().await.end.unwrap();
    assert_eq!(
        (end.exit_code, end.exited, end.status.as_str()),
        (-1, false, "signal: killed")
    );
    assert_gone(child).await;
    let again = server
        .call("process.Process/SendSignal", selector)
        .await
        .unwrap_err();
    assert_eq!(again.code, Code::NotFound);
    assert_eq!(again.message, format!("process with pid {pid} not found"));
}

#[tokio::test]
async fn with_a_cgroup_not_even_a_daemon_survives_the_deadline() {
    // P7
    let Some(cgroup) = TestCgroup::make() else {
        eprintln!("SKIPPED: no cgroup can be made here");
        return;
    };
    let track = Some(std::fs::File::open(&cgroup.0).unwrap().into());
    let server = Server::tracked(
        own_user(),
        agent::Cgroups {
            join: vec![],
            track,
        },
    )
    .await;
    // A daemon: own session, parent gone, output elsewhere.
    let script = "(setsid bash -c 'echo $$ >&2; exec sleep 983 >/dev/null 2>&1' &); sleep 984";
    let outcome = server
        .run_with(&[("connect-timeout-ms", "700")], script)
        .await;
    assert_eq!(outcome.error.unwrap().code, Code::DeadlineExceeded);
    let daemon = String::from_utf8(outcome.stderr)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert_gone(daemon).await;
    for _ in 0..100 {
        // That of the process in waiting.
        if cgroup.children() <= 1 {
            return;
        }
        // The sweep follows the end of some child.
        server.run("true").await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{} cgroups of commands are left", cgroup.children());
}

/// A freezer or unified cgroup, removed with the value.
struct TestCgroup(std::path::PathBuf);

impl TestCgroup {
    fn make() -> Option<Self> {
        let roots = ["/sys/fs/cgroup/freezer", "/sys/fs/cgroup"].map(Path::new);
        let usable = roots
            .iter()
            .find(|root| root.join("cgroup.procs").exists())?;
        let path = usable.join(format!("agent-test-{}", std::process::id()));
        std::fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    fn children(&self) -> usize {
        let entries = std::fs::read_dir(&self.0).unwrap().flatten();
        entries.filter(|entry| entry.path().is_dir()).count()
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.0).ok();
    }
}

#[tokio::test]
async fn a_term_signal_reaches_the_program_alone() {
    let server = Server::start().await;
    let script = "trap 'echo got; exit 4' TERM; echo ready; while :; do sleep 0.01; done";
    let mut events = server.begin(&[], script).await;
    let pid = events.pid().await;
    assert!(events.event().await.data.is_some());
    let term = json!({"process": {"pid": pid}, "signal": "SIGNAL_SIGTERM"});
    server
        .call("process.Process/SendSignal", term)
        .await
        .unwrap();
    let data = events.event().await.data.unwrap().stdout.unwrap().0;
    assert_eq!(data, b"got\n");
    assert_eq!(events.event().await.end.unwrap().exit_code, 4);
    let none = json!({"process": {"pid": std::process::id()}, "signal": "SIGNAL_SIGTERM"});
    let stranger = server
        .call("process.Process/SendSignal", none)
        .await
        .unwrap_err();
    assert_eq!(
        stranger.code,
        Code::NotFound,
        "only what was started here can be signalled"
    );
}

#[tokio::test]
async fn a_command_that_fails_at_once_always_ends() {
    // P10
    let server = Server::start().await;
    for _ in 0..100 {
        let started = Instant::now();
        let outcome = server.run("no-such-program").await;
        assert_eq!(outcome.exit_code(), 127);
        assert!(started.elapsed() < Duration::from_secs(2));
    }
}

#[tokio::test]
async fn a_program_that_cannot_be_run_is_the_callers_fault() {
    // P10
    let server = Server::start().await;
    for cmd in ["no-such-program", "/no/such/program", "/etc/passwd", ""] {
        let events = server
            .stream(START, &[], json!({"process": {"cmd": cmd}}))
            .await;
        let Some(api::envd::Frame::End(end)) = { events }.frame().await else {
            panic!("{cmd} started")
        };
        assert_eq!(end.error.unwrap().code, Code::InvalidArgument, "{cmd}");
    }
    let list = server
        .call("process.Process/List", json!({}))
        .await
        .unwrap();
    assert_eq!(list, json!({}), "nothing is left behind");
}

#[tokio::test]
async fn a_missing_working_directory_is_named_before_anything_starts() {
    // P13
    let server = Server::start().await;
    let start = async |cwd: &str| {
        let process = json!({"cmd": "/bin/pwd", "cwd": cwd});
        server.stream(START, &[], json!({"process": process})).await
    };
    let Some(api::envd::Frame::End(end)) = start("/nope").await.frame().await else {
        panic!()
    };
    let error = end.error.unwrap();
    assert_eq!(error.code, Code::InvalidArgument);
    assert_eq!(error.message, "cwd '/nope' does not exist");
    let Some(api::envd::Frame::End(end)) = start("/etc/passwd").await.frame().await else {
        panic!()
    };
    assert_eq!(
        end.error.unwrap().message,
        "cwd '/etc/passwd' is not a directory"
    );
    assert_eq!(start("/usr").await.outcome().await.text(), "/usr\n");
}

#[tokio::test]
async fn the_environment_is_the_images_then_the_sandboxs_then_the_calls() {
    let mut init = own_user();
    init.image_env = vec![("A".into(), "image".into()), ("B".into(), "image".into())];
    init.env = BTreeMap::from([("B".into(), "sandbox".into())]);
    let server = Server::with(init).await;
    let process = json!({"cmd": "env", "envs": {"C": "call"}, "cwd": "/"});
    let outcome = server
        .stream(START, &[], json!({"process": process}))
        .await
        .outcome()
        .await;
    let text = outcome.text();
    for line in [
        "A=image",
        "B=sandbox",
        "C=call",
        "E2B_SANDBOX_ID=itest",
        "E2B_SANDBOX=true",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    assert!(!text.contains("WARREN_"), "{text}");
}

#[tokio::test]
async fn a_login_shell_keeps_the_path_of_the_image() {
    // P18
    let mut init = own_user();
    let path = "/opt/x:/usr/bin:/bin";
    init.image_env = vec![("PATH".into(), path.into())];
    let server = Server::with(init).await;
    // The home's profiles would add to it; this one has none.
    let process = json!({
        "cmd": "/bin/bash",
        "args": ["-l", "-c", "echo \"$PATH|${WARREN_PATH-unset}|$LINENO|$#\"; set -- a; echo *"],
        "envs": {"HOME": server.path("")},
        "cwd": server.path(""),
    });
    let outcome = server
        .stream(START, &[], json!({"process": process}))
        .await
        .outcome()
        .await;
    assert_eq!(outcome.text(), format!("{path}|unset|1|0\nagent.sock\n"));
}

#[tokio::test]
async fn what_profiles_add_to_the_path_stays_in_front() {
    let mut init = own_user();
    init.image_env = vec![("PATH".into(), "/opt/x:/bin".into())];
    let server = Server::with(init).await;
    let profile = server.path(".bash_profile");
    std::os::unix::fs::symlink("rc", &profile).unwrap();
    std::io::copy(
        &mut "export PATH=/opt/mine:$PATH\n".as_bytes(),
        &mut std::fs::File::create(server.path("rc")).unwrap(),
    )
    .unwrap();
    let process = json!({
        "cmd": "/bin/bash", "args": ["-l", "-c", "echo $PATH"], "envs": {"HOME": server.path("")},
    });
    let outcome = server
        .stream(START, &[], json!({"process": process}))
        .await
        .outcome()
        .await;
    assert_eq!(outcome.text(), "/opt/mine:/opt/x:/bin\n");
}

#[tokio::test]
async fn an_unknown_user_is_refused_by_name() {
    let server = Server::start().await;
    let basic = ("authorization", "Basic bm9ib2R5LWhlcmU6"); // nobody-here:
    let mut events = server.begin(&[basic], "id").await;
    let Some(api::envd::Frame::End(end)) = events.frame().await else {
        panic!("it started")
    };
    let error = end.error.unwrap();
    assert_eq!(error.code, Code::Unauthenticated);
    assert_eq!(error.message, "invalid username: 'nobody-here'");
}

#[tokio::test]
async fn a_program_runs_as_the_user_with_all_its_groups() {
    // P19
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can become another user");
        return;
    }
    let server = Server::start().await;
    let basic = ("authorization", "Basic NzAwMDE6NzAwMDI6"); // 70001:70002:
    let outcome = server
        .run_with(&[basic], "id -u; id -G; echo $HOME; pwd")
        .await;
    assert_eq!(outcome.text(), "70001\n70002\n/\n/\n");
    let outcome = server.run("id -G; grep CapEff /proc/self/status >&2").await;
    assert!(outcome.text().starts_with('0'));
}

/// Whether it exists and is no zombie (of a test's own tree nobody else collects orphans at once).
pub(crate) fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.starts_with(" Z"))
}

async fn assert_gone(pid: i32) {
    for _ in 0..200 {
        if !is_running(pid) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("process {pid} is still there");
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
