//! Requests to a port inside: HTTP/1.1 over a connection that the agent dials; WebSockets are spliced.

use super::agent::AgentError;
use super::{ending, headers, unreachable};
use crate::error::ApiError;
use crate::sandbox::Sandbox;
use api::{ErrorKind, SandboxGone};
use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Request, StatusCode, Uri, Version, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Carries one request to `port` inside the sandbox.
pub(super) async fn forward(
    sandbox: &Arc<Sandbox>,
    port: u16,
    mut request: Request<Body>,
) -> Response {
    let tunnel = match sandbox.agent.connect(port).await {
        Ok(tunnel) => tunnel,
        Err(AgentError::Refused { status, .. }) if status == StatusCode::BAD_GATEWAY => {
            let body = SandboxGone::port_closed(sandbox.id().as_str(), port);
            return (ErrorKind::BadGateway.status(), Json(body)).into_response();
        }
        Err(error) => return unreachable(sandbox, "agent", &error),
    };
    let client_upgrade = hyper::upgrade::on(&mut request);
    let protocol = headers::upgrade(request.headers());
    if let Err(error) = to_http1(&mut request) {
        return error.into_response();
    }
    if let Some(protocol) = &protocol {
        headers::set_upgrade(request.headers_mut(), protocol.clone());
    }
    match exchange(tunnel, request, &sandbox.ended).await {
        Ok(response) => answer(response, client_upgrade, sandbox),
        Err(error) => unreachable(sandbox, &format!("server on port {port}"), &error),
    }
}

/// Origin form, HTTP/1.1, the host as the client called it.
fn to_http1(request: &mut Request<Body>) -> Result<(), ApiError> {
    let invalid = |what: &str| ApiError::invalid(format!("{what} cannot be passed on"));
    let authority = request.uri().authority().map(|a| a.as_str().to_owned());
    let path = request.uri().path_and_query().map_or("/", |p| p.as_str());
    let uri: Uri = path.parse().map_err(|_| invalid("the path"))?;
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_11;
    let headers = request.headers_mut();
    headers::strip_hop_by_hop(headers);
    headers.remove(header::TE);
    if !headers.contains_key(header::HOST) {
        let host = authority.unwrap_or_else(|| "localhost".to_owned());
        let host = HeaderValue::from_str(&host).map_err(|_| invalid("the host"))?;
        headers.insert(header::HOST, host);
    }
    Ok(())
}

async fn exchange(
    tunnel: Upgraded,
    request: Request<Body>,
    ended: &CancellationToken,
) -> Result<http::Response<hyper::body::Incoming>, hyper::Error> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(tunnel).await?;
    let ended = ended.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = ended.cancelled() => {}
            result = connection.with_upgrades() => if let Err(error) = result {
                tracing::debug!(%error, "connection to a port ended");
            }
        }
    });
    sender.send_request(request).await
}

fn answer(
    mut response: http::Response<hyper::body::Incoming>,
    client: OnUpgrade,
    sandbox: &Arc<Sandbox>,
) -> Response {
    let switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let protocol = headers::upgrade(response.headers()).filter(|_| switched);
    let server = hyper::upgrade::on(&mut response);
    headers::strip_hop_by_hop(response.headers_mut());
    if let Some(protocol) = protocol {
        headers::set_upgrade(response.headers_mut(), protocol);
        tokio::spawn(splice(client, server, sandbox.ended.clone()));
        return response.map(Body::new);
    }
    response.map(|body| ending::until_end(body, &sandbox.ended))
}

/// Copies between the two sides of a switched connection until one ends or the sandbox does.
async fn splice(client: OnUpgrade, server: OnUpgrade, ended: CancellationToken) {
    let both = async {
        let (client, server) = tokio::try_join!(client, server).map_err(std::io::Error::other)?;
        let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
        tokio::io::copy_bidirectional(&mut client, &mut server).await
    };
    tokio::select! {
        () = ended.cancelled() => {}
        copied = both => if let Err(error) = copied {
            tracing::debug!(%error, "switched connection ended");
        }
    }
}
