//! `POST /files`: one file as the plain body, or several as parts of a form.

use super::query::Query;
use super::{Place, metadata};
use crate::filesystem::{ensure_directories, is_full};
use crate::route::{Body, HttpError, json};
use api::envd::http::WrittenFile;
use async_compression::tokio::bufread::GzipDecoder;
use axum::extract::multipart::Field;
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart};
use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use http::{Request, Response, StatusCode, header};
use hyper::body::Incoming;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, fchown};
use std::pin::pin;
use std::sync::Arc;
use tokio_util::io::{ReaderStream, StreamReader};

/// Bytes gathered before a trip to the blocking pool.
const WRITE_BYTES: usize = 256 << 10;

/// What is wanted of the files of one request.
struct Wanted<'a> {
    place: &'a Place,
    path: Option<&'a str>,
    metadata: BTreeMap<String, String>,
}

pub(super) async fn serve(
    place: &Place,
    query: &Query,
    request: Request<Incoming>,
) -> Result<Response<Body>, HttpError> {
    let metadata = metadata::from_headers(request.headers())?;
    let wanted = Wanted {
        place,
        path: query.path.as_deref(),
        metadata,
    };
    let kind = header_text(&request, header::CONTENT_TYPE).to_ascii_lowercase();
    let request = decoded(request)?;
    let written = if kind.starts_with("application/octet-stream") {
        vec![whole_body(&wanted, request).await?]
    } else if kind.starts_with("multipart/") {
        parts(&wanted, request).await?
    } else {
        return Err(bad(format!(
            "unsupported content type: {kind}, expected multipart/form-data or application/octet-stream"
        )));
    };
    Ok(json(StatusCode::OK, &written))
}

fn header_text(request: &Request<Incoming>, name: header::HeaderName) -> String {
    let value = request.headers().get(name);
    value
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .unwrap_or_default()
}

fn bad(text: String) -> HttpError {
    HttpError::new(StatusCode::BAD_REQUEST, text)
}

/// Takes off the content encoding.
fn decoded(request: Request<Incoming>) -> Result<Request<Body>, HttpError> {
    let encoding = header_text(&request, header::CONTENT_ENCODING).to_ascii_lowercase();
    match encoding.trim() {
        "" | "identity" => Ok(request.map(Body::new)),
        "gzip" => Ok(request.map(|body| {
            let bytes = Body::new(body).into_data_stream().map_err(io::Error::other);
            let mut decoder = GzipDecoder::new(StreamReader::new(bytes));
            decoder.multiple_members(true);
            Body::from_stream(ReaderStream::with_capacity(decoder, WRITE_BYTES))
        })),
        other => Err(bad(format!("unsupported content encoding: {other}"))),
    }
}

async fn whole_body(wanted: &Wanted<'_>, request: Request<Body>) -> Result<WrittenFile, HttpError> {
    let path = wanted
        .path
        .ok_or_else(|| bad("path query parameter is required for raw body upload".to_owned()))?;
    let path = wanted.place.path(path)?;
    write(wanted, path, request.into_body().into_data_stream()).await
}

async fn parts(
    wanted: &Wanted<'_>,
    mut request: Request<Body>,
) -> Result<Vec<WrittenFile>, HttpError> {
    // Files of any size are wanted; they are streamed.
    DefaultBodyLimit::disable().apply(&mut request);
    let form = Multipart::from_request(request, &()).await;
    let mut form = form.map_err(|error| bad(format!("error parsing multipart form: {error}")))?;
    let mut written: Vec<WrittenFile> = Vec::new();
    loop {
        let part = form.next_field().await;
        let part =
            part.map_err(|error| bad(format!("error reading form: {}", error.body_text())))?;
        let Some(part) = part else { return Ok(written) };
        if part.name() != Some("file") {
            continue;
        }
        let path = part_path(wanted, &part)?;
        if written.iter().any(|file| file.path == path) {
            return Err(bad(format!(
                "you cannot upload multiple files to the same path '{path}' in one upload request, \
                 only the first specified file was uploaded"
            )));
        }
        let bytes = part.map_err(|error| io::Error::other(error.body_text()));
        written.push(write(wanted, path, bytes).await?);
    }
}

