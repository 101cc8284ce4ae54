//! Templates over HTTP.

use crate::fixture::Rig;
use serde_json::{Value, json};

#[tokio::test]
async fn templates_are_listed_inspected_and_found_by_name() {
    let rig = Rig::start().await;
    rig.create_id().await;
    let list = rig.get("/templates").await.json();
    assert_eq!(list.as_array().map(Vec::len), Some(2));
    assert_eq!(list[0]["templateID"], "tbase");
    assert_eq!(list[0]["aliases"], json!(["base"]));
    assert_eq!(list[0]["spawnCount"], 1);
    assert_eq!(list[1]["lastSpawnedAt"], Value::Null);
    let detail = rig.get("/templates/py").await.json();
    assert_eq!(detail["templateID"], "tpython");
    let build = detail["builds"][0]["buildID"].as_str().expect("an id");
    assert_eq!((build.len(), build.matches('-').count()), (36, 4));
    let alias = rig.get("/templates/aliases/base%3Adefault").await;
    assert_eq!(
        alias.json(),
        json!({"templateID": "tbase", "public": false})
    );
    rig.get("/templates/aliases/nope")
        .await
        .refused(404, &["nope"]);
    rig.get("/templates/nope").await.refused(404, &["nope"]);
    rig.get("/templates/a%20b").await.refused(400, &["a b"]);
    rig.stop().await;
}

#[tokio::test]
async fn template_pages_follow_their_token() {
    let rig = Rig::start().await;
    let first = rig.get("/v2/templates?limit=1").await;
    let token = first.header("x-next-token").expect("a further page");
    let second = rig
        .get(&format!("/v2/templates?limit=1&nextToken={token}"))
        .await;
    assert_eq!(first.json()[0]["templateID"], "tbase");
    assert_eq!(second.json()[0]["templateID"], "tpython");
    assert_eq!(second.header("x-next-token"), None);
    rig.get("/v2/templates?limit=0")
        .await
        .refused(400, &["limit"]);
    rig.stop().await;
}

#[tokio::test]
async fn a_template_in_use_is_not_deleted() {
    let rig = Rig::start().await;
    let sandbox = rig.create_id().await;
    for path in [
        "/templates/base",
        "/templates/tbase",
        "/warren/v1/templates/base",
    ] {
        rig.delete(path)
            .await
            .refused(409, &["in use by 1 sandbox"]);
    }
    rig.delete(&format!("/sandboxes/{sandbox}")).await;
    rig.cause(&sandbox).await;
    assert_eq!(rig.delete("/templates/base").await.status, 204);
    rig.delete("/templates/base").await.refused(404, &["base"]);
    rig.stop().await;
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[tokio::test]
async fn pull_tells_its_progress_and_ends_with_the_template() {
    let rig = Rig::start().await;
    let pull = json!({"image": "registry.test/x:1", "name": "new"});
    let reply = rig.post("/warren/v1/templates", pull).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
    let lines = lines(&reply.text);
    assert_eq!(
        lines[0],
        json!({"type": "progress", "step": "fetch", "doneBytes": 1})
    );
    assert_eq!(lines[1]["type"], "result");
    assert_eq!(lines[1]["template"]["templateID"], "new-id");
    let made = rig
        .post("/v2/sandboxes", json!({"templateID": "new"}))
        .await;
    assert_eq!(made.json()["templateID"], "new-id");
    rig.stop().await;
}

#[tokio::test]
async fn a_pull_that_fails_ends_with_the_error() {
    let rig = Rig::start().await;
    let pull = json!({"image": "unreachable.test/x", "name": "new"});
    let lines = lines(&rig.post("/warren/v1/templates", pull).await.text);
    let last = lines.last().expect("a line");
    assert_eq!(
        (&last["type"], &last["code"]),
        (&json!("error"), &json!(503))
    );
    assert!(
        last["message"]
            .as_str()
            .expect("text")
            .contains("unreachable.test")
    );
    rig.stop().await;
}

#[tokio::test]
async fn a_pull_that_cannot_be_meant_is_refused_before_it_starts() {
    let rig = Rig::start().await;
    for (body, word) in [
        (json!({"image": "x", "name": "../x"}), "../x"),
        (json!({"image": " ", "name": "x"}), "image"),
        (json!({"name": "x"}), "image"),
        (json!({"image": "x", "name": "x", "tga": "y"}), "tga"),
    ] {
        rig.post("/warren/v1/templates", body)
            .await
            .refused(400, &[word]);
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_further_name_finds_the_same_template() {
    let rig = Rig::start().await;
    let new = json!({"target": "py", "name": "snake"});
    assert_eq!(rig.post("/warren/v1/aliases", new).await.status, 201);
    let found = rig.get("/templates/aliases/snake").await.json();
    assert_eq!(found["templateID"], "tpython");
    rig.post("/warren/v1/aliases", json!({"target": "no", "name": "x"}))
        .await
        .refused(404, &["no"]);
    assert_eq!(rig.get("/warren/v1/templates/snake").await.status, 200);
    rig.stop().await;
}
