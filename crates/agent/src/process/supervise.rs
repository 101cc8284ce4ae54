//! Follows a program from its start to its end: reads what it writes, reports how it ended.

use super::output::{CHUNK_BYTES_MAX, Channel, Event};
use super::{Process, status};
use crate::sandbox::Sandbox;
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use sys::exec::ExitStatus;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// After the program's end its children may hold its output open. What they still write is awaited this
/// long after the last byte (a `tee` finishing), and not at all beyond the limit.
const SILENCE: Duration = Duration::from_millis(50);
const LINGER_MAX: Duration = Duration::from_millis(250);

/// One of the two pipes.
#[derive(Debug)]
struct Source {
    channel: Channel,
    /// `None` after its end.
    pipe: Option<pipe::Receiver>,
    /// Bytes that were in the pipe when the program ended and are not read yet.
    owed: usize,
}

impl Source {
    fn new(channel: Channel, pipe: pipe::Receiver) -> Self {
        Self {
            channel,
            pipe: Some(pipe),
            owed: 0,
        }
    }

    /// The next piece; `None` when the end has just come, and for ever pending after that.
    async fn next(&mut self, buffer: &mut [u8]) -> Option<Bytes> {
        let Some(pipe) = &self.pipe else {
            return std::future::pending().await;
        };
        while pipe.readable().await.is_ok() {
            match pipe.try_read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => break,
                Ok(count) => {
                    self.owed = self.owed.saturating_sub(count);
                    return Some(Bytes::copy_from_slice(buffer.get(..count)?));
                }
            }
        }
        self.pipe = None;
        self.owed = 0;
        None
    }

    fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    fn note_owed(&mut self) {
        let waiting = self
            .pipe
            .as_ref()
            .and_then(|pipe| rustix::io::ioctl_fionread(pipe).ok());
        self.owed = waiting
            .and_then(|bytes| usize::try_from(bytes).ok())
            .unwrap_or(0);
    }
}

/// The pipes and the end of a program to follow.
#[derive(Debug)]
pub(super) struct Followed {
    sources: [Source; 2],
    exit: oneshot::Receiver<ExitStatus>,
}

impl Followed {
    pub(super) fn new(
        stdout: pipe::Receiver,
        stderr: pipe::Receiver,
        exit: oneshot::Receiver<ExitStatus>,
    ) -> Self {
        let stdout = Source::new(Channel::Stdout, stdout);
        Self {
            sources: [stdout, Source::new(Channel::Stderr, stderr)],
            exit,
        }
    }
}

/// Runs until the program has ended and nobody writes to its pipes any more.
pub(super) async fn supervise(sandbox: Arc<Sandbox>, process: Arc<Process>, followed: Followed) {
    let Followed {
        mut sources,
        mut exit,
    } = followed;
    // One half per pipe.
    let mut buffer = vec![0; 2 * CHUNK_BYTES_MAX];
    let status = loop {
        tokio::select! {
            event = next(&mut sources, &mut buffer) => process.output.publish(event).await,
            status = &mut exit => break status,
        }
    };
    linger(&process, &mut sources, &mut buffer).await;
    sandbox.trees.fell(&process.tree);
    sandbox.reaper.reaped.notify_one();
    sandbox.processes.retire(&process);
    // The reaper goes only with the whole server.
    let status = status.unwrap_or(ExitStatus::Signaled {
        signal: 9,
        core_dumped: false,
    });
    process
        .output
        .publish(Event::End(status::end_event(status)))
        .await;
    process.input.close().await;
    // Whoever still writes must neither block nor get SIGPIPE; nobody asked for it any more.
    while sources.iter().any(Source::is_open) {
        next_or_closed(&mut sources, &mut buffer).await;
    }
}

/// Reads what the program left in its pipes, all of it, and what its children add shortly after.
async fn linger(process: &Process, sources: &mut [Source; 2], buffer: &mut [u8]) {
    sources.iter_mut().for_each(Source::note_owed);
    let limit = Instant::now() + LINGER_MAX;
    while sources.iter().any(Source::is_open) {
        let owed = sources.iter().any(|source| source.owed > 0);
        if !owed && Instant::now() >= limit {
            return;
        }
        match tokio::time::timeout(SILENCE, next_or_closed(sources, buffer)).await {
            Ok(Some(event)) => process.output.publish(event).await,
            Ok(None) => {}
            Err(_) => return,
        }
    }
}

async fn next(sources: &mut [Source; 2], buffer: &mut [u8]) -> Event {
    loop {
        if let Some(event) = next_or_closed(sources, buffer).await {
            return event;
        }
    }
}

/// The next piece of either pipe; `None` when one has come to its end.
async fn next_or_closed(sources: &mut [Source; 2], buffer: &mut [u8]) -> Option<Event> {
    let [out, err] = sources;
    let (out_buffer, err_buffer) = buffer.split_at_mut(buffer.len() / 2);
    tokio::select! {
        bytes = out.next(out_buffer) => bytes.map(|bytes| Event::Data(out.channel, bytes)),
        bytes = err.next(err_buffer) => bytes.map(|bytes| Event::Data(err.channel, bytes)),
    }
}
