//! Output and input over time: late readers, gone readers, slow readers, writers.

use crate::client::{Body, Server, request};
use api::envd::connect::encode_message;
use api::envd::{Code, Frame, ProtoBytes};
use bytes::Bytes;
use futures::StreamExt;
use http::Method;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::time::Duration;

const CONNECT: &str = "process.Process/Connect";

async fn started(server: &Server, script: &str) -> (u32, crate::client::Events) {
    let process = json!({"cmd": "/bin/bash", "args": ["-c", script]});
    let message = json!({"process": process, "tag": "tagged"});
    let mut events = server.stream("process.Process/Start", &[], message).await;
    (events.pid().await, events)
}

fn input(pid: u32, bytes: &[u8]) -> Value {
    json!({"process": {"pid": pid}, "input": {"stdin": ProtoBytes(bytes.to_vec())}})
}

#[tokio::test]
async fn a_dropped_stream_kills_nothing_and_a_late_reader_gets_all() {
    // P8
    let server = Server::start().await;
    let script = "for i in 1 2 3 4 5 6; do echo $i; sleep 0.1; done; exit 7";
    let (pid, events) = started(&server, script).await;
    drop(events);
    tokio::time::sleep(Duration::from_millis(250)).await;
    let running = server
        .stream(CONNECT, &[], json!({"process": {"pid": pid}}))
        .await;
    let outcome = running.outcome().await;
    assert_eq!(
        (outcome.pid, outcome.text().as_str()),
        (pid, "1\n2\n3\n4\n5\n6\n")
    );
    assert_eq!(outcome.exit_code(), 7);
    for selector in [json!({"pid": pid}), json!({"tag": "tagged"})] {
        let ended = server
            .stream(CONNECT, &[], json!({"process": selector}))
            .await;
        let outcome = ended.outcome().await;
        assert_eq!(outcome.text(), "1\n2\n3\n4\n5\n6\n", "kept after the end");
        assert_eq!(outcome.exit_code(), 7);
    }
}

#[tokio::test]
async fn a_readers_deadline_ends_its_stream_and_not_the_process() {
    // P8
    let server = Server::start().await;
    let (pid, _events) = started(&server, "sleep 985").await;
    let selector = json!({"process": {"pid": pid}});
    let headers = [("connect-timeout-ms", "200")];
    let reader = server.stream(CONNECT, &headers, selector.clone()).await;
    assert_eq!(
        reader.outcome().await.error.unwrap().code,
        Code::DeadlineExceeded
    );
    let list = server
        .call("process.Process/List", json!({}))
        .await
        .unwrap();
    assert_eq!(list["processes"][0]["pid"], pid);
    assert_eq!(list["processes"][0]["tag"], "tagged");
    assert_eq!(list["processes"][0]["config"]["cmd"], "/bin/bash");
    let kill = json!({"process": {"pid": pid}, "signal": 9});
    server
        .call("process.Process/SendSignal", kill)
        .await
        .unwrap();
}

#[tokio::test]
async fn success_is_never_reported_without_an_end() {
    // P11
    let server = Server::start().await;
    let mut unknown = server
        .stream(CONNECT, &[], json!({"process": {"pid": 999_999}}))
        .await;
    let Some(Frame::End(end)) = unknown.frame().await else {
        panic!("a stream without a process")
    };
    let error = end.error.unwrap();
    assert_eq!(error.code, Code::NotFound);
    assert_eq!(error.message, "process with pid 999999 not found");
}

#[tokio::test]
async fn silence_is_filled_with_keepalives() {
    let server = Server::start().await;
    let outcome = server
        .run_with(&[("keepalive-ping-interval", "1")], "sleep 1.5")
        .await;
    assert_eq!(outcome.keepalives, 1);
    assert_eq!(outcome.exit_code(), 0);
}

#[tokio::test]
async fn a_malformed_deadline_is_refused() {
    let server = Server::start().await;
    let mut events = server
        .begin(&[("connect-timeout-ms", "soon")], "true")
        .await;
    let Some(Frame::End(end)) = events.frame().await else {
        panic!("it started")
    };
    assert_eq!(end.error.unwrap().code, Code::InvalidArgument);
}

#[tokio::test]
async fn a_slow_reader_holds_the_program_back_and_loses_nothing() {
    let server = Server::start().await;
    let size = 12_000_000;
    let events = server
        .begin(&[], &format!("head -c {size} /dev/zero; echo end >&2"))
        .await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let outcome = events.outcome().await;
    assert_eq!(outcome.stdout.len(), size);
    assert_eq!(outcome.stderr, b"end\n");
}

