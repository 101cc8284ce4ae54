//! From a request to whoever answers it, and the answers that are the same everywhere.

use crate::connect::Call;
use crate::sandbox::Sandbox;
use crate::signature::same;
use crate::{environment, files, filesystem, process, tunnel};
use api::envd::http::{ErrorBody, InitRequest};
use api::envd::{self, ACCESS_TOKEN, connect};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use std::sync::Arc;

pub(crate) use axum::body::Body;

/// Longest body of `POST /init`, bytes.
const INIT_BYTES_MAX: usize = 8 << 20;

/// A failed plain request.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct HttpError {
    status: StatusCode,
    message: String,
}

impl HttpError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }
}

/// An error body.
pub(crate) fn error(status: StatusCode, message: &str) -> Response<Body> {
    json(
        status,
        &ErrorBody {
            code: status.as_u16(),
            message: message.to_owned(),
        },
    )
}

/// A JSON body.
pub(crate) fn json<T: serde::Serialize>(status: StatusCode, body: &T) -> Response<Body> {
    let bytes =
        serde_json::to_vec(body).expect("bodies hold only strings, numbers and maps of them");
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    let value = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}

/// Answers any request.
pub(crate) async fn handle(sandbox: &Arc<Sandbox>, request: Request<Incoming>) -> Response<Body> {
    if request.method() == Method::CONNECT {
        return tunnel::open(request).await;
    }
    let answered = match request.uri().path() {
        "/health" => only(&request, &[Method::GET]).map(|()| empty(StatusCode::NO_CONTENT)),
        // Checks for itself: a signature may stand in for the token.
        "/files" => match only(&request, &[Method::GET, Method::HEAD, Method::POST]) {
            Ok(()) => files::serve(sandbox, request).await,
            Err(error) => Err(error),
        },
        _ => match authorize(sandbox, request.headers()) {
            Ok(()) => authorized(sandbox, request).await,
            Err(error) => Err(error),
        },
    };
    answered.unwrap_or_else(|failed| error(failed.status, &failed.message))
}

async fn authorized(
    sandbox: &Arc<Sandbox>,
    request: Request<Incoming>,
) -> Result<Response<Body>, HttpError> {
    match request.uri().path() {
        "/envs" => {
            only(&request, &[Method::GET])?;
            let env = environment::global(&sandbox.init(), &sandbox.identity);
            Ok(json(StatusCode::OK, &env))
        }
        "/init" => {
            only(&request, &[Method::POST])?;
            init(sandbox, request).await
        }
        "/metrics" | "/files/compose" => {
            let text = format!("{} is not available yet", request.uri().path());
            Err(HttpError::new(StatusCode::NOT_IMPLEMENTED, text))
        }
        _ => rpc(sandbox, request).await,
    }
}

/// Calls of the two services.
async fn rpc(
    sandbox: &Arc<Sandbox>,
    request: Request<Incoming>,
) -> Result<Response<Body>, HttpError> {
    let path = request.uri().path().to_owned();
    let process_method = path.strip_prefix(envd::process::SERVICE);
    let filesystem_method = path.strip_prefix(envd::filesystem::SERVICE);
    let unknown = || HttpError::new(StatusCode::NOT_FOUND, format!("no such route: {path}"));
    if process_method.or(filesystem_method).is_none() {
        return Err(unknown());
    }
    only(&request, &[Method::POST])?;
    json_only(request.headers())?;
    let (head, body) = request.into_parts();
    let call = Call::new(head.headers);
    let reply = match (process_method, filesystem_method) {
        (Some(method), _) => process::call(sandbox, method, call, body).await,
        (_, Some(method)) => filesystem::call(sandbox, method, call, body).await,
        (None, None) => None,
    };
    reply.ok_or_else(unknown)
}

/// Only the JSON codec is spoken.
fn json_only(headers: &HeaderMap) -> Result<(), HttpError> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    if kind.eq_ignore_ascii_case(connect::UNARY_TYPE)
        || kind.eq_ignore_ascii_case(connect::STREAM_TYPE)
    {
        return Ok(());
    }
    let text = format!(
        "content type '{kind}' is not spoken; use {} or {}",
        connect::UNARY_TYPE,
        connect::STREAM_TYPE
    );
    Err(HttpError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text))
}

fn authorize(sandbox: &Sandbox, headers: &HeaderMap) -> Result<(), HttpError> {
    let init = sandbox.init();
    let Some(token) = init.access_token.as_deref() else {
        return Ok(());
    };
    let given = headers
        .get(ACCESS_TOKEN)
        .and_then(|value| value.to_str().ok());
    if given.is_some_and(|given| same(given, token)) {
        return Ok(());
    }
    let text = "unauthorized access, please provide a valid access token";
    Err(HttpError::new(StatusCode::UNAUTHORIZED, text))
}

fn only<B>(request: &Request<B>, methods: &[Method]) -> Result<(), HttpError> {
    if methods.contains(request.method()) {
        return Ok(());
    }
    let text = format!(
        "{} is not allowed on {}",
        request.method(),
        request.uri().path()
    );
    Err(HttpError::new(StatusCode::METHOD_NOT_ALLOWED, text))
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Changes what processes start with; for the node only, which keeps this route from its own clients.
async fn init(sandbox: &Sandbox, request: Request<Incoming>) -> Result<Response<Body>, HttpError> {
    let invalid = |text: String| HttpError::new(StatusCode::BAD_REQUEST, text);
    let body = Limited::new(request.into_body(), INIT_BYTES_MAX)
        .collect()
        .await;
    let body = body.map_err(|error| invalid(format!("error reading the request: {error}")))?;
    let bytes = body.to_bytes();
    let wanted: InitRequest = if bytes.is_empty() {
        InitRequest::default()
    } else {
        serde_json::from_slice(&bytes)
            .map_err(|error| invalid(format!("error reading the request: {error}")))?
    };
    sandbox.change_init(|init| {
        init.env = wanted.env_vars.unwrap_or_else(|| init.env.clone());
        init.access_token = wanted.access_token.or_else(|| init.access_token.clone());
        init.user = wanted.default_user.or_else(|| init.user.clone());
        init.workdir = wanted.default_workdir.or_else(|| init.workdir.clone());
    });
    let mut response = empty(StatusCode::NO_CONTENT);
    let version = HeaderValue::from_static(envd::VERSION);
    response.headers_mut().insert("x-envd-version", version);
    Ok(response)
}
