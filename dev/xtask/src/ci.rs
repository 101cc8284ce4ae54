//! `cargo xtask ci`: every check of the project in order, and one last line with the counts.
//!
//! A stage that fails does not stop the ones after it. Skips are counted, never hidden: a test that
//! cannot run on this machine prints one line `SKIPPED: <reason>` and returns.

mod leftovers;
mod stage;
mod tally;

use crate::workspace::Workspace;
use anyhow::Result;
use leftovers::Snapshot;
use stage::Outcome;
use std::process::{Command, ExitCode};
use tally::Tally;

const E2E_SCRIPT: &str = "tests/run_e2e.sh";

pub(crate) fn run(workspace: &Workspace) -> Result<ExitCode> {
    let before = Snapshot::take();
    let mut total = Tally::default();

    for (name, args) in CHECKS {
        total += check(name, workspace.cargo(args));
    }
    // Before the tests: those of isolation run the agent that it makes.
    let dist = check("build", build(workspace));
    total += dist;
    total += tests("unit and integration tests", cargo_tests(workspace));
    total += end_to_end(workspace, dist.failed == 0);
    total += leftovers(&before);

    // The summary is the last line of the run, whatever the stages printed.
    eprintln!();
    println!("{total}");
    Ok(if total.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

const CHECKS: [(&str, &[&str]); 3] = [
    ("format", &["fmt", "--all", "--check"]),
    ("tidy", &["xtask", "tidy"]),
    (
        "clippy",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ],
    ),
];

fn build(workspace: &Workspace) -> Command {
    workspace.cargo(&["xtask", "build"])
}

/// Plain `cargo test`: the test of isolation has a harness of its own, which other runners do not know.
fn cargo_tests(workspace: &Workspace) -> Command {
    let mut command = workspace.cargo(&["test", "--workspace", "--no-fail-fast"]);
    // A skip is told by a test that passes; its output must be seen.
    command.args(["--", "--show-output"]);
    command.env("WARREN_DIST", workspace.dist());
    command.env("WARREN_AGENT", workspace.dist().join("warren-agent"));
    command
}

fn end_to_end(workspace: &Workspace, built: bool) -> Tally {
    let skip = |why: &str| {
        eprintln!("SKIPPED: end to end: {why}");
        Tally::SKIPPED
    };
    if !workspace.root().join(E2E_SCRIPT).is_file() {
        return skip("tests/run_e2e.sh is not in the tree");
    }
    if !built {
        return skip("the build failed");
    }
    let mut command = Command::new("bash");
    command
        .current_dir(workspace.root())
        .arg(E2E_SCRIPT)
        .env("WARREN_DIST", workspace.dist())
        .env("CARGO_TARGET_DIR", workspace.target());
    tests("end to end", command)
}

/// A stage that is one check: it passes or fails as a whole.
fn check(name: &str, command: Command) -> Tally {
    match stage::run(name, command) {
        Outcome { success: true, .. } => Tally::PASSED,
        Outcome { .. } => Tally::FAILED,
    }
}

/// A stage of many tests, counted from what they print.
fn tests(name: &str, command: Command) -> Tally {
    let outcome = stage::run(name, command);
    let mut tally = outcome.tally;
    if !outcome.success && tally.failed == 0 {
        tally.failed = 1; // it ended badly without saying which test did
    }
    eprintln!("{name}: {tally}");
    tally
}

/// What the tests left on the machine; each thing left is printed.
fn leftovers(before: &Snapshot) -> Tally {
    stage::announce("leftovers");
    let left = Snapshot::take_settled(before);
    for thing in &left {
        eprintln!("left behind: {thing}");
    }
    if left.is_empty() {
        Tally::PASSED
    } else {
        Tally::FAILED
    }
}
