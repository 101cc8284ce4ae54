//! Reply bodies that break off when the sandbox's end is decided.

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The sandbox ended in the middle of a reply.
#[derive(Debug, thiserror::Error)]
#[error("the sandbox ended")]
struct SandboxEnded;

struct UntilEnd {
    body: Incoming,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
}

/// `body`, cut off with an error (so that the client sees it is not whole) when `ended` fires.
pub(super) fn until_end(body: Incoming, ended: &CancellationToken) -> Body {
    Body::new(UntilEnd {
        body,
        ended: Box::pin(ended.clone().cancelled_owned()),
    })
}

impl http_body::Body for UntilEnd {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.ended.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(SandboxEnded.into())));
        }
        Pin::new(&mut self.body)
            .poll_frame(cx)
            .map(|frame| frame.map(|result| result.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