/// The query's path, else the part's file name, which may hold directories.
fn part_path(wanted: &Wanted<'_>, part: &Field<'_>) -> Result<String, HttpError> {
    let path = wanted
        .path
        .or_else(|| part.file_name())
        .filter(|path| !path.is_empty());
    wanted
        .place
        .path(path.ok_or_else(|| bad("a part has no file name and no path is given".to_owned()))?)
}

/// Writes one file: makes it, gives it to the user, then fills it.
async fn write<S, E>(wanted: &Wanted<'_>, path: String, bytes: S) -> Result<WrittenFile, HttpError>
where
    S: Stream<Item = Result<Bytes, E>>,
    E: std::fmt::Display,
{
    let (place, target) = (wanted.place.clone(), path.clone());
    let metadata = wanted.metadata.clone();
    let file = blocking(move || create(&place, &target, &metadata)).await??;
    let mut writer = Writer {
        file: Arc::new(file),
        pending: Vec::new(),
    };
    let mut bytes = pin!(bytes);
    loop {
        let next = bytes.try_next().await;
        match next.map_err(|error| bad(format!("error reading the request: {error}")))? {
            Some(bytes) => writer.write(&bytes).await?,
            None => break,
        }
    }
    writer.flush().await?;
    let metadata = (!wanted.metadata.is_empty()).then(|| wanted.metadata.clone());
    Ok(WrittenFile {
        name: crate::paths::base(&path),
        path,
        r#type: "file".to_owned(),
        metadata,
    })
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, HttpError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| HttpError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

fn create(
    place: &Place,
    path: &str,
    metadata: &BTreeMap<String, String>,
) -> Result<File, HttpError> {
    let failed = |attempt: &str, error: &io::Error| not_written(attempt, path, error);
    ensure_directories(crate::paths::parent(path), &place.user)
        .map_err(|error| failed("error ensuring directories", &error))?;
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        let kind = if std::path::Path::new(path).is_dir() {
            "a directory"
        } else {
            "not a file"
        };
        return Err(bad(format!("path is {kind}: {path}")));
    }
    let mut options = File::options();
    let options = options.write(true).create(true).truncate(true).mode(0o666);
    let file = options
        .open(path)
        .map_err(|error| failed("error opening file", &error))?;
    if rustix::process::geteuid().is_root() {
        fchown(&file, Some(place.user.uid), Some(place.user.gid))
            .map_err(|error| failed("error changing file ownership", &error))?;
    }
    metadata::replace(&file, metadata).map_err(|error| failed("error writing metadata", &error))?;
    Ok(file)
}

fn not_written(attempt: &str, path: &str, error: &io::Error) -> HttpError {
    use rustix::io::Errno;
    if is_full(error) {
        let text = format!("not enough disk space available: {path}");
        return HttpError::new(StatusCode::INSUFFICIENT_STORAGE, text);
    }
    let status = match Errno::from_io_error(error) {
        Some(Errno::NOTDIR | Errno::ISDIR | Errno::NAMETOOLONG | Errno::NXIO | Errno::LOOP) => {
            StatusCode::BAD_REQUEST
        }
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => StatusCode::FORBIDDEN,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    HttpError::new(status, format!("{attempt} '{path}': {error}"))
}

/// Gathers bytes and writes them on the blocking pool.
struct Writer {
    file: Arc<File>,
    pending: Vec<u8>,
}

impl Writer {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), HttpError> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= WRITE_BYTES {
            self.flush().await
        } else {
            Ok(())
        }
    }

    async fn flush(&mut self) -> Result<(), HttpError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let (file, mut pending) = (Arc::clone(&self.file), std::mem::take(&mut self.pending));
        let (written, pending) = blocking(move || {
            let written = (&*file).write_all(&pending);
            pending.clear();
            (written, pending)
        })
        .await?;
        self.pending = pending;
        written.map_err(|error| not_written("error writing file", "", &error))
    }
}
