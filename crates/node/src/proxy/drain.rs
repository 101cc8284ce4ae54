//! Request bodies that are read on when the sandbox has answered before their end.
//!
//! Without it the connection would be closed on a client that is still writing, which then sees a broken
//! pipe in place of the answer (an upload that is refused, say). Bounded in bytes and time.

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Most that is read for nobody; a client with more to say loses its connection.
const BYTES_MAX: usize = 4 << 20;
const TIME_MAX: Duration = Duration::from_secs(5);

/// Wraps a request's body.
pub(super) fn after_answer(body: Body) -> Body {
    if body.is_end_stream() {
        return body;
    }
    Body::new(Drained { inner: Some(body) })
}

struct Drained {
    /// `None` after its end.
    inner: Option<Body>,
}

impl HttpBody for Drained {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(body) = &mut self.inner else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(body).poll_frame(context);
        if !matches!(polled, Poll::Pending | Poll::Ready(Some(Ok(_)))) {
            self.inner = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Drained {
    fn drop(&mut self) {
        if let Some(body) = self.inner.take().filter(|body| !body.is_end_stream())
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            drop(runtime.spawn(tokio::time::timeout(TIME_MAX, discard(body))));
        }
    }
}

async fn discard(mut body: Body) {
    let mut read = 0;
    while let Some(Ok(frame)) = body.frame().await {
        read += frame.data_ref().map_or(0, Bytes::len);
        if read > BYTES_MAX {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn what_a_client_still_sends_is_read_after_the_body_was_dropped() {
        let taken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&taken);
        let pieces = futures::stream::iter(0..10).map(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>(Bytes::from_static(b"piece"))
        });
        let mut body = after_answer(Body::from_stream(pieces));
        body.frame().await.expect("a first piece").expect("good");
        drop(body);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(taken.load(Ordering::Relaxed), 10);
    }
}
