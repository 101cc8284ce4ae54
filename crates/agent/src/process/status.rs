//! How an end is worded: as Go does, which is what E2B clients show.

use api::envd::process::EndEvent;
use sys::exec::ExitStatus;

/// Go's names of the signals from 1 on.
const SIGNALS: [&str; 15] = [
    "hangup",
    "interrupt",
    "quit",
    "illegal instruction",
    "trace/breakpoint trap",
    "aborted",
    "bus error",
    "floating point exception",
    "killed",
    "user defined signal 1",
    "segmentation fault",
    "user defined signal 2",
    "broken pipe",
    "alarm clock",
    "terminated",
];

pub(super) fn end_event(status: ExitStatus) -> EndEvent {
    match status {
        ExitStatus::Exited(code) => {
            let status = format!("exit status {code}");
            let error = (code != 0).then(|| status.clone());
            EndEvent {
                exit_code: code,
                exited: true,
                status,
                error,
            }
        }
        ExitStatus::Signaled {
            signal,
            core_dumped,
        } => {
            let named = usize::try_from(signal - 1)
                .ok()
                .and_then(|index| SIGNALS.get(index));
            let name = named.map_or_else(|| format!("signal {signal}"), |name| (*name).to_owned());
            let core = if core_dumped { " (core dumped)" } else { "" };
            let status = format!("signal: {name}{core}");
            EndEvent {
                exit_code: -1,
                exited: false,
                error: Some(status.clone()),
                status,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_worded_as_clients_expect() {
        let text = |status| end_event(status).status;
        assert_eq!(text(ExitStatus::Exited(3)), "exit status 3");
        let signaled = |signal| ExitStatus::Signaled {
            signal,
            core_dumped: signal == 11,
        };
        assert_eq!(text(signaled(9)), "signal: killed");
        assert_eq!(
            text(signaled(11)),
            "signal: segmentation fault (core dumped)"
        );
        assert_eq!(text(signaled(40)), "signal: signal 40");
        assert_eq!(end_event(ExitStatus::Exited(0)).error, None);
    }
}
