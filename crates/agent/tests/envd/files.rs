//! Up- and downloads.

use crate::client::{Body, Server, own_user, request};
use async_compression::tokio::bufread::GzipEncoder;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request};
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use tokio::io::AsyncReadExt;

fn upload(path: &str, content_type: &str, body: impl Into<Bytes>) -> Request<Body> {
    let mut upload = request(Method::POST, &format!("/files{path}"), body);
    upload
        .headers_mut()
        .insert("content-type", content_type.parse().unwrap());
    upload
}

fn octets(path: &str, body: impl Into<Bytes>) -> Request<Body> {
    upload(&format!("?path={path}"), "application/octet-stream", body)
}

fn pattern(size: usize) -> Vec<u8> {
    (0..size)
        .map(|at| u8::try_from((at * 31 + at / 251) % 256).unwrap())
        .collect()
}

#[tokio::test]
async fn uploads_of_every_size_arrive_whole_however_they_are_sent() {
    // P38
    let server = Server::start().await;
    let sizes = [
        0,
        1,
        18_431,
        18_433,
        65_535,
        65_536,
        65_537,
        1 << 20,
        20 << 20,
    ];
    for size in sizes {
        let bytes = pattern(size);
        let path = server.path(&format!("new/dir/{size}"));
        let (status, reply) = server.plain(octets(&path, bytes.clone())).await;
        assert_eq!(status, 200, "{reply:?}");
        let reply: Value = serde_json::from_slice(&reply).unwrap();
        assert_eq!(
            reply,
            json!([{"path": path, "name": size.to_string(), "type": "file"}])
        );
        assert!(std::fs::read(&path).unwrap() == bytes, "{size} bytes");
        let (status, back) = server.get(&format!("/files?path={path}")).await;
        assert!(status == 200 && back == bytes, "{size} bytes back");
        let chunks: Vec<Bytes> = bytes.chunks(10_007).map(Bytes::copy_from_slice).collect();
        let frames = futures::stream::iter(chunks)
            .map(|chunk| Ok::<_, Infallible>(http_body::Frame::data(chunk)));
        let chunked = octets(&path, "").map(|_| BodyExt::boxed(StreamBody::new(frames)));
        assert_eq!(server.plain(chunked).await.0, 200);
        assert!(
            std::fs::read(&path).unwrap() == bytes,
            "{size} bytes of no announced length"
        );
    }
}

#[tokio::test]
async fn a_form_writes_every_part_under_its_name() {
    let server = Server::start().await;
    let (first, second) = (server.path("x/first é"), server.path("second"));
    let big = "m".repeat(3 << 20);
    let form = format!(
        "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{first}\"\r\n\r\none\r\n\
         --B\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\nignored\r\n\
         --B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{second}\"\r\n\r\n{big}\r\n\
         --B--\r\n"
    );
    let kind = "multipart/form-data; boundary=B";
    let (status, reply) = server.plain(upload("", kind, form.clone())).await;
    assert_eq!(status, 200, "{reply:?}");
    assert_eq!(std::fs::read(&first).unwrap(), b"one");
    assert_eq!(std::fs::read_to_string(&second).unwrap(), big);
    let named = server.path("named");
    let (status, reply) = server
        .plain(upload(&format!("?path={named}"), kind, form))
        .await;
    assert_eq!(status, 400, "two parts for one path");
    assert!(String::from_utf8_lossy(&reply).contains(&named));
    assert_eq!(
        std::fs::read(&named).unwrap(),
        b"one",
        "the first is written"
    );
}

#[tokio::test]
async fn a_compressed_upload_is_unpacked() {
    let server = Server::start().await;
    let bytes = pattern(1 << 20);
    let mut packed = Vec::new();
    GzipEncoder::new(&bytes[..])
        .read_to_end(&mut packed)
        .await
        .unwrap();
    let path = server.path("unpacked");
    let mut upload = octets(&path, packed);
    upload
        .headers_mut()
        .insert("content-encoding", "gzip".parse().unwrap());
    assert_eq!(server.plain(upload).await.0, 200);
    assert!(std::fs::read(&path).unwrap() == bytes);
    let mut broken = octets(&path, "not gzip");
    broken
        .headers_mut()
        .insert("content-encoding", "gzip".parse().unwrap());
    assert_eq!(server.plain(broken).await.0, 400);
}

#[tokio::test]
async fn wrong_paths_are_the_callers_fault() {
    // P41
    let server = Server::start().await;
    let (status, body) = server.get("/files?path=/nope").await;
    assert_eq!(status, 404);
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        body,
        json!({"code": 404, "message": "path '/nope' does not exist"})
    );
    assert_eq!(server.get("/files?path=/etc").await.0, 400);
    assert_eq!(server.get("/files?path=/dev/null").await.0, 400);
    assert_eq!(
        server
            .get("/files?path=/etc/passwd&username=nobody-here")
            .await
            .0,
        401
    );
    let directory = server.path("");
    assert_eq!(server.plain(octets(&directory, "x")).await.0, 400);
    assert_eq!(server.plain(octets("/etc/passwd/below", "x")).await.0, 400);
    assert_eq!(
        server
            .plain(upload("", "application/octet-stream", "x"))
            .await
            .0,
        400
    );
    assert_eq!(
        server
            .plain(upload("?path=/tmp/x", "text/plain", "x"))
            .await
            .0,
        400
    );
}

