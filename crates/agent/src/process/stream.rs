//! The reply of `Start` and `Connect`: a start event, output, one end event, the end of the stream.

use super::Process;
use super::output::{Channel, Event, Subscription};
use api::envd::connect::{encode_end, encode_message};
use api::envd::process::{DataEvent, EndEvent, EventResponse, KeepAlive, ProcessEvent, StartEvent};
use api::envd::{Code, ConnectError, ProtoBytes};
use bytes::Bytes;
use futures::Stream;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};

/// Whose deadline it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The call that started the process: its deadline ended the process.
    Starter,
    /// A later reader: its deadline ends the reading.
    Reader,
}

/// What a stream is made from.
#[derive(Debug)]
pub(super) struct Following {
    pub(super) process: Arc<Process>,
    pub(super) subscription: Subscription,
    pub(super) role: Role,
    pub(super) keepalive: Duration,
    /// When the stream ends at the latest.
    pub(super) limit: Option<Instant>,
}

#[derive(Debug)]
enum Next {
    Start,
    Event,
    Close(Option<ConnectError>),
    Nothing,
}

/// The frames of the reply. Dropping it leaves the process alone.
pub(super) fn frames(following: Following) -> impl Stream<Item = Result<Bytes, Infallible>> {
    futures::stream::unfold(
        (following, Next::Start),
        |(mut following, next)| async move {
            let (frame, next) = match next {
                Next::Start => {
                    let start = Some(StartEvent {
                        pid: following.process.pid,
                    });
                    let event = ProcessEvent {
                        start,
                        ..ProcessEvent::default()
                    };
                    (message(event), Next::Event)
                }
                Next::Event => following.next().await,
                Next::Close(error) => (encode_end(error), Next::Nothing),
                Next::Nothing => return None,
            };
            Some((Ok(Bytes::from(frame)), (following, next)))
        },
    )
}

impl Following {
    async fn next(&mut self) -> (Vec<u8>, Next) {
        if let Some(event) = self.subscription.replay.pop_front() {
            return self.frame(event);
        }
        let limit = self.limit;
        let limited = async {
            match limit {
                Some(limit) => sleep_until(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // What has arrived is delivered before a limit is looked at.
            biased;
            event = timeout(self.keepalive, self.subscription.live.recv()) => match event {
                Ok(Some(event)) => self.frame(event),
                Ok(None) => (encode_end(Some(cut_off())), Next::Nothing),
                Err(_) => {
                    let keepalive = Some(KeepAlive {});
                    (message(ProcessEvent { keepalive, ..ProcessEvent::default() }), Next::Event)
                }
            },
            () = limited => (encode_end(Some(deadline_exceeded())), Next::Nothing),
        }
    }

    fn frame(&self, event: Event) -> (Vec<u8>, Next) {
        match event {
            Event::Data(channel, bytes) => (message(data(channel, &bytes)), Next::Event),
            Event::End(end) => self.end(end),
        }
    }

    fn end(&self, end: EndEvent) -> (Vec<u8>, Next) {
        let timed_out = self.process.timed_out.load(Ordering::Acquire);
        if timed_out && self.role == Role::Starter {
            return (encode_end(Some(deadline_exceeded())), Next::Nothing);
        }
        let event = ProcessEvent {
            end: Some(end),
            ..ProcessEvent::default()
        };
        (message(event), Next::Close(None))
    }
}

fn data(channel: Channel, bytes: &[u8]) -> ProcessEvent {
    let bytes = Some(ProtoBytes(bytes.to_vec()));
    let data = match channel {
        Channel::Stdout => DataEvent {
            stdout: bytes,
            ..DataEvent::default()
        },
        Channel::Stderr => DataEvent {
            stderr: bytes,
            ..DataEvent::default()
        },
    };
    ProcessEvent {
        data: Some(data),
        ..ProcessEvent::default()
    }
}

fn message(event: ProcessEvent) -> Vec<u8> {
    let json = serde_json::to_vec(&EventResponse { event });
    encode_message(&json.expect("events hold only strings and numbers"))
}

fn deadline_exceeded() -> ConnectError {
    ConnectError::new(
        Code::DeadlineExceeded,
        "the deadline of the call has passed",
    )
}

fn cut_off() -> ConnectError {
    let text = "the output was not read for too long; connect again for what is kept";
    ConnectError::new(Code::ResourceExhausted, text)
}
