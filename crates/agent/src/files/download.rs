//! `GET /files`.

use super::Place;
use super::query::Query;
use crate::route::{Body, HttpError};
use async_compression::tokio::bufread::GzipEncoder;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use rustix::fs::OFlags;
use std::fs::Metadata;
use std::io::{self, SeekFrom};
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeekExt, BufReader};
use tokio_util::io::ReaderStream;

/// Bytes per read: large, because each is a trip to the blocking pool.
const READ_BYTES: usize = 256 << 10;
/// Filesystems whose files do not say how long they are.
const UNSIZED_FILESYSTEMS: [u64; 4] = [0x9fa0, 0x6265_6572, 0x27_e0eb, 0x6367_7270];

pub(super) async fn serve(
    place: &Place,
    query: &Query,
    request: &Request<Incoming>,
) -> Result<Response<Body>, HttpError> {
    let path = place.path(query.path.as_deref().unwrap_or_default())?;
    let (file, found) = open(&path).await?;
    let encoding = Encoding::choose(request.headers())?;
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    let disposition = format!(
        "inline; filename*=UTF-8''{}",
        quoted(&crate::paths::base(&path))
    );
    headers.insert(
        header::CONTENT_DISPOSITION,
        disposition.parse().expect("quoted to ASCII"),
    );
    let body = if encoding == Encoding::Gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        stream(GzipEncoder::new(BufReader::with_capacity(READ_BYTES, file)))
    } else if is_unsized(&file, &found) {
        stream(file)
    } else {
        sized(file, found.len(), request, &mut response).await?
    };
    if request.method() != Method::HEAD {
        *response.body_mut() = body;
    }
    Ok(response)
}

/// The whole file or the range that is asked for.
async fn sized(
    mut file: File,
    size: u64,
    request: &Request<Incoming>,
    response: &mut Response<Body>,
) -> Result<Body, HttpError> {
    let wanted = request
        .headers()
        .get(header::RANGE)
        .and_then(|value| value.to_str().ok());
    let range = wanted.map_or(Ok(None), |text| parse_range(text, size));
    let headers = response.headers_mut();
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let Ok(range) = range else {
        let text = format!("range not satisfiable: the file has {size} bytes");
        return Err(HttpError::new(StatusCode::RANGE_NOT_SATISFIABLE, text));
    };
    let (first, length) = range.unwrap_or((0, size));
    headers.insert(header::CONTENT_LENGTH, length.into());
    if range.is_some() {
        let last = first + length - 1;
        let text = format!("bytes {first}-{last}/{size}");
        headers.insert(
            header::CONTENT_RANGE,
            text.parse().expect("digits and ASCII marks"),
        );
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let sought = file.seek(SeekFrom::Start(first)).await;
        sought.map_err(|error| unreadable(&format!("error reading file: {error}")))?;
    }
    Ok(stream(file.take(length)))
}

fn stream(reader: impl AsyncRead + Send + 'static) -> Body {
    Body::from_stream(ReaderStream::with_capacity(reader, READ_BYTES))
}

async fn open(path: &str) -> Result<(File, Metadata), HttpError> {
    // Not to hang on a FIFO without a writer.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("a flag below the sign bit");
    let opened = tokio::fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .await;
    let file = opened.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => HttpError::new(
            StatusCode::NOT_FOUND,
            format!("path '{path}' does not exist"),
        ),
        _ => unreadable(&format!("error opening file '{path}': {error}")),
    })?;
    let found = file.metadata().await;
    let found =
        found.map_err(|error| unreadable(&format!("error getting file info '{path}': {error}")))?;
    if found.is_dir() {
        let text = format!("path '{path}' is a directory");
        return Err(HttpError::new(StatusCode::BAD_REQUEST, text));
    }
    if !found.is_file() {
        let text = format!("path '{path}' is not a regular file");
        return Err(HttpError::new(StatusCode::BAD_REQUEST, text));
    }
    Ok((file, found))
}

