//! Which sandbox and port a request is for: by header, by host name, by a signed URL.

use super::{gone, presigned};
use crate::daemon::Daemon;
use crate::error::ApiError;
use api::e2b::{ENVD_PORT, HEADER_SANDBOX_ID, HEADER_SANDBOX_PORT};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Request, header};

/// Destination of a data-plane request. The id is as written: it may not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) id: String,
    pub(crate) port: u16,
}

/// The destination, or `None` for a request to the API itself.
pub(crate) fn target(
    daemon: &Daemon,
    request: &Request<Body>,
) -> Result<Option<Target>, Box<Response>> {
    let refuse = |error: ApiError| Box::new(error.into_response());
    if let Some(target) = by_headers(request.headers()).map_err(refuse)? {
        return Ok(Some(target));
    }
    if let Some(domain) = &daemon.config.domain {
        let host = request.headers().get(header::HOST);
        let host = host
            .and_then(|h| h.to_str().ok())
            .or_else(|| request.uri().authority().map(|a| a.as_str()));
        if let Some(label) = host.and_then(|h| label(h, domain)) {
            let target = by_label(label).ok_or_else(|| Box::new(gone(label)))?;
            return Ok(Some(target));
        }
    }
    presigned::target(daemon, request).map_err(refuse)
}

fn by_headers(headers: &HeaderMap) -> Result<Option<Target>, ApiError> {
    let missing = |name| ApiError::invalid(format!("header {name} is missing beside the other"));
    let (id, port) = (
        headers.get(HEADER_SANDBOX_ID),
        headers.get(HEADER_SANDBOX_PORT),
    );
    let (id, port) = match (id, port) {
        (None, None) => return Ok(None),
        (Some(_), None) => return Err(missing("E2b-Sandbox-Port")),
        (None, Some(_)) => return Err(missing("E2b-Sandbox-Id")),
        (Some(id), Some(port)) => (id, port),
    };
    let port_text = String::from_utf8_lossy(port.as_bytes());
    let port = port_text.parse().ok().filter(|port| *port != 0);
    let port = port.ok_or_else(|| {
        let text = format!("header E2b-Sandbox-Port: {port_text:?} is not a port, 1 to 65535");
        ApiError::invalid(text)
    })?;
    let id = String::from_utf8_lossy(id.as_bytes()).into_owned();
    Ok(Some(Target { id, port }))
}

/// The label before `.<domain>`; both may carry a port. `api` and `sandbox` name the node itself.
fn label<'h>(host: &'h str, domain: &str) -> Option<&'h str> {
    let bare = |s: &'h str| s.rsplit_once(':').map_or(s, |(name, _)| name);
    let domain = domain.rsplit_once(':').map_or(domain, |(name, _)| name);
    let label = bare(host).strip_suffix(domain)?.strip_suffix('.')?;
    Some(label).filter(|l| !matches!(*l, "api" | "sandbox"))
}

fn by_label(label: &str) -> Option<Target> {
    let (port, id) = label.split_once('-')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let id = id.to_owned();
    Some(Target { id, port })
}

impl Target {
    /// The agent of a sandbox.
    pub(super) fn agent(id: &str) -> Self {
        let id = id.to_owned();
        Self {
            id,
            port: ENVD_PORT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_labels_name_port_and_sandbox() {
        let label = label("3000-iabc.sbx.test:8443", "sbx.test:8443").expect("a label");
        let target = by_label(label).expect("port and id");
        assert_eq!((target.id.as_str(), target.port), ("iabc", 3000));
    }

    #[test]
    fn other_hosts_and_the_nodes_own_name_no_sandbox() {
        for host in [
            "api.sbx.test",
            "sandbox.sbx.test",
            "sbx.test",
            "3000-iabc.other",
            "x",
        ] {
            assert_eq!(label(host, "sbx.test"), None, "{host}");
        }
        assert_eq!(by_label("0-iabc"), None);
        assert_eq!(by_label("iabc"), None);
    }
}