#[tokio::test]
async fn a_full_disk_is_told() {
    let server = Server::start().await;
    // /dev/full would be refused as no regular file, as anything but a file is.
    assert_eq!(server.plain(octets("/dev/full", "x")).await.0, 400);
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can mount a small filesystem");
        return;
    }
    let small = server.path("small");
    std::fs::create_dir(&small).unwrap();
    let mount = server
        .run(&format!("mount -t tmpfs -o size=64k none {small}"))
        .await;
    if mount.exit_code() != 0 {
        eprintln!("SKIPPED: mounting is not allowed here");
        return;
    }
    let (status, body) = server
        .plain(octets(&format!("{small}/file"), pattern(1 << 20)))
        .await;
    assert_eq!(server.run(&format!("umount {small}")).await.exit_code(), 0);
    assert_eq!(status, 507, "{body:?}");
}

#[tokio::test]
async fn ranges_and_special_files_are_served() {
    let server = Server::start().await;
    let path = server.path("file");
    server.plain(octets(&path, pattern(1000))).await;
    let ranged = |range: &str| {
        let mut get = request(Method::GET, &format!("/files?path={path}"), "");
        get.headers_mut().insert("range", range.parse().unwrap());
        get
    };
    let response = server.send(ranged("bytes=10-19")).await;
    assert_eq!(response.status(), 206);
    assert_eq!(response.headers()["content-range"], "bytes 10-19/1000");
    assert_eq!(
        response.into_body().collect().await.unwrap().to_bytes(),
        pattern(1000)[10..20]
    );
    assert_eq!(server.plain(ranged("bytes=1000-")).await.0, 416);
    let (status, body) = server.get("/files?path=/proc/self/status").await;
    assert!(
        status == 200 && body.starts_with(b"Name:"),
        "a file that claims to be empty"
    );
    let (status, _) = server
        .get("/files?path=/sys/kernel/mm/transparent_hugepage/enabled")
        .await;
    assert!(
        status == 200 || status == 404,
        "a file that claims to be a page long"
    );
}

#[tokio::test]
async fn metadata_of_an_upload_is_kept_with_the_file() {
    let server = Server::start().await;
    let path = server.path("file");
    let mut upload = octets(&path, "x");
    upload
        .headers_mut()
        .insert("x-metadata-origin", "a test".parse().unwrap());
    let (status, reply) = server.plain(upload).await;
    if status != 200 {
        eprintln!("SKIPPED: no extended attributes here: {reply:?}");
        return;
    }
    let reply: Value = serde_json::from_slice(&reply).unwrap();
    assert_eq!(reply[0]["metadata"], json!({"origin": "a test"}));
    let stat = async || {
        server
            .call("filesystem.Filesystem/Stat", json!({"path": path}))
            .await
            .unwrap()
    };
    assert_eq!(
        stat().await["entry"]["metadata"],
        json!({"origin": "a test"})
    );
    server.plain(octets(&path, "y")).await;
    assert!(
        stat().await["entry"].get("metadata").is_none(),
        "an upload replaces the whole set"
    );
}

#[tokio::test]
async fn files_belong_to_the_user_who_uploads_them() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can give files away");
        return;
    }
    let server = Server::start().await;
    let path = server.path("parents/file");
    assert_eq!(
        server
            .plain(octets(&format!("{path}&username=70001:70002"), "x"))
            .await
            .0,
        200
    );
    let owners = server
        .run(&format!(
            "stat -c '%u %g %a' {path} {}",
            server.path("parents")
        ))
        .await;
    assert_eq!(owners.text(), "70001 70002 644\n70001 70002 755\n");
}

#[tokio::test]
async fn a_signed_address_opens_one_file_without_the_token() {
    let mut init = own_user();
    init.access_token = Some("tok".into());
    let server = Server::with(init).await;
    let sign = |text: String| format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(text)));
    let encode = |text: &str| text.replace('+', "%2B").replace('/', "%2F");
    let path = "/etc/passwd";
    let signature = encode(&sign(format!("{path}:read::tok")));
    let get = async |query: String| server.get(&format!("/files?path={query}")).await.0;
    assert_eq!(get(path.to_owned()).await, 401);
    assert_eq!(get(format!("{path}&signature={signature}")).await, 200);
    assert_eq!(get(format!("/etc/group&signature={signature}")).await, 401);
    let past = encode(&sign(format!("{path}:read::tok:100")));
    let url = format!("/files?path={path}&signature={past}&signature_expiration=100");
    let (status, body) = server.get(&url).await;
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(status, 401);
    assert_eq!(
        body,
        json!({"code": 401, "message": "signature is already expired"})
    );
    let mut get = request(
        Method::GET,
        &format!("/files?path={path}&signature={signature}"),
        "",
    );
    get.headers_mut()
        .insert("x-access-token", "wrong".parse().unwrap());
    assert_eq!(
        server.plain(get).await.0,
        401,
        "a wrong token is not made good by a signature"
    );
}
