//! Times to live: timeout, connect, refreshes.

use crate::fixture::{Rig, id};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

async fn left(rig: &Rig, id: &str) -> SignedDuration {
    let detail = rig.get(&format!("/sandboxes/{id}")).await.json();
    let end: Timestamp = detail["endAt"]
        .as_str()
        .expect("a time")
        .parse()
        .expect("RFC 3339");
    end.duration_since(Timestamp::now())
}

fn about(left: SignedDuration, seconds: i64) -> bool {
    (seconds - 5..=seconds).contains(&left.as_secs())
}

#[tokio::test]
async fn both_generations_have_their_default() {
    let rig = Rig::start().await;
    let v1 = rig.post("/sandboxes", json!({"templateID": "base"})).await;
    assert_eq!(v1.status, 201);
    assert!(about(left(&rig, &id(&v1.json())).await, 15));
    let v2 = rig.create_id().await;
    assert!(about(left(&rig, &v2).await, 300));
    rig.stop().await;
}

#[tokio::test]
async fn connect_extends_and_never_shortens() {
    let rig = Rig::start().await;
    let made = rig.create(json!({"timeout": 600})).await;
    let sandbox = id(&made);
    for path in ["/sandboxes", "/v2/sandboxes"] {
        let reply = rig
            .post(&format!("{path}/{sandbox}/connect"), json!({"timeout": 10}))
            .await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.json(), made, "connect answers as create did");
        assert!(about(left(&rig, &sandbox).await, 600), "{path}");
    }
    let longer = json!({"timeout": 1000});
    rig.post(&format!("/v2/sandboxes/{sandbox}/connect"), longer)
        .await;
    assert!(about(left(&rig, &sandbox).await, 1000));
    rig.stop().await;
}

#[tokio::test]
async fn connect_checks_its_timeout() {
    let rig = Rig::start().await;
    let sandbox = rig.create_id().await;
    for bad in [json!(0), json!(-1), json!(1e12), json!("x")] {
        for path in ["/sandboxes", "/v2/sandboxes"] {
            let path = format!("{path}/{sandbox}/connect");
            rig.post(&path, json!({"timeout": bad}))
                .await
                .refused(400, &["timeout"]);
        }
    }
    let v1 = rig
        .post(&format!("/sandboxes/{sandbox}/connect"), json!({}))
        .await;
    v1.refused(400, &["timeout"]);
    let v2 = rig
        .post_text(&format!("/v2/sandboxes/{sandbox}/connect"), "")
        .await;
    assert_eq!(v2.status, 200, "the second generation has a default");
    rig.stop().await;
}

#[tokio::test]
async fn timeout_shortens_too_and_checks_its_range() {
    let rig = Rig::start().await;
    let sandbox = rig.create_id().await;
    let path = format!("/sandboxes/{sandbox}/timeout");
    assert_eq!(rig.post(&path, json!({"timeout": 30})).await.status, 204);
    assert!(about(left(&rig, &sandbox).await, 30));
    for bad in [
        json!(-1),
        json!(1e12),
        json!("x"),
        json!(86401),
        json!(null),
    ] {
        rig.post(&path, json!({"timeout": bad}))
            .await
            .refused(400, &["timeout"]);
    }
    assert!(
        about(left(&rig, &sandbox).await, 30),
        "a refused value changes nothing"
    );
    rig.stop().await;
}

#[tokio::test]
async fn timeout_zero_ends_it_now() {
    let rig = Rig::start().await;
    let sandbox = rig.create_id().await;
    let path = format!("/sandboxes/{sandbox}/timeout");
    assert_eq!(rig.post(&path, json!({"timeout": 0})).await.status, 204);
    rig.get(&format!("/sandboxes/{sandbox}"))
        .await
        .refused(404, &[&sandbox]);
    assert_eq!(rig.cause(&sandbox).await, "timeout");
    rig.stop().await;
}

#[tokio::test]
async fn a_sandbox_ends_when_its_time_is_over_also_when_that_was_moved() {
    let rig = Rig::start().await;
    let short = id(&rig.create(json!({"timeout": 1})).await);
    let moved = id(&rig.create(json!({"timeout": 300})).await);
    rig.post(
        &format!("/sandboxes/{moved}/timeout"),
        json!({"timeout": 1}),
    )
    .await;
    let kept = id(&rig.create(json!({"timeout": 1})).await);
    rig.post(
        &format!("/sandboxes/{kept}/timeout"),
        json!({"timeout": 60}),
    )
    .await;
    assert_eq!(rig.cause(&short).await, "timeout");
    assert_eq!(rig.cause(&moved).await, "timeout");
    assert_eq!(rig.inspect(&kept).await["state"], "running");
    rig.stop().await;
}

#[tokio::test]
async fn refreshes_extend_by_at_least_fifteen_seconds() {
    let rig = Rig::start().await;
    let sandbox = id(&rig.create(json!({"timeout": 5})).await);
    let path = format!("/sandboxes/{sandbox}/refreshes");
    assert_eq!(rig.post(&path, json!({"duration": 1})).await.status, 204);
    assert!(about(left(&rig, &sandbox).await, 15));
    assert_eq!(rig.post(&path, json!({"duration": 100})).await.status, 204);
    assert!(about(left(&rig, &sandbox).await, 100));
    assert_eq!(rig.post_text(&path, "").await.status, 204);
    assert!(about(left(&rig, &sandbox).await, 100));
    rig.post(&path, json!({"duration": 3601}))
        .await
        .refused(400, &["duration is 3601"]);
    rig.stop().await;
}
