//! CONNECT: bytes to and from a port of the sandbox, also one that only listens on loopback.

use crate::route::{Body, error};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use tokio::net::TcpStream;

const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Text that E2B clients look for.
const PORT_CLOSED: &str = "The sandbox is running but port is not open";

/// Dials the port of the request's authority; the answer is 200 and then the port's bytes.
pub(crate) async fn open(request: Request<Incoming>) -> Response<Body> {
    let Some(port) = request.uri().port_u16() else {
        return error(
            StatusCode::BAD_REQUEST,
            "CONNECT needs an authority with a port",
        );
    };
    let Some(target) = dial(port).await else {
        return error(StatusCode::BAD_GATEWAY, PORT_CLOSED);
    };
    drop(tokio::spawn(splice(request, target)));
    Response::new(Body::empty())
}

async fn dial(port: u16) -> Option<TcpStream> {
    let dial = async {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
            Ok(stream) => Some(stream),
            Err(_) => TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.ok(),
        }
    };
    let stream = tokio::time::timeout(DIAL_TIMEOUT, dial).await.ok()??;
    // Only a delay is at stake.
    stream.set_nodelay(true).ok();
    Some(stream)
}

/// Copies both ways; an end of one side is passed on and the other way goes on.
async fn splice(request: Request<Incoming>, mut target: TcpStream) {
    match hyper::upgrade::on(request).await {
        Ok(upgraded) => {
            let mut client = TokioIo::new(upgraded);
            if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut target).await {
                tracing::debug!(%error, "a tunnel ended");
            }
        }
        Err(error) => tracing::debug!(%error, "a tunnel did not open"),
    }
}
