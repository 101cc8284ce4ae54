//! HTTP client of a Warren server: the control plane, and the data plane by headers.

mod process;

pub(crate) use process::{Input, Output, Process, ProcessFailure, StartCommand};

use anyhow::{Context as _, Result, anyhow, bail};
use api::ErrorBody;
use bytes::Bytes;
use http::request::Builder;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header,
};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;

/// Where `warren serve` listens unless told otherwise.
const DEFAULT_URL: &str = "http://127.0.0.1:9277";
/// Longest reply read as a whole; listings are pages, so nothing comes near.
const REPLY_BYTES_MAX: usize = 64 << 20;
/// Authenticates control-plane calls.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// A refusal by the server, as its error body has it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    message: String,
}

/// One server, and the right to use it.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    base: String,
    key: Option<HeaderValue>,
    pool: Pool<HttpConnector, Full<Bytes>>,
}

/// The server's address: flag or `WARREN_URL`, then `E2B_API_URL`, then the default.
pub(crate) fn server_url(given: Option<&str>) -> String {
    let url = given
        .map(str::to_owned)
        .or_else(|| std::env::var("E2B_API_URL").ok())
        .unwrap_or_else(|| DEFAULT_URL.to_owned());
    url.trim_end_matches('/').to_owned()
}

/// The key: flag or `WARREN_API_KEY`, then `E2B_API_KEY`, then the server's own file.
pub(crate) fn api_key(given: Option<&str>, data_dir: &Path) -> Option<String> {
    let from_file = || {
        let text = std::fs::read_to_string(data_dir.join("api-key")).ok()?;
        Some(text.trim().to_owned())
    };
    let key = given.map(str::to_owned);
    key.or_else(|| std::env::var("E2B_API_KEY").ok())
        .or_else(from_file)
        .filter(|key| !key.is_empty())
}

impl Client {
    /// A client for `base`; nothing is sent yet.
    pub(crate) fn new(base: &str, key: Option<&str>) -> Result<Self> {
        let uri: Uri = base
            .parse()
            .with_context(|| format!("{base:?} is not a URL"))?;
        if uri.scheme_str() != Some("http") || uri.authority().is_none() {
            bail!("{base:?}: only http://host[:port] is spoken, put TLS in front of the server");
        }
        let key = key.map(HeaderValue::from_str).transpose();
        Ok(Self {
            base: base.trim_end_matches('/').to_owned(),
            key: key.context("the API key holds characters that no header may")?,
            pool: Pool::builder(TokioExecutor::new()).build_http(),
        })
    }

    /// A call with an optional JSON body, answered by JSON.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T> {
        let response = self.control(method, path, body).await?;
        let bytes = whole(response.into_body()).await?;
        serde_json::from_slice(&bytes)
            .with_context(|| format!("the reply to {path} is not what this version expects"))
    }

    /// `GET` of JSON.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.call(Method::GET, path, None::<&()>).await
    }

    /// `GET` of one page of JSON, and the token of the next.
    pub(crate) async fn get_page<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<(T, Option<String>)> {
        let response = self.control(Method::GET, path, None::<&()>).await?;
        let next = response.headers().get("x-next-token");
        let next = next.and_then(|v| v.to_str().ok()).filter(|v| !v.is_empty());
        let next = next.map(str::to_owned);
        let bytes = whole(response.into_body()).await?;
        let page = serde_json::from_slice(&bytes)
            .with_context(|| format!("the reply to {path} is not what this version expects"))?;
        Ok((page, next))
    }

    /// A control-plane call whose reply is a success; the body is not read yet.
    pub(crate) async fn control(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base));
        if let Some(key) = &self.key {
            request = request.header(API_KEY, key);
        }
        let body = match body {
            Some(value) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                serde_json::to_vec(value).context("write the request as JSON")?
            }
            None => Vec::new(),
        };
        self.send(request, body).await
    }

    /// A data-plane call with these headers.
    async fn data(
        &self,
        path: &str,
        headers: &HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response<Incoming>> {
        let mut request = Request::post(format!("{}{path}", self.base));
        if let Some(all) = request.headers_mut() {
            all.extend(headers.clone());
        }
        self.send(request, body).await
    }

    async fn send(&self, request: Builder, body: Vec<u8>) -> Result<Response<Incoming>> {
        let request = request
            .header(
                header::USER_AGENT,
                concat!("warren-cli/", env!("CARGO_PKG_VERSION")),
            )
            .body(Full::new(Bytes::from(body)))
            .with_context(|| format!("form a request to {}", self.base))?;
        let sent = self.pool.request(request).await;
        let response = sent.map_err(|error| {
            if error.is_connect() {
                anyhow!(
                    "no server answers at {}: start one with `warren serve`",
                    self.base
                )
            } else {
                anyhow::Error::new(error).context(format!("talk to the server at {}", self.base))
            }
        })?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(refused(response).await.into())
    }
}

/// Reads the error body; a reply that has none is told by its status.
async fn refused(response: Response<Incoming>) -> Refused {
    let status = response.status();
    let body = whole(response.into_body()).await.unwrap_or_default();
    let message = match serde_json::from_slice::<ErrorBody>(&body) {
        Ok(body) => body.message,
        Err(_) => format!("the server answered {status}"),
    };
    Refused { status, message }
}

async fn whole(body: Incoming) -> Result<Bytes> {
    let read = Limited::new(body, REPLY_BYTES_MAX).collect().await;
    let read = read.map_err(|error| anyhow!(error).context("read the server's reply"))?;
    Ok(read.to_bytes())
}

/// Whether the server said that the thing is not there.
pub(crate) fn is_not_found(error: &anyhow::Error) -> bool {
    let refused = error.downcast_ref::<Refused>();
    refused.is_some_and(|r| r.status == StatusCode::NOT_FOUND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_http_addresses_are_taken() {
        for good in ["http://127.0.0.1:9277", "http://node.test/"] {
            assert!(Client::new(good, Some("e2b_00")).is_ok(), "{good}");
        }
        for bad in ["https://node.test", "127.0.0.1:9277", "http://", "/x", ""] {
            let error = Client::new(bad, None).expect_err(bad).to_string();
            assert!(error.contains(&format!("{bad:?}")), "{error}");
        }
        assert!(Client::new(DEFAULT_URL, Some("a\nb")).is_err());
    }

    #[test]
    fn a_given_key_wins_over_the_file_of_the_server() {
        let dir = tempfile::tempdir().expect("temporary directory");
        assert_eq!(
            api_key(Some("e2b_aa"), dir.path()).as_deref(),
            Some("e2b_aa")
        );
        let mut file = std::fs::File::create(dir.path().join("api-key")).expect("create");
        std::io::Write::write_all(&mut file, b"e2b_bb\n").expect("write");
        assert_eq!(
            api_key(Some("e2b_aa"), dir.path()).as_deref(),
            Some("e2b_aa")
        );
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_named_with_what_to_do() {
        // Port 1 of loopback: nothing listens there.
        let client = Client::new("http://127.0.0.1:1", None).expect("a URL");
        let error = client
            .get::<serde_json::Value>("/x")
            .await
            .expect_err("no server");
        let want = "no server answers at http://127.0.0.1:1: start one with `warren serve`";
        assert_eq!(format!("{error:#}"), want);
    }
}
