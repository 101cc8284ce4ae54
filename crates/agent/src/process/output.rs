//! What a program has written: the last of it kept for late readers, all of it sent to present ones.
//!
//! With a reader attached nothing is lost: a full channel holds the program back, as a full pipe would.
//! Without one, the oldest is dropped. A reader that takes nothing for [`STALL_MAX`] is cut off, so that it
//! cannot hold the program for ever.

use api::envd::process::EndEvent;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// Output kept per process, bytes.
const KEPT_BYTES_MAX: usize = 4 << 20;
/// Output kept of all processes together; beyond it each keeps [`KEPT_BYTES_LEAST`] only.
const ALL_KEPT_BYTES_MAX: usize = 32 << 20;
const KEPT_BYTES_LEAST: usize = 16 << 10;
/// What all keep at the moment.
static ALL_KEPT_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Longest piece of output, bytes; as envd.
pub(super) const CHUNK_BYTES_MAX: usize = 32 << 10;
/// Pieces on their way to one reader: half a MiB.
const CHANNEL_EVENTS: usize = 16;
const STALL_MAX: Duration = Duration::from_mins(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    Stdout,
    Stderr,
}

#[derive(Debug, Clone)]
pub(super) enum Event {
    Data(Channel, Bytes),
    End(EndEvent),
}

/// A reader's view: what was kept, then what comes.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) replay: VecDeque<Event>,
    /// Closed without an end: this reader was cut off.
    pub(super) live: mpsc::Receiver<Event>,
}

#[derive(Debug, Default)]
pub(super) struct Output {
    /// Never held across an await.
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Neighbours of one channel are joined, so that tiny writes do not cost more than their bytes.
    kept: VecDeque<(Channel, Vec<u8>)>,
    kept_bytes: usize,
    end: Option<EndEvent>,
    readers: Vec<mpsc::Sender<Event>>,
}

impl Output {
    pub(super) fn subscribe(&self) -> Subscription {
        let (sender, live) = mpsc::channel(CHANNEL_EVENTS);
        let mut inner = crate::locked(&self.inner);
        let pieces = inner.kept.iter();
        let mut replay: VecDeque<Event> = pieces
            .map(|(channel, bytes)| Event::Data(*channel, Bytes::copy_from_slice(bytes)))
            .collect();
        match &inner.end {
            Some(end) => replay.push_back(Event::End(end.clone())),
            None => inner.readers.push(sender),
        }
        Subscription { replay, live }
    }

    /// Keeps the event and hands it to every reader, waiting for those that are slow.
    pub(super) async fn publish(&self, event: Event) {
        let readers = crate::locked(&self.inner).keep(&event);
        for reader in readers {
            let sent = match reader.try_send(event.clone()) {
                Ok(()) => true,
                Err(mpsc::error::TrySendError::Closed(_)) => false,
                Err(mpsc::error::TrySendError::Full(event)) => {
                    reader.send_timeout(event, STALL_MAX).await.is_ok()
                }
            };
            if !sent {
                let mut inner = crate::locked(&self.inner);
                inner.readers.retain(|other| !other.same_channel(&reader));
            }
        }
    }

    pub(super) fn kept_bytes(&self) -> usize {
        crate::locked(&self.inner).kept_bytes
    }

    /// Drops the kept output; the end stays.
    pub(super) fn forget(&self) {
        let mut inner = crate::locked(&self.inner);
        inner.kept.clear();
        ALL_KEPT_BYTES.fetch_sub(inner.kept_bytes, Ordering::Relaxed);
        inner.kept_bytes = 0;
    }
}

impl Inner {
    /// Returns who must be told.
    fn keep(&mut self, event: &Event) -> Vec<mpsc::Sender<Event>> {
        match event {
            Event::End(end) => {
                self.end = Some(end.clone());
                std::mem::take(&mut self.readers)
            }
            Event::Data(channel, bytes) => {
                self.keep_bytes(*channel, bytes);
                self.readers.clone()
            }
        }
    }

    fn keep_bytes(&mut self, channel: Channel, bytes: &[u8]) {
        self.kept_bytes += bytes.len();
        let all = ALL_KEPT_BYTES.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        let most = if all > ALL_KEPT_BYTES_MAX {
            KEPT_BYTES_LEAST
        } else {
            KEPT_BYTES_MAX
        };
        match self.kept.back_mut() {
            Some((last, kept))
                if *last == channel && kept.len() + bytes.len() <= CHUNK_BYTES_MAX =>
            {
                kept.extend_from_slice(bytes);
            }
            _ => self.kept.push_back((channel, bytes.to_vec())),
        }
        while self.kept_bytes > most {
            let Some((_, oldest)) = self.kept.pop_front() else {
                break;
            };
            self.kept_bytes -= oldest.len();
            ALL_KEPT_BYTES.fetch_sub(oldest.len(), Ordering::Relaxed);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        ALL_KEPT_BYTES.fetch_sub(self.kept_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(size: usize) -> Event {
        Event::Data(Channel::Stdout, vec![b'x'; size].into())
    }

    #[tokio::test]
    async fn without_a_reader_only_the_last_bytes_are_kept() {
        let output = Output::default();
        for _ in 0..1000 {
            output.publish(data(CHUNK_BYTES_MAX)).await;
        }
        assert_eq!(output.kept_bytes(), KEPT_BYTES_MAX);
        output.publish(Event::End(EndEvent::default())).await;
        output.forget();
        let replay = output.subscribe().replay;
        assert!(matches!(replay.front(), Some(Event::End(_))) && replay.len() == 1);
    }

    #[tokio::test]
    async fn tiny_writes_are_kept_joined() {
        let output = Output::default();
        for _ in 0..CHUNK_BYTES_MAX {
            output.publish(data(1)).await;
        }
        assert_eq!(output.subscribe().replay.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_cut_off_and_others_get_all() {
        let output = Output::default();
        let mut stalled = output.subscribe();
        let mut reader = output.subscribe();
        let reading = tokio::spawn(async move {
            let mut events = 0;
            while let Some(Event::Data(..)) = reader.live.recv().await {
                events += 1;
            }
            events
        });
        for _ in 0..CHANNEL_EVENTS * 3 {
            output.publish(data(1)).await;
        }
        output.publish(Event::End(EndEvent::default())).await;
        assert_eq!(reading.await.unwrap(), CHANNEL_EVENTS * 3);
        let mut last = None;
        while let Some(event) = stalled.live.recv().await {
            last = Some(event);
        }
        assert!(
            matches!(last, Some(Event::Data(..))),
            "no end for the one cut off"
        );
    }
}
