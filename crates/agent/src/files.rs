//! `/files`: bytes of whole files, out and in.

mod download;
pub(crate) mod metadata;
mod query;
mod upload;

use crate::accounts::User;
use crate::paths;
use crate::route::{Body, HttpError};
use crate::sandbox::Sandbox;
use crate::signature::{Operation, same};
use api::envd::ACCESS_TOKEN;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use query::Query;

/// Answers `GET` and `POST /files`.
pub(crate) async fn serve(
    sandbox: &Sandbox,
    request: Request<Incoming>,
) -> Result<Response<Body>, HttpError> {
    let query = Query::parse(request.uri().query().unwrap_or_default())?;
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let operation = if is_read {
        Operation::Read
    } else {
        Operation::Write
    };
    authorize(sandbox, &request, &query, operation)?;
    let (user, _) = sandbox.user(query.username.as_deref()).map_err(|name| {
        let text = format!("error looking up user '{name}': user: unknown user {name}");
        HttpError::new(StatusCode::UNAUTHORIZED, text)
    })?;
    let place = Place {
        user,
        workdir: sandbox.init().workdir.clone(),
    };
    match operation {
        Operation::Read => download::serve(&place, &query, &request).await,
        Operation::Write => upload::serve(&place, &query, request).await,
    }
}

/// A token header decides alone; without one a signature may stand in for it.
fn authorize(
    sandbox: &Sandbox,
    request: &Request<Incoming>,
    query: &Query,
    operation: Operation,
) -> Result<(), HttpError> {
    let init = sandbox.init();
    let Some(token) = init.access_token.as_deref() else {
        return Ok(());
    };
    let refused = |text: &str| HttpError::new(StatusCode::UNAUTHORIZED, text);
    if let Some(given) = request.headers().get(ACCESS_TOKEN) {
        let matches = given.to_str().is_ok_and(|given| same(given, token));
        return if matches {
            Ok(())
        } else {
            Err(refused("access token present in header but does not match"))
        };
    }
    let signed = query
        .signed(operation)
        .ok_or_else(|| refused("missing signature query parameter"))?;
    signed
        .check(token, jiff::Timestamp::now().as_second())
        .map_err(|error| refused(&error.to_string()))
}

/// Where paths start and to whom files belong.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    user: User,
    workdir: Option<String>,
}

impl Place {
    fn path(&self, path: &str) -> Result<String, HttpError> {
        let expanded = paths::expand(path, &self.user, self.workdir.as_deref());
        expanded.map_err(|error| HttpError::new(StatusCode::BAD_REQUEST, error.to_string()))
    }
}
