//! Messages of `process.Process`.
//!
//! A protobuf `oneof` is a struct of options here: readers must tolerate fields they do not know, which
//! an enum would refuse. Senders set exactly one.

use super::proto_json::{ProtoBytes, is_zero, nullable, number, optional_number};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Path prefix of the service.
pub const SERVICE: &str = "/process.Process/";

/// What to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessConfig {
    /// Program: a path, or a name looked up in PATH.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_zero"
    )]
    pub cmd: String,
    /// Arguments after the program's name.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_zero"
    )]
    pub args: Vec<String>,
    /// Environment over the sandbox's own.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_zero"
    )]
    pub envs: BTreeMap<String, String>,
    /// Working directory; unset: the sandbox's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// Size of a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PtySize {
    /// Columns.
    #[serde(default, deserialize_with = "number", skip_serializing_if = "is_zero")]
    pub cols: u32,
    /// Rows.
    #[serde(default, deserialize_with = "number", skip_serializing_if = "is_zero")]
    pub rows: u32,
}

/// A terminal to run in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pty {
    /// Its size.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_zero"
    )]
    pub size: PtySize,
}

/// A running process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// What it was started with.
    #[serde(default, deserialize_with = "nullable")]
    pub config: ProcessConfig,
    /// Its id inside the sandbox.
    #[serde(default, deserialize_with = "number", skip_serializing_if = "is_zero")]
    pub pid: u32,
    /// Name given at start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// Request of `List`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRequest {}

/// Reply of `List`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListResponse {
    /// Those that run.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_zero"
    )]
    pub processes: Vec<ProcessInfo>,
}

/// Request of `Start`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRequest {
    /// What to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessConfig>,
    /// Set: run in a terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty: Option<Pty>,
    /// Name to find the process by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Whether standard input is a pipe; unset: yes. `false`: `/dev/null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<bool>,
}

/// Request of `Connect`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectRequest {
    /// Which process.
    #[serde(default, deserialize_with = "nullable")]
    pub process: ProcessSelector,
}

/// One message of the replies of `Start` and `Connect`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventResponse {
    /// The event.
    #[serde(default, deserialize_with = "nullable")]
    pub event: ProcessEvent,
}

/// One of: started, output, ended, still there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessEvent {
    /// First event of every stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartEvent>,
    /// Output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataEvent>,
    /// Last event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<EndEvent>,
    /// Nothing happened for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepalive: Option<KeepAlive>,
}

/// The process runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartEvent {
    /// Its id inside the sandbox.
    #[serde(default, deserialize_with = "number", skip_serializing_if = "is_zero")]
    pub pid: u32,
}

/// Output of one of the three kinds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataEvent {
    /// Standard output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<ProtoBytes>,
    /// Standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<ProtoBytes>,
    /// The terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty: Option<ProtoBytes>,
}

/// How the process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndEvent {
    /// Exit code; -1 if a signal ended it.
    #[serde(
        default,
        alias = "exit_code",
        deserialize_with = "number",
        skip_serializing_if = "is_zero"
    )]
    pub exit_code: i32,
    /// Whether it exited by itself.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_zero"
    )]
    pub exited: bool,
    /// As Go words it: `exit status 3`, `signal: killed`.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "is_zero"
    )]
    pub status: String,
    /// The same text if it did not end with success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Nothing happened for a while.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepAlive {}

/// Names a process by id or by tag.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSelector {
    /// By id.
    #[serde(
        default,
        deserialize_with = "optional_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub pid: Option<u32>,
    /// By tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// Bytes for a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInput {
    /// For standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<ProtoBytes>,
    /// For the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty: Option<ProtoBytes>,
}

/// Request of `SendInput`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendInputRequest {
    /// Which process.
    #[serde(default, deserialize_with = "nullable")]
    pub process: ProcessSelector,
    /// What.
    #[serde(default, deserialize_with = "nullable")]
    pub input: ProcessInput,
}

/// One message of the request of `StreamInput`: first the process, then its input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamInputRequest {
    /// Names the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StreamInputStart>,
    /// Input for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<StreamInputData>,
    /// Nothing, so that the connection is not idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepalive: Option<KeepAlive>,
}

/// Names the process of a `StreamInput` call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamInputStart {
    /// Which process.
    #[serde(default, deserialize_with = "nullable")]
    pub process: ProcessSelector,
}

/// Input within a `StreamInput` call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamInputData {
    /// What.
    #[serde(default, deserialize_with = "nullable")]
    pub input: ProcessInput,
}

/// Request of `CloseStdin`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloseStdinRequest {
    /// Which process.
    #[serde(default, deserialize_with = "nullable")]
    pub process: ProcessSelector,
}

/// Request of `SendSignal`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendSignalRequest {
    /// Which process.
    #[serde(default, deserialize_with = "nullable")]
    pub process: ProcessSelector,
    /// Which signal.
    #[serde(default, deserialize_with = "nullable")]
    pub signal: Signal,
}

/// Signals that can be sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub enum Signal {
    /// None named; refused.
    #[default]
    #[serde(rename = "SIGNAL_UNSPECIFIED")]
    Unspecified,
    /// Asks the process to end.
    #[serde(rename = "SIGNAL_SIGTERM")]
    Term,
    /// Ends the process and all it started.
    #[serde(rename = "SIGNAL_SIGKILL")]
    Kill,
}

impl<'de> Deserialize<'de> for Signal {
    /// Enums may come as names or as numbers; what is not known reads as unspecified.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Name(String),
            Number(i64),
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Name(name) if name == "SIGNAL_SIGKILL" => Self::Kill,
            Written::Name(name) if name == "SIGNAL_SIGTERM" => Self::Term,
            Written::Number(9) => Self::Kill,
            Written::Number(15) => Self::Term,
            Written::Name(_) | Written::Number(_) => Self::Unspecified,
        })
    }
}

/// Reply of the calls that answer nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_leave_out_their_zero_values() {
        let end = EndEvent {
            exited: true,
            status: "exit status 0".into(),
            ..EndEvent::default()
        };
        let event = ProcessEvent {
            end: Some(end),
            ..ProcessEvent::default()
        };
        assert_eq!(
            serde_json::to_string(&EventResponse { event }).unwrap(),
            r#"{"event":{"end":{"exited":true,"status":"exit status 0"}}}"#
        );
        let data = DataEvent {
            stdout: Some(ProtoBytes(b"hi\n".to_vec())),
            ..DataEvent::default()
        };
        let event = ProcessEvent {
            data: Some(data),
            ..ProcessEvent::default()
        };
        assert_eq!(
            serde_json::to_string(&EventResponse { event }).unwrap(),
            r#"{"event":{"data":{"stdout":"aGkK"}}}"#
        );
    }

    #[test]
    fn requests_may_hold_nulls_and_unknown_fields() {
        let text = r#"{"process":{"cmd":"ls","args":null,"envs":null,"cwd":null,"x":1},"stdin":false,"y":{}}"#;
        let request: StartRequest = serde_json::from_str(text).unwrap();
        assert_eq!(request.process.unwrap().cmd, "ls");
        assert_eq!(request.stdin, Some(false));
        let selector: ProcessSelector = serde_json::from_str(r#"{"pid":"12"}"#).unwrap();
        assert_eq!(selector.pid, Some(12));
        let signal: Signal = serde_json::from_str("9").unwrap();
        assert_eq!(signal, Signal::Kill);
    }
}
