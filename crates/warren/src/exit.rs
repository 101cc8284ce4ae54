//! Exit codes, as docker has them.
//!
//! The command's own code is passed on; 125, 126 and 127 say that there was no command to end.

use api::envd::{Code, ConnectError};
use std::process::ExitCode;

/// Warren could not do it: server not reachable, no such sandbox, bad request, bad flag.
pub(crate) const PLATFORM: u8 = 125;
/// The command is there and cannot be run.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command is not there.
pub(crate) const NOT_FOUND: u8 = 127;
/// Added to the number of the signal that ended a command.
const SIGNAL_BASE: u8 = 128;
/// A reader that went away ends the writer by this signal.
pub(crate) const BROKEN_PIPE: u8 = SIGNAL_BASE + 13;
/// The user's Ctrl-C.
pub(crate) const INTERRUPTED: u8 = SIGNAL_BASE + 2;
/// `doctor` found something required missing.
pub(crate) const UNFIT: u8 = 1;

/// Signals in the words of Go's runtime, which the envd protocol uses: `signal: killed`.
const SIGNALS: [(&str, u8); 15] = [
    ("hangup", 1),
    ("interrupt", 2),
    ("quit", 3),
    ("illegal instruction", 4),
    ("trace/breakpoint trap", 5),
    ("aborted", 6),
    ("bus error", 7),
    ("floating point exception", 8),
    ("killed", 9),
    ("user defined signal 1", 10),
    ("segmentation fault", 11),
    ("user defined signal 2", 12),
    ("broken pipe", 13),
    ("alarm clock", 14),
    ("terminated", 15),
];

/// How a remote command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal; the words of the protocol.
    Signalled(String),
}

impl End {
    /// The code of this process for that end.
    pub(crate) fn code(&self) -> u8 {
        match self {
            // The kernel keeps eight bits of an exit code.
            Self::Exited(code) => u8::try_from(code & 0xff).expect("masked to eight bits"),
            Self::Signalled(words) => SIGNAL_BASE + signal_number(words),
        }
    }
}

impl From<&End> for ExitCode {
    fn from(end: &End) -> Self {
        Self::from(end.code())
    }
}

/// A signal nobody named is taken for SIGKILL, the one that leaves no other trace.
fn signal_number(words: &str) -> u8 {
    let text = words.trim().trim_start_matches("signal:").trim();
    let text = text.split(" (core dumped)").next().unwrap_or(text);
    let named = SIGNALS.iter().find(|(name, _)| *name == text);
    let number = text.trim_start_matches("signal ").parse().ok();
    named.map(|(_, n)| *n).or(number).unwrap_or(9).min(127)
}

/// The code for a command that could not be started. The protocol has one error code for all
/// reasons (`invalid_argument`), so the words of the system's error decide.
pub(crate) fn start_failure(error: &ConnectError) -> u8 {
    let message = error.message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|w| message.contains(w));
    match error.code {
        Code::InvalidArgument | Code::NotFound | Code::PermissionDenied => {}
        _ => return PLATFORM,
    }
    if message.contains("cwd '") || message.contains("invalid username") {
        PLATFORM
    } else if says(&[
        "no such file",
        "executable file not found",
        "command not found",
    ]) {
        NOT_FOUND
    } else if says(&[
        "permission denied",
        "exec format",
        "is a directory",
        "not executable",
    ]) {
        NOT_EXECUTABLE
    } else {
        PLATFORM
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_of_the_command_is_passed_on() {
        for (code, want) in [(0, 0), (1, 1), (3, 3), (255, 255), (256, 0), (-1, 255)] {
            assert_eq!(End::Exited(code).code(), want, "{code}");
        }
    }

    #[test]
    fn a_signal_becomes_128_and_its_number() {
        for (words, want) in [
            ("signal: killed", 137),
            ("signal: terminated", 143),
            ("signal: segmentation fault (core dumped)", 139),
            ("signal: interrupt", 130),
            ("signal 31", 159),
            ("something new", 137),
        ] {
            assert_eq!(End::Signalled(words.to_owned()).code(), want, "{words}");
        }
    }

    #[test]
    fn a_command_that_cannot_start_says_why_by_its_code() {
        let cases = [
            (
                Code::InvalidArgument,
                "exec /nope: No such file or directory",
                127,
            ),
            (
                Code::InvalidArgument,
                "exec: \"nope\": executable file not found in $PATH",
                127,
            ),
            (
                Code::InvalidArgument,
                "exec /etc/passwd: permission denied",
                126,
            ),
            (Code::InvalidArgument, "exec /x: exec format error", 126),
            (Code::InvalidArgument, "cwd '/nope' does not exist", 125),
            (
                Code::InvalidArgument,
                "error starting process: cwd '/x': Permission denied (os error 13)",
                125,
            ),
            (
                Code::InvalidArgument,
                "error starting process: exec ./x: No such file or directory (os error 2)",
                127,
            ),
            (Code::Unavailable, "no such file", 125),
        ];
        for (code, message, want) in cases {
            let error = ConnectError {
                code,
                message: message.to_owned(),
            };
            assert_eq!(start_failure(&error), want, "{message}");
        }
    }
}