fn unreadable(text: &str) -> HttpError {
    HttpError::new(StatusCode::INTERNAL_SERVER_ERROR, text)
}

fn is_unsized(file: &File, found: &Metadata) -> bool {
    let kind = rustix::fs::fstatfs(file).map(|stat| stat.f_type);
    found.len() == 0
        || kind
            .is_ok_and(|kind| u64::try_from(kind).is_ok_and(|k| UNSIZED_FILESYSTEMS.contains(&k)))
}

fn quoted(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// First byte and length of a single range; `None`: not a form that is understood, send the whole.
fn parse_range(text: &str, size: u64) -> Result<Option<(u64, u64)>, ()> {
    let Some((first, last)) = text
        .strip_prefix("bytes=")
        .and_then(|range| range.split_once('-'))
    else {
        return Ok(None);
    };
    let (first, last) = (first.trim(), last.trim());
    let (first, end) = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => (first, last.saturating_add(1).min(size)),
        (Ok(first), _) if last.is_empty() => (first, size),
        (_, Ok(count)) if first.is_empty() => (size.saturating_sub(count), size),
        _ => return Ok(None),
    };
    if first < end {
        Ok(Some((first, end - first)))
    } else {
        Err(())
    }
}

/// How the bytes travel. Plain whenever the client takes it: the node is near, time matters more than size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Plain,
    Gzip,
}

impl Encoding {
    fn choose(headers: &http::HeaderMap) -> Result<Self, HttpError> {
        let Some(accepted) = headers.get(header::ACCEPT_ENCODING) else {
            return Ok(Self::Plain);
        };
        let accepted = accepted.to_str().unwrap_or_default();
        let quality = |name: &str| {
            accepted.split(',').find_map(|item| {
                let (coding, parameters) = item.split_once(';').unwrap_or((item, ""));
                let quality = parameters
                    .trim()
                    .strip_prefix("q=")
                    .and_then(|q| q.trim().parse().ok());
                (coding.trim() == name).then_some(quality.unwrap_or(1.0))
            })
        };
        let any: Option<f32> = quality("*");
        if quality("identity").or(any).unwrap_or(1.0) > 0.0 {
            return Ok(Self::Plain);
        }
        if quality("gzip").or(any).unwrap_or(0.0) > 0.0 {
            return Ok(Self::Gzip);
        }
        let text = "no acceptable encoding: identity and gzip are offered";
        Err(HttpError::new(StatusCode::NOT_ACCEPTABLE, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_standard_says() {
        assert_eq!(parse_range("bytes=0-9", 100), Ok(Some((0, 10))));
        assert_eq!(parse_range("bytes=90-200", 100), Ok(Some((90, 10))));
        assert_eq!(parse_range("bytes=90-", 100), Ok(Some((90, 10))));
        assert_eq!(parse_range("bytes=-5", 100), Ok(Some((95, 5))));
        assert_eq!(parse_range("bytes=-500", 100), Ok(Some((0, 100))));
        assert_eq!(parse_range("bytes=100-", 100), Err(()));
        assert_eq!(parse_range("bytes=-0", 100), Err(()));
        assert_eq!(parse_range("bytes=9-1", 100), Ok(None));
        assert_eq!(parse_range("lines=1-2", 100), Ok(None));
    }

    #[test]
    fn plain_bytes_are_sent_unless_refused() {
        let choose = |text: &str| {
            let mut headers = http::HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, text.parse().unwrap());
            Encoding::choose(&headers).ok()
        };
        assert_eq!(choose("gzip, deflate"), Some(Encoding::Plain));
        assert_eq!(choose("gzip, identity;q=0"), Some(Encoding::Gzip));
        assert_eq!(choose("*;q=0, gzip"), Some(Encoding::Gzip));
        assert_eq!(choose("br, identity;q=0"), None);
    }
}
