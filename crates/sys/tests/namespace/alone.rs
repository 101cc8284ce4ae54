//! Runs a test again in a process of its own inside new namespaces, so that nothing it does shows outside.

use std::process::Command;

const MARK: &str = "WARREN_TEST_ALONE";

/// True inside the namespaces. Outside: runs the named test there, passes its result on, and is false.
///
/// `flags` are those of `unshare(1)`. Without root the test is skipped aloud.
pub(crate) fn alone(test: &str, flags: &[&str]) -> bool {
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: {test}: needs root");
        return false;
    }
    let program = std::env::current_exe().expect("the test binary has a path");
    let status = Command::new("unshare")
        .args(flags)
        .arg(program)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(MARK, "1")
        .status()
        .expect("unshare(1) starts");
    assert!(
        status.success(),
        "{test} failed in its namespaces: {status}"
    );
    false
}
