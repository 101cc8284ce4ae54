//! The data plane: the agent's interface and ports inside, by headers, host names and signed URLs.

use crate::agent::CHUNK;
use crate::fixture::{Rig, id};
use axum::body::Body;
use base64::Engine;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const BIG: u64 = 200 << 20;
/// What sockets and windows may hold; far below [`BIG`].
const IN_FLIGHT_MAX: u64 = 32 << 20;

#[tokio::test]
async fn requests_reach_the_agent_with_their_headers_and_query() {
    let rig = Rig::start().await;
    let sandbox = rig.create(json!({})).await;
    let request = rig
        .data(Method::POST, &sandbox, 49983, "/headers?a=b%20c")
        .header("authorization", "Basic dXNlcjo=")
        .header("connection", "x-hop")
        .header("x-hop", "1");
    let seen = rig
        .read(request.body(Body::empty()).expect("request"))
        .await
        .text;
    assert!(
        seen.contains("Basic dXNlcjo=") && seen.contains("/headers?a=b%20c"),
        "{seen}"
    );
    assert!(!seen.contains("x-hop"), "{seen}");
    let health = Request::get(format!("http://{}/health", rig.address))
        .header("E2b-Sandbox-Id", id(&sandbox))
        .header("E2b-Sandbox-Port", "49983");
    let health = rig.read(health.body(Body::empty()).expect("request")).await;
    assert_eq!(health.status, 204, "health needs no token");
    rig.stop().await;
}

#[tokio::test]
async fn the_agent_checks_the_token() {
    let rig = Rig::start().await;
    let mut sandbox = rig.create(json!({})).await;
    sandbox["envdAccessToken"] = "wrong".into();
    rig.data_get(&sandbox, 49983, "/headers")
        .await
        .refused(401, &["token"]);
    rig.stop().await;
}

#[tokio::test]
async fn internal_routes_of_the_agent_are_not_reachable() {
    let rig = Rig::start().await;
    let sandbox = rig.create(json!({})).await;
    for path in [
        "/init",
        "/init/",
        "/freeze",
        "/unfreeze",
        "/collapse",
        "/fsfreeze",
        "/upgrade",
    ] {
        rig.data_get(&sandbox, 49983, path)
            .await
            .refused(404, &[path]);
    }
    rig.stop().await;
}

#[tokio::test]
async fn half_or_wrong_routing_headers_are_refused() {
    let rig = Rig::start().await;
    let sandbox = rig.create_id().await;
    let send = async |headers: &[(&str, &str)]| {
        let mut request = Request::get(format!("http://{}/health", rig.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        rig.read(request.body(Body::empty()).expect("request"))
            .await
    };
    send(&[("e2b-sandbox-id", &sandbox)])
        .await
        .refused(400, &["E2b-Sandbox-Port"]);
    send(&[("e2b-sandbox-port", "49983")])
        .await
        .refused(400, &["E2b-Sandbox-Id"]);
    for port in ["0", "65536", "http", "-1"] {
        let headers = [
            ("e2b-sandbox-id", sandbox.as_str()),
            ("e2b-sandbox-port", port),
        ];
        send(&headers).await.refused(400, &[port]);
    }
    rig.stop().await;
}

#[tokio::test]
async fn unknown_sandboxes_and_closed_ports_have_the_texts_sdks_match() {
    let rig = Rig::start().await;
    let mut sandbox = rig.create(json!({})).await;
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        listener.local_addr().expect("bound").port()
    };
    let reply = rig.data_get(&sandbox, closed, "/").await;
    reply.refused(502, &["The sandbox is running but port is not open"]);
    let body = reply.json();
    assert_eq!(
        (&body["sandboxId"], &body["port"]),
        (&sandbox["sandboxID"], &json!(closed))
    );
    for unknown in [format!("i{}", "a".repeat(20)), "nonsense".to_owned()] {
        sandbox["sandboxID"] = unknown.clone().into();
        let reply = rig.data_get(&sandbox, 49983, "/health").await;
        reply.refused(502, &["The sandbox was not found"]);
        assert_eq!(reply.json()["sandboxId"], unknown);
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_200_mib_download_is_not_buffered() {
    let rig = Rig::start().await;
    let sandbox = rig.create(json!({})).await;
    let request = rig.data(Method::GET, &sandbox, 49983, &format!("/made?{BIG}"));
    let mut body = rig
        .send(request.body(Body::empty()).expect("request"))
        .await
        .into_body();
    let mut read = 0;
    while let Some(frame) = body.frame().await {
        let before = read;
        read += frame.expect("whole").data_ref().map_or(0, Bytes::len) as u64;
        if before == 0 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let made = rig.machine.counts.bytes_made.load(Ordering::Relaxed);
            assert!(
                made < IN_FLIGHT_MAX,
                "{made} bytes were made for a reader that waits"
            );
        }
    }
    assert_eq!(read, BIG);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_200_mib_upload_is_not_buffered() {
    let rig = Rig::start().await;
    let sandbox = rig.create(json!({})).await;
    let (sent, chunk) = (Arc::new(AtomicU64::new(0)), Bytes::from(vec![b'x'; CHUNK]));
    let counter = Arc::clone(&sent);
    let chunks = (0..BIG / CHUNK as u64).map(move |_| {
        counter.fetch_add(CHUNK as u64, Ordering::Relaxed);
        Ok::<_, Infallible>(chunk.clone())
    });
    let body = Body::from_stream(futures::stream::iter(chunks));
    let request = rig
        .data(Method::POST, &sandbox, 49983, "/sink")
        .body(body)
        .expect("request");
    let (reply, ()) = tokio::join!(rig.read(request), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let sent = sent.load(Ordering::Relaxed);
        assert!(
            sent < IN_FLIGHT_MAX,
            "{sent} bytes were taken for a reader that waits"
        );
    });
    assert_eq!((reply.status, reply.text), (200, BIG.to_string()));
    rig.stop().await;
}

/// A server inside the sandbox: echoes the request head, or switches protocols and echoes bytes.
async fn user_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move { user_connection(&mut stream).await });
        }
    });
    address
}

