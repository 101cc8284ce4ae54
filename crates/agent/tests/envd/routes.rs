//! Plain routes, access, tunnels.

use crate::client::{Server, own_user, request};
use http::Method;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

#[tokio::test]
async fn health_is_open_and_all_else_needs_the_token() {
    let mut init = own_user();
    init.access_token = Some("secret".into());
    init.env.insert("A".into(), "1".into());
    let server = Server::with(init).await;
    assert_eq!(server.get("/health").await, (204, "".into()));
    for path in [
        "/envs",
        "/metrics",
        "/files?path=/etc/passwd",
        "/process.Process/List",
    ] {
        let (status, body) = server.get(path).await;
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((status, &body["code"]), (401, &json!(401)), "{path}");
    }
    let with_token = |token: &str| {
        let mut envs = request(Method::GET, "/envs", "");
        envs.headers_mut()
            .insert("x-access-token", token.parse().unwrap());
        envs
    };
    assert_eq!(server.plain(with_token("secreT")).await.0, 401);
    let (status, body) = server.plain(with_token("secret")).await;
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, &body["A"]), (200, &json!("1")));
    assert_eq!(body["E2B_TEMPLATE_ID"], "template");
}

#[tokio::test]
async fn init_replaces_the_environment_and_the_token() {
    let server = Server::start().await;
    let body = json!({"envVars": {"NEW": "1"}, "accessToken": "t", "timestamp": "ignored"});
    let response = server
        .send(request(Method::POST, "/init", body.to_string()))
        .await;
    assert_eq!(response.status(), 204);
    assert_eq!(response.headers()["x-envd-version"], api::envd::VERSION);
    assert_eq!(server.get("/envs").await.0, 401);
    let unauthorized = server.plain(request(Method::POST, "/init", "{}")).await;
    assert_eq!(
        unauthorized.0, 401,
        "a token once set is needed to change it"
    );
}

#[tokio::test]
async fn unknown_routes_and_wrong_methods_answer_in_json() {
    let server = Server::start().await;
    for (method, path, expected) in [
        (Method::GET, "/nope", 404),
        (Method::POST, "/health", 405),
        (Method::DELETE, "/files", 405),
        (Method::GET, "/process.Process/List", 405),
        (Method::GET, "/metrics", 501),
    ] {
        let (status, body) = server.plain(request(method, path, "")).await;
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (status, &body["code"]),
            (expected, &json!(expected)),
            "{path}"
        );
        assert!(body["message"].is_string());
    }
    for method in ["Nope", "List"] {
        let mut call = request(Method::POST, &format!("/process.Process/{method}"), "{");
        call.headers_mut()
            .insert("content-type", "application/json".parse().unwrap());
        let expected = if method == "Nope" { 404 } else { 400 };
        assert_eq!(server.plain(call).await.0, expected);
    }
    let mut proto = request(Method::POST, "/process.Process/List", "");
    proto
        .headers_mut()
        .insert("content-type", "application/proto".parse().unwrap());
    assert_eq!(server.plain(proto).await.0, 415);
}

#[tokio::test]
async fn a_port_on_loopback_is_reached_and_half_closed() {
    let server = Server::start().await;
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = TcpListener::bind(address).await else {
            eprintln!("SKIPPED: {address} is not there");
            continue;
        };
        let port = listener.local_addr().unwrap().port();
        let echo = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).await.unwrap();
            stream.write_all(&heard).await.unwrap();
        });
        let response = server.send(connect(port)).await;
        assert_eq!(response.status(), 200);
        let mut tunnel = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
        let sent = vec![7u8; 3 << 20];
        tunnel.write_all(&sent).await.unwrap();
        tunnel.shutdown().await.unwrap();
        let mut heard = Vec::new();
        tunnel.read_to_end(&mut heard).await.unwrap();
        assert!(heard == sent, "answered after our end was closed");
        echo.await.unwrap();
    }
}

#[tokio::test]
async fn a_closed_port_is_named_in_the_words_clients_look_for() {
    let server = Server::start().await;
    let free = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let (status, body) = server.plain(connect(free)).await;
    let body: Value = serde_json::from_slice(&body).unwrap();
    let text = "The sandbox is running but port is not open";
    assert_eq!((status, body), (502, json!({"code": 502, "message": text})));
}

fn connect(port: u16) -> http::Request<crate::client::Body> {
    let mut connect = request(Method::CONNECT, "", "");
    *connect.uri_mut() = format!("127.0.0.1:{port}").parse().unwrap();
    connect
}