#[tokio::test]
async fn without_a_reader_a_program_is_not_held_back() {
    // P4
    let server = Server::start().await;
    let (pid, events) = started(&server, "head -c 20000000 /dev/zero; echo last").await;
    drop(events);
    let late = server
        .stream(CONNECT, &[], json!({"process": {"pid": pid}}))
        .await;
    let outcome = late.outcome().await;
    assert_eq!(outcome.exit_code(), 0);
    assert!(outcome.stdout.ends_with(b"last\n"));
}

#[tokio::test]
async fn input_is_written_in_order_and_its_end_is_seen() {
    let server = Server::start().await;
    let (pid, events) = started(&server, "cat; echo over").await;
    server
        .call("process.Process/SendInput", input(pid, b"one\n"))
        .await
        .unwrap();
    server
        .call("process.Process/SendInput", input(pid, b"two\xff\n"))
        .await
        .unwrap();
    let close = json!({"process": {"pid": pid}});
    server
        .call("process.Process/CloseStdin", close.clone())
        .await
        .unwrap();
    let late = server
        .call("process.Process/SendInput", input(pid, b"x"))
        .await
        .unwrap_err();
    assert!(matches!(late.code, Code::Internal | Code::NotFound));
    assert_eq!(events.outcome().await.stdout, b"one\ntwo\xff\nover\n");
}

#[tokio::test]
async fn closing_the_input_twice_is_fine_and_a_program_without_one_refuses_it() {
    let server = Server::start().await;
    let (pid, _events) = started(&server, "sleep 984").await;
    let close = json!({"process": {"pid": pid}});
    for _ in 0..2 {
        server
            .call("process.Process/CloseStdin", close.clone())
            .await
            .unwrap();
    }
    let refused = server
        .call("process.Process/SendInput", input(pid, b"x"))
        .await
        .unwrap_err();
    assert_eq!(refused.code, Code::Internal);
    let kill = json!({"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"});
    server
        .call("process.Process/SendSignal", kill)
        .await
        .unwrap();
}

#[tokio::test]
async fn streamed_input_of_any_size_arrives_whole() {
    let server = Server::start().await;
    let (pid, events) = started(&server, "sha256sum").await;
    let piece = vec![b'z'; 100_000];
    let mut messages = vec![
        json!({"start": {"process": {"pid": pid}}}),
        json!({"keepalive": {}}),
    ];
    messages
        .extend((0..20).map(|_| json!({"data": {"input": {"stdin": ProtoBytes(piece.clone())}}})));
    let bytes: Vec<u8> = messages
        .iter()
        .flat_map(|message| encode_message(message.to_string().as_bytes()))
        .collect();
    let chunks: Vec<Bytes> = bytes.chunks(7777).map(Bytes::copy_from_slice).collect();
    let frames = futures::stream::iter(chunks)
        .map(|chunk| Ok::<_, Infallible>(http_body::Frame::data(chunk)));
    let body: Body = BodyExt::boxed(StreamBody::new(frames));
    let mut streamed = request(Method::POST, "/process.Process/StreamInput", "").map(|_| body);
    let kind = "application/connect+json".parse().unwrap();
    streamed.headers_mut().insert("content-type", kind);
    let (status, reply) = server.plain(streamed).await;
    assert_eq!(status, 200);
    assert_eq!(&reply[..], b"\0\0\0\0\x02{}\x02\0\0\0\x02{}");
    let close = json!({"process": {"pid": pid}});
    server
        .call("process.Process/CloseStdin", close)
        .await
        .unwrap();
    let file = server.path("same");
    std::io::copy(
        &mut &piece.repeat(20)[..],
        &mut std::fs::File::create(&file).unwrap(),
    )
    .unwrap();
    let expected = server.run(&format!("sha256sum < {file}")).await;
    assert_eq!(events.outcome().await.text(), expected.text());
}

#[tokio::test]
async fn what_comes_later_says_so() {
    let server = Server::start().await;
    let message = json!({"process": {"cmd": "bash"}, "pty": {"size": {"cols": 80, "rows": 24}}});
    let mut events = server.stream("process.Process/Start", &[], message).await;
    let Some(Frame::End(end)) = events.frame().await else {
        panic!("it started")
    };
    assert_eq!(end.error.unwrap().code, Code::Unimplemented);
    for method in [
        "process.Process/Update",
        "filesystem.Filesystem/CreateWatcher",
    ] {
        let refused = server.call(method, json!({})).await.unwrap_err();
        assert_eq!(refused.code, Code::Unimplemented);
    }
}
