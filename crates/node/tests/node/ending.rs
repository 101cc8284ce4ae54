//! Ends: by request, by themselves, by the node's stop.

use crate::fixture::{Rig, id, until};
use http::Method;
use http_body_util::BodyExt;
use serde_json::json;
use std::sync::atomic::Ordering;

#[tokio::test]
async fn delete_answers_204_once_then_404() {
    let rig = Rig::start().await;
    let sandbox = rig.create_id().await;
    let path = format!("/sandboxes/{sandbox}");
    assert_eq!(rig.delete(&path).await.status, 204);
    rig.delete(&path)
        .await
        .refused(404, &[&sandbox, "doesn't exist"]);
    rig.get(&path).await.refused(404, &[&sandbox]);
    rig.post(&format!("{path}/timeout"), json!({"timeout": 5}))
        .await
        .refused(404, &[&sandbox]);
    rig.post(&format!("/v2{path}/connect"), json!({}))
        .await
        .refused(404, &[&sandbox]);
    assert_eq!(rig.cause(&sandbox).await, "killed");
    until(async || (!rig.machine.has(&sandbox)).then_some(())).await;
    rig.stop().await;
}

#[tokio::test]
async fn unknown_ids_are_404_and_malformed_ones_400() {
    let rig = Rig::start().await;
    let unknown = format!("i{}", "a".repeat(20));
    rig.get(&format!("/sandboxes/{unknown}"))
        .await
        .refused(404, &[&unknown]);
    rig.get(&format!("/warren/v1/sandboxes/{unknown}"))
        .await
        .refused(404, &[&unknown]);
    for bad in ["x", "I123", "i-a-b", "..%2f..%2fetc"] {
        rig.get(&format!("/sandboxes/{bad}"))
            .await
            .refused(400, &["sandbox id"]);
        rig.delete(&format!("/sandboxes/{bad}"))
            .await
            .refused(400, &["sandbox id"]);
    }
    let sandbox = rig.create_id().await;
    let legacy = rig.get(&format!("/sandboxes/{sandbox}-6532622b")).await;
    assert_eq!(legacy.status, 200, "old SDKs append the client id");
    rig.stop().await;
}

#[tokio::test]
async fn a_sandbox_that_exits_by_itself_is_ended_with_its_cause() {
    let rig = Rig::start().await;
    let (a, b) = (rig.create_id().await, rig.create_id().await);
    rig.machine.exit(&a.parse().expect("an id"));
    assert_eq!(rig.cause(&a).await, "user_exit");
    rig.machine.oom_kills.store(1, Ordering::Relaxed);
    rig.machine.exit(&b.parse().expect("an id"));
    assert_eq!(rig.cause(&b).await, "oom");
    rig.stop().await;
}

#[tokio::test]
async fn kill_breaks_off_requests_under_way() {
    let rig = Rig::start().await;
    let sandbox = rig.create(json!({})).await;
    let empty = axum::body::Body::empty;
    let drip = rig
        .data(Method::GET, &sandbox, 49983, "/drip")
        .body(empty())
        .expect("request");
    let mut body = rig.send(drip).await.into_body();
    let first = body
        .frame()
        .await
        .expect("a frame")
        .expect("whole")
        .into_data()
        .expect("data");
    assert_eq!(&first[..], b"first");
    let hang = rig
        .data(Method::GET, &sandbox, 49983, "/hang")
        .body(empty())
        .expect("request");
    let hang = tokio::spawn(rig.http.request(hang));
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert_eq!(
        rig.delete(&format!("/sandboxes/{}", id(&sandbox)))
            .await
            .status,
        204
    );
    let after = until(async || body.frame().await).await;
    assert!(after.is_err(), "the reply must not look whole");
    let hung = hang.await.expect("joined").expect("an answer");
    assert_eq!(hung.status().as_u16(), 502);
    let gone = rig.data_get(&sandbox, 49983, "/health").await;
    assert_eq!(gone.status, 502);
    assert!(gone.text.contains("was not found"));
    rig.stop().await;
}

#[tokio::test]
async fn a_removal_that_fails_is_tried_again() {
    let rig = Rig::start_with(|c| c.pool_high = 0).await;
    let sandbox = rig.create_id().await;
    rig.machine.removals_failing.store(2, Ordering::Relaxed);
    assert_eq!(
        rig.delete(&format!("/sandboxes/{sandbox}")).await.status,
        204
    );
    assert_eq!(rig.inspect(&sandbox).await["state"], "killing");
    until(async || (rig.machine.existing() == 0).then_some(())).await;
    assert_eq!(rig.cause(&sandbox).await, "killed");
    rig.stop().await;
}

#[tokio::test]
async fn inspect_shows_figures_while_it_runs_and_the_cause_after() {
    let rig = Rig::start().await;
    let sandbox = rig.create_id().await;
    let seen = rig.inspect(&sandbox).await;
    assert_eq!(seen["state"], "running");
    assert_eq!(seen["isolation"], "container");
    assert_eq!(seen["usage"]["memoryBytes"], 2);
    assert!(seen.get("cause").is_none());
    rig.delete(&format!("/sandboxes/{sandbox}")).await;
    rig.cause(&sandbox).await;
    let seen = rig.inspect(&sandbox).await;
    assert!(seen["endedAt"].is_string() && seen.get("usage").is_none());
    rig.stop().await;
}

#[tokio::test]
async fn a_stopped_node_leaves_no_shell_and_no_record() {
    let rig = Rig::start().await;
    rig.create_id().await;
    let (machine, dir) = (rig.machine.clone(), rig.dir.clone());
    rig.stop().await;
    assert_eq!(machine.existing(), 0);
    let records = std::fs::read_dir(dir.path().join("run/records")).expect("a directory");
    assert_eq!(records.count(), 0);
}
