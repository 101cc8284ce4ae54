//! What tests of several crates share: needs that are declared, skips that are told, namespaces of their own.

use std::io::Write;
use std::process::{Command, Stdio};

/// Set in the process that [`alone`] starts.
const MARK: &str = "WARREN_TEST_ALONE";

/// Tells that a test did not run and why. Not through the print macros: the test harness swallows those
/// of passing tests, and a skip must be seen and counted.
pub fn skipped(test: &str, why: &str) {
    writeln!(std::io::stderr(), "SKIPPED: {test}: {why}").expect("stderr takes a line");
}

/// Whether the test runs as root; tells the skip if not.
#[must_use]
pub fn root(test: &str) -> bool {
    let is = rustix::process::geteuid().is_root();
    if !is {
        skipped(test, "needs root");
    }
    is
}

/// Whether a program of that name is on the path; tells the skip if not.
#[must_use]
pub fn program(test: &str, name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    if !found {
        skipped(test, &format!("needs the program {name}"));
    }
    found
}

/// True inside new namespaces. Outside: runs the named test there in a process of its own, so that
/// nothing it does shows outside, passes its result on, and is false.
///
/// `flags` are those of `unshare(1)`. Without root the test is skipped.
#[must_use]
pub fn alone(test: &str, flags: &[&str]) -> bool {
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    if !root(test) {
        return false;
    }
    let program = std::env::current_exe().expect("the test binary has a path");
    let run = Command::new("unshare")
        .args(flags)
        .arg(program)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(MARK, "1")
        // What it tells of skips goes on; its own count of tests would be taken for more tests.
        .stderr(Stdio::inherit())
        .output()
        .expect("unshare(1) starts");
    let told = String::from_utf8_lossy(&run.stdout);
    assert!(
        run.status.success(),
        "{test} failed in its namespaces: {}\n{told}",
        run.status
    );
    false
}
