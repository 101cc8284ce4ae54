//! Runs one command of the pipeline: its lines pass through as they come and are counted.

use super::tally::{Counter, Tally};
use std::io::{BufRead as _, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::thread;

/// How a stage ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) success: bool,
    pub(crate) tally: Tally,
}

/// The heading of a stage.
pub(crate) fn announce(name: &str) {
    eprintln!("\n=== {name}");
}

/// Runs the command to its end. One that cannot be started has failed.
pub(crate) fn run(name: &str, mut command: Command) -> Outcome {
    announce(name);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("cannot start {command:?}: {error}");
            return Outcome {
                success: false,
                tally: Tally::default(),
            };
        }
    };
    let stdout = child.stdout.take().expect("stdout was piped above");
    let stderr = child.stderr.take().expect("stderr was piped above");
    let reader = thread::spawn(move || pass_through(stderr, std::io::stderr()));
    let mut counter = pass_through(stdout, std::io::stdout());
    counter.join(reader.join().expect("the reader does not panic"));
    let success = child.wait().is_ok_and(|status| status.success());
    Outcome {
        success,
        tally: counter.tally(),
    }
}

/// Copies lines, whatever bytes they hold, and counts them.
fn pass_through(from: impl Read, mut to: impl Write) -> Counter {
    let mut counter = Counter::default();
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    // A terminal that went away must not end the counting.
    while from.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        to.write_all(&line).ok();
        counter.line(&String::from_utf8_lossy(&line));
        line.clear();
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a quiet script: what it printed would be counted by the run this test is part of.
    fn shell(script: &str) -> Outcome {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run("a stage of a test", command)
    }

    #[test]
    fn lines_pass_unchanged_whatever_bytes_they_hold_and_are_counted() {
        let text = b"SKIPPED: no root\n\xff\xfe\ntest result: ok. 3 passed; 0 failed;\nno line end";
        let mut to = Vec::new();
        let counter = pass_through(&text[..], &mut to);
        assert_eq!(to, text);
        assert_eq!(counter.tally().to_string(), "2 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn a_command_that_fails_or_is_missing_fails_the_stage() {
        assert!(shell("exit 0").success);
        assert!(!shell("exit 3").success);
        let missing = run(
            "a stage of a test",
            Command::new("no-such-program-of-warren"),
        );
        assert!(!missing.success);
    }
}
