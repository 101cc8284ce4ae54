//! Real programs, started and collected.

use super::*;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;

fn start(argv: &[&str], cwd: &str) -> (Result<(), ExecError>, Vec<u8>, ExitStatus) {
    let null = File::open("/dev/null").unwrap();
    let (mut output, input) = io::pipe().unwrap();
    let strings = |list: &[&str]| list.iter().map(|s| CString::new(*s).unwrap()).collect();
    let started = spawn(&Spawn {
        argv: strings(argv),
        env: strings(&["PATH=/nowhere:/usr/bin:/bin", "A=1"]),
        cwd: CString::new(cwd).unwrap(),
        credentials: None,
        stdin: null.as_fd(),
        stdout: input.as_fd(),
        stderr: null.as_fd(),
        cgroups: vec![],
    })
    .unwrap();
    drop(input);
    let mut report = Vec::new();
    File::from(started.outcome)
        .read_to_end(&mut report)
        .unwrap();
    let mut bytes = Vec::new();
    output.read_to_end(&mut bytes).unwrap();
    let status = loop {
        if let Some(status) = reap(started.pid) {
            break status;
        }
        std::thread::yield_now();
    };
    (exec_outcome(&report), bytes, status)
}

#[test]
fn a_name_is_looked_up_in_the_path_of_the_child() {
    let (outcome, bytes, status) = start(&["sh", "-c", "pwd; echo $A; exit 3"], "/");
    assert_eq!(outcome, Ok(()));
    assert_eq!(bytes, b"/\n1\n");
    assert_eq!(status, ExitStatus::Exited(3));
}

#[test]
fn the_step_that_failed_is_reported() {
    let error = |argv: &[&str], cwd| start(argv, cwd).0.unwrap_err();
    let missing = ExecError {
        step: Step::Exec,
        errno: Errno::NOENT,
    };
    assert_eq!(error(&["no-such-program"], "/"), missing);
    assert_eq!(error(&["/etc/passwd"], "/").step, Step::Exec);
    let nowhere = ExecError {
        step: Step::Chdir,
        errno: Errno::NOENT,
    };
    assert_eq!(error(&["true"], "/no/such"), nowhere);
}

#[test]
fn a_signal_is_told_from_an_exit() {
    let (_, _, status) = start(&["sh", "-c", "kill -9 $$"], "/");
    assert_eq!(
        status,
        ExitStatus::Signaled {
            signal: 9,
            core_dumped: false
        }
    );
}

#[test]
fn nothing_but_the_standard_descriptors_is_inherited() {
    let (_, bytes, _) = start(&["sh", "-c", "ls /proc/self/fd | tr '\\n' ' '"], "/");
    assert_eq!(bytes, b"0 1 2 3 ", "3 is ls reading the directory");
}

#[test]
fn ignored_signals_are_not_inherited() {
    let (_, bytes, _) = start(&["grep", "SigIgn", "/proc/self/status"], "/");
    assert_eq!(bytes, b"SigIgn:\t0000000000000000\n");
}

/// A pipe's ends and a command that writes to it.
fn ordered(script: &str) -> (Spawn<'static>, io::PipeReader) {
    // Leaked: the descriptors must live as long as the value that borrows them.
    let null: &'static File = Box::leak(Box::new(File::open("/dev/null").unwrap()));
    let (reader, writer) = io::pipe().unwrap();
    let writer: &'static io::PipeWriter = Box::leak(Box::new(writer));
    let spawn = Spawn {
        argv: ["sh", "-c", script]
            .map(|s| CString::new(s).unwrap())
            .to_vec(),
        env: vec![
            c"PATH=/usr/bin:/bin".to_owned(),
            c"GREETING=hello".to_owned(),
        ],
        cwd: c"/tmp".to_owned(),
        credentials: None,
        stdin: null.as_fd(),
        stdout: writer.as_fd(),
        stderr: writer.as_fd(),
        cgroups: vec![],
    };
    (spawn, reader)
}

fn wait_for(pid: i32) -> ExitStatus {
    for _ in 0..500 {
        if let Some(status) = reap(pid) {
            return status;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("process {pid} does not end");
}

#[test]
fn a_waiting_child_becomes_what_it_is_told() {
    let standby = Standby::fork(&[], None).unwrap();
    let (spawn, mut output) = ordered("echo $GREETING from $PWD; exit 3");
    let started = standby.start(&spawn, None).unwrap().unwrap();
    let mut report = Vec::new();
    File::from(started.outcome)
        .read_to_end(&mut report)
        .unwrap();
    assert_eq!(exec_outcome(&report), Ok(()));
    assert_eq!(wait_for(started.pid), ExitStatus::Exited(3));
    let mut text = [0; 16];
    output.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"hello from /tmp\n");
}

#[test]
fn a_waiting_child_tells_why_it_cannot_become_the_program() {
    let standby = Standby::fork(&[], None).unwrap();
    let (mut spawn, _output) = ordered("");
    spawn.argv = vec![c"/nonexistent".to_owned()];
    let started = standby.start(&spawn, None).unwrap().unwrap();
    let mut report = Vec::new();
    File::from(started.outcome)
        .read_to_end(&mut report)
        .unwrap();
    let error = exec_outcome(&report).unwrap_err();
    assert_eq!((error.step, error.errno), (Step::Exec, Errno::NOENT));
    assert_eq!(wait_for(started.pid), ExitStatus::Exited(127));
}

#[test]
fn a_waiting_child_that_is_not_needed_ends() {
    let standby = Standby::fork(&[], None).unwrap();
    let pid = standby.pid;
    drop(standby);
    assert_eq!(wait_for(pid), ExitStatus::Exited(0));
}

#[test]
fn an_order_beyond_its_room_is_left_to_an_ordinary_start() {
    let standby = Standby::fork(&[], None).unwrap();
    let pid = standby.pid;
    let (mut spawn, _output) = ordered("true");
    spawn
        .env
        .push(CString::new(format!("BIG={}", "x".repeat(300_000))).unwrap());
    assert!(standby.start(&spawn, None).unwrap().is_none());
    assert_eq!(wait_for(pid), ExitStatus::Exited(0));
}

#[test]
fn a_waiting_child_holds_no_pipe_of_its_parent_open() {
    let (mut reader, writer) = io::pipe().unwrap();
    let standby = Standby::fork(&[], None).unwrap();
    drop(writer);
    let mut all = Vec::new();
    reader.read_to_end(&mut all).unwrap();
    assert!(all.is_empty());
    let pid = standby.pid;
    drop(standby);
    wait_for(pid);
}
