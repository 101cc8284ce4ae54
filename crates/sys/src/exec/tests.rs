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