async fn user_connection(stream: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a request head"));
    }
    let head = String::from_utf8(head).expect("text");
    if head.to_lowercase().contains("upgrade: websocket") {
        let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                      Upgrade: websocket\r\n\r\n";
        stream.write_all(switch.as_bytes()).await.expect("written");
        let (mut read, mut write) = stream.split();
        let _ended = tokio::io::copy(&mut read, &mut write).await;
        return;
    }
    let reply = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{head}",
        head.len()
    );
    stream.write_all(reply.as_bytes()).await.expect("written");
}

#[tokio::test]
async fn any_port_inside_is_reached_with_path_and_host() {
    let rig = Rig::start().await;
    let sandbox = rig.create(json!({})).await;
    let port = user_server().await.port();
    let reply = rig.data_get(&sandbox, port, "/a/b?c=d").await;
    assert_eq!(reply.status, 200);
    assert!(
        reply.text.starts_with("GET /a/b?c=d HTTP/1.1\r\n"),
        "{}",
        reply.text
    );
    assert!(
        reply.text.contains(&format!("host: {}", rig.address)),
        "{}",
        reply.text
    );
    rig.stop().await;
}

async fn websocket(rig: &Rig, sandbox: &Value, port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(rig.address).await.expect("connected");
    let head = format!(
        "GET /ws HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: {}\r\nE2b-Sandbox-Port: {port}\r\n\
         Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        id(sandbox)
    );
    stream.write_all(head.as_bytes()).await.expect("written");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.expect("an answer"));
    }
    let answer = String::from_utf8(answer).expect("text").to_lowercase();
    assert!(answer.starts_with("http/1.1 101"), "{answer}");
    assert!(answer.contains("upgrade: websocket"), "{answer}");
    stream
}

#[tokio::test]
async fn websockets_pass_and_end_with_the_sandbox() {
    let rig = Rig::start().await;
    let sandbox = rig.create(json!({})).await;
    let port = user_server().await.port();
    let mut stream = websocket(&rig, &sandbox, port).await;
    stream.write_all(b"ping").await.expect("written");
    let mut echo = [0; 4];
    stream.read_exact(&mut echo).await.expect("read");
    assert_eq!(&echo, b"ping");
    assert_eq!(
        rig.delete(&format!("/sandboxes/{}", id(&sandbox)))
            .await
            .status,
        204
    );
    let rest = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut echo)).await;
    assert!(matches!(rest.expect("in time"), Ok(0) | Err(_)));
    rig.stop().await;
}

#[tokio::test]
async fn host_names_route_where_a_domain_is_configured() {
    let rig = Rig::start_with(|c| c.domain = Some("sbx.test:8443".into())).await;
    let sandbox = rig.create(json!({})).await;
    assert_eq!(sandbox["domain"], "sbx.test:8443");
    let port = user_server().await.port();
    let send = async |host: String| {
        let request = Request::get(format!("http://{}/x", rig.address)).header("host", host);
        rig.read(request.body(Body::empty()).expect("request"))
            .await
    };
    let reply = send(format!("{port}-{}.sbx.test:8443", id(&sandbox))).await;
    assert_eq!(reply.status, 200);
    send("1-inobody.sbx.test".into())
        .await
        .refused(502, &["was not found"]);
    send("api.sbx.test".into())
        .await
        .refused(404, &["no route"]);
    rig.stop().await;
}

fn signature(path: &str, operation: &str, token: &Value) -> String {
    let raw = format!(
        "{path}:{operation}:user:{}",
        token.as_str().expect("a token")
    );
    let hash = base64::engine::general_purpose::STANDARD_NO_PAD.encode(Sha256::digest(raw));
    format!("v1_{hash}").replace('+', "%2B").replace('/', "%2F")
}

#[tokio::test]
async fn a_signed_url_finds_its_sandbox() {
    let rig = Rig::start().await;
    rig.create(json!({})).await;
    let sandbox = rig.create(json!({})).await;
    let token = &sandbox["envdAccessToken"];
    let send = async |signature: String| {
        let query = format!("path=%2Fa&username=user&signature={signature}");
        let request = Request::get(format!("http://{}/files?{query}", rig.address));
        rig.read(request.body(Body::empty()).expect("request"))
            .await
    };
    let reply = send(signature("/a", "read", token)).await;
    assert_eq!(
        (reply.status, reply.text.as_str()),
        (404, "agent has no /files")
    );
    send(signature("/b", "read", token))
        .await
        .refused(401, &["signature"]);
    send(signature("/a", "write", token))
        .await
        .refused(401, &["signature"]);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_requests_share_the_connection_to_an_agent() {
    let rig = Rig::start().await;
    let sandbox = rig.create(json!({})).await;
    let echo = async |n: usize| {
        let text = n.to_string().repeat(1000);
        let request = rig.data(Method::POST, &sandbox, 49983, "/echo");
        let reply = rig
            .read(request.body(Body::from(text.clone())).expect("request"))
            .await;
        assert_eq!((reply.status, reply.text), (StatusCode::OK.as_u16(), text));
    };
    futures::future::join_all((0..150).map(echo)).await;
    rig.stop().await;
}
