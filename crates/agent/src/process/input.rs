//! The standard input of a program.

use api::envd::process::ProcessInput;
use api::envd::{Code, ConnectError};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::Mutex;

/// A pipe to the program, or nothing.
#[derive(Debug)]
pub(super) struct Input {
    /// `None`: `/dev/null`, or closed. Held across awaits, so that concurrent writes do not mix.
    pipe: Mutex<Option<pipe::Sender>>,
}

impl Input {
    pub(super) fn new(pipe: Option<pipe::Sender>) -> Self {
        Self {
            pipe: Mutex::new(pipe),
        }
    }

    /// Writes all of it, waiting for the program to read.
    pub(super) async fn send(&self, input: ProcessInput) -> Result<(), ConnectError> {
        let internal = |message: &str| ConnectError::new(Code::Internal, message);
        let bytes = match input {
            ProcessInput { pty: Some(_), .. } => {
                return Err(internal("tty not assigned to process"));
            }
            ProcessInput {
                stdin: Some(bytes), ..
            } => bytes.0,
            ProcessInput {
                stdin: None,
                pty: None,
            } => {
                return Err(ConnectError::new(Code::Unimplemented, "invalid input type"));
            }
        };
        let mut pipe = self.pipe.lock().await;
        let pipe = pipe
            .as_mut()
            .ok_or_else(|| internal("stdin not enabled or closed"))?;
        let written = pipe.write_all(&bytes).await;
        written.map_err(|error| internal(&format!("error writing to stdin: {error}")))
    }

    /// The program reads the end of its input once it has read what was sent.
    pub(super) async fn close(&self) {
        drop(self.pipe.lock().await.take());
    }
}
