//! Listings: filters, order, pages.

use crate::fixture::{Rig, id};
use serde_json::{Value, json};

fn ids(list: &Value) -> Vec<String> {
    list.as_array().expect("a list").iter().map(id).collect()
}

#[tokio::test]
async fn lists_are_newest_first_or_oldest_first() {
    let rig = Rig::start().await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(rig.create_id().await);
    }
    let ascending = ids(&rig.get("/v2/sandboxes?order=asc").await.json());
    assert_eq!(ascending, made);
    made.reverse();
    for path in ["/sandboxes", "/v2/sandboxes", "/v2/sandboxes?order=desc"] {
        assert_eq!(ids(&rig.get(path).await.json()), made, "{path}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn pages_hold_everything_once_in_either_order() {
    let rig = Rig::start().await;
    for _ in 0..7 {
        rig.create_id().await;
    }
    for order in ["asc", "desc"] {
        let all = ids(&rig
            .get(&format!("/v2/sandboxes?order={order}"))
            .await
            .json());
        let (mut seen, mut token) = (Vec::new(), String::new());
        loop {
            let path = format!("/v2/sandboxes?order={order}&limit=3&nextToken={token}");
            let page = rig.get(&path).await;
            seen.extend(ids(&page.json()));
            assert_eq!(page.header("x-total-running"), Some("7"));
            match page.header("x-next-token") {
                Some(next) => next.clone_into(&mut token),
                None => break,
            }
        }
        assert_eq!(seen, all, "{order}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn filters_narrow_by_metadata_template_state_and_start() {
    let rig = Rig::start().await;
    let a = id(&rig
        .create(json!({"metadata": {"a b": "c&d", "x": "1"}}))
        .await);
    let b = id(&rig
        .create(json!({"metadata": {"x": "1"}, "templateID": "py"}))
        .await);
    for (query, expected) in [
        ("metadata=a%252520b%3Dc%252526d", vec![&a]),
        ("metadata=x%3D1", vec![&b, &a]),
        ("metadata=x%3D1%26a%252520b%3Dc%252526d", vec![&a]),
        ("metadata=x%3D2", vec![]),
        ("template=py", vec![&b]),
        ("template=tbase", vec![&a]),
        ("template=unknown", vec![]),
        ("state=running%2Cpaused", vec![&b, &a]),
        ("state=running&state=paused", vec![&b, &a]),
        ("state=paused", vec![]),
        ("startedAfter=2020-01-01T00:00:00Z", vec![&b, &a]),
        ("startedAfter=2020-01-01T00:00:00%2B01:00", vec![&b, &a]),
        ("startedAfter=2199-01-01T00:00:00Z", vec![]),
    ] {
        let listed = ids(&rig.get(&format!("/v2/sandboxes?{query}")).await.json());
        assert_eq!(listed.iter().collect::<Vec<_>>(), expected, "{query}");
    }
    let v1 = rig
        .get("/sandboxes?metadata=a%252520b%3Dc%252526d")
        .await
        .json();
    assert_eq!(ids(&v1), [a]);
    let paused = rig.get("/v2/sandboxes?state=paused").await;
    assert_eq!(paused.header("x-total-running"), None);
    rig.stop().await;
}

#[tokio::test]
async fn started_after_includes_the_instant_itself() {
    let rig = Rig::start().await;
    rig.create_id().await;
    let line = rig.get("/v2/sandboxes").await.json()[0].clone();
    let started = line["startedAt"].as_str().expect("a time");
    let same = rig
        .get(&format!("/v2/sandboxes?startedAfter={started}"))
        .await
        .json();
    assert_eq!(same.as_array().map(Vec::len), Some(1));
    rig.stop().await;
}

#[tokio::test]
async fn wrong_queries_are_named() {
    let rig = Rig::start().await;
    for (query, word) in [
        ("limit=0", "limit is 0"),
        ("limit=101", "limit is 101"),
        ("limit=many", "limit is many"),
        ("state=dead", "dead"),
        ("order=up", "up"),
        ("nextToken=%21%21", "nextToken"),
        ("startedAfter=now", "startedAfter"),
        ("template=a%3Ab", "tag"),
    ] {
        rig.get(&format!("/v2/sandboxes?{query}"))
            .await
            .refused(400, &[word]);
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_line_says_what_the_sandbox_is() {
    let rig = Rig::start().await;
    let sandbox = rig
        .create(json!({"metadata": {"k": "v"}, "timeout": 60}))
        .await;
    let line = rig.get("/v2/sandboxes").await.json()[0].clone();
    for (field, value) in [
        ("sandboxID", json!(id(&sandbox))),
        ("templateID", json!("tbase")),
        ("alias", json!("base")),
        ("cpuCount", json!(2)),
        ("memoryMB", json!(512)),
        ("diskSizeMB", json!(1024)),
        ("state", json!("running")),
        ("metadata", json!({"k": "v"})),
        ("volumeMounts", json!([])),
        ("envdVersion", json!("0.6.13")),
    ] {
        assert_eq!(line[field], value, "{field}");
    }
    let detail = rig
        .get(&format!("/sandboxes/{}", id(&sandbox)))
        .await
        .json();
    assert_eq!(detail["envdAccessToken"], sandbox["envdAccessToken"]);
    assert_eq!(
        detail["lifecycle"],
        json!({"autoResume": false, "onTimeout": "kill"})
    );
    assert_eq!(detail["endAt"], line["endAt"]);
    rig.stop().await;
}
