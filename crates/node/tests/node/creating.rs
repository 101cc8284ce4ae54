//! Creates: replies, what reaches the agent, refusals, load.

use crate::fixture::{Rig, id, until};
use axum::body::Body;
use http::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

#[tokio::test]
async fn create_answers_201_with_all_that_sdks_need() {
    let rig = Rig::start().await;
    let reply = rig
        .post("/v2/sandboxes", json!({"templateID": "base"}))
        .await;
    assert_eq!(reply.status, 201);
    let sandbox = reply.json();
    assert_eq!(sandbox["templateID"], "tbase");
    assert_eq!(sandbox["alias"], "base");
    assert_eq!(sandbox["clientID"], "6532622b");
    assert_eq!(sandbox["envdVersion"], "0.6.13");
    assert_eq!(sandbox["domain"], Value::Null);
    assert_eq!(sandbox["envdAccessToken"].as_str().map(str::len), Some(64));
    assert!(id(&sandbox).parse::<model::SandboxId>().is_ok());
    rig.stop().await;
}

#[tokio::test]
async fn the_agent_is_told_environment_defaults_and_token() {
    let rig = Rig::start().await;
    let more = json!({"envVars": {"A": "1"}, "allow_internet_access": false});
    let sandbox = rig.create(more).await;
    let (request, internet) = rig.machine.orders.lock().expect("lock")[0].clone();
    assert_eq!(request.sandbox_id, id(&sandbox));
    assert_eq!(request.template_id, "tbase");
    assert_eq!(request.init.env.get("A").map(String::as_str), Some("1"));
    assert_eq!(
        request.init.image_env,
        [("PATH".to_owned(), "/bin".to_owned())]
    );
    assert_eq!(request.init.user.as_deref(), Some("app"));
    assert_eq!(request.init.workdir.as_deref(), Some("/srv"));
    assert_eq!(
        request.init.access_token.as_deref(),
        sandbox["envdAccessToken"].as_str()
    );
    let paths: Vec<_> = request.files.iter().map(|f| f.path.as_str()).collect();
    assert_eq!(paths, ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"]);
    assert!(!internet);
    let detail = rig
        .get(&format!("/sandboxes/{}", id(&sandbox)))
        .await
        .json();
    assert_eq!(detail["allowInternetAccess"], false);
    rig.stop().await;
}

#[tokio::test]
async fn denying_all_destinations_is_to_have_no_internet() {
    let rig = Rig::start().await;
    rig.create(json!({"network": {"denyOut": ["0.0.0.0/0"]}}))
        .await;
    assert!(!rig.machine.orders.lock().expect("lock")[0].1);
    rig.stop().await;
}

#[tokio::test]
async fn timeouts_out_of_range_are_refused_with_their_value_p83() {
    let rig = Rig::start().await;
    for path in ["/sandboxes", "/v2/sandboxes"] {
        for bad in ["0", "-1", "1e12", "1.5", "86401"] {
            let body = format!(r#"{{"templateID":"base","timeout":{bad}}}"#);
            let reply = rig.post_text(path, &body).await;
            reply.refused(400, &["timeout is", "1 to 86400"]);
        }
        let reply = rig
            .post(path, json!({"templateID": "base", "timeout": "5"}))
            .await;
        reply.refused(400, &["timeout", "line 1"]);
    }
    assert_eq!(rig.get("/sandboxes").await.json(), json!([]));
    rig.stop().await;
}

#[tokio::test]
async fn fields_that_are_not_built_are_refused_never_ignored() {
    let rig = Rig::start().await;
    for (more, status, word) in [
        (json!({"autoPause": true}), 501, "autoPause"),
        (json!({"autoPauseMemory": false}), 400, "autoPauseMemory"),
        (json!({"autoResume": {"enabled": true}}), 501, "autoResume"),
        (json!({"mcp": {"server": {"a": "b"}}}), 501, "mcp"),
        (
            json!({"iam": {"tokens": {"t": {"audience": "a"}}}}),
            501,
            "iam",
        ),
        (
            json!({"volumeMounts": [{"name": "v", "path": "/v"}]}),
            501,
            "volumeMounts",
        ),
        (
            json!({"network": {"allowOut": ["1.1.1.1"]}}),
            501,
            "allowOut",
        ),
        (json!({"network": {"denyOut": ["1.1.1.1"]}}), 501, "denyOut"),
        (
            json!({"network": {"maskRequestHost": "x"}}),
            501,
            "maskRequestHost",
        ),
        (
            json!({"network": {"allowPublicTraffic": false}}),
            501,
            "allowPublicTraffic",
        ),
        (
            json!({"metadata": {"warren.isolation": "vm"}}),
            501,
            "warren.isolation",
        ),
        (
            json!({"metadata": {"warren.isolation": "jail"}}),
            400,
            "warren.isolation",
        ),
        (
            json!({"metadata": {"warren.plan": "p"}}),
            501,
            "warren.plan",
        ),
        (json!({"metadata": {"warren.x": "p"}}), 400, "reserved"),
        (json!({"envVars": {"A=B": "p"}}), 400, "A=B"),
        (json!({"envVars": {"A": "p\u{0}"}}), 400, "zero byte"),
    ] {
        let mut body = more.clone();
        body["templateID"] = "base".into();
        let reply = rig.post("/v2/sandboxes", body).await;
        reply.refused(status, &[word]);
        let retry = (status == 501).then_some("false");
        assert_eq!(reply.header("should-retry"), retry, "{more}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn what_sdks_send_by_default_is_taken() {
    let rig = Rig::start().await;
    rig.create(json!({
        "autoPause": false, "autoPauseMemory": true, "secure": true, "metadata": {}, "envVars": {},
        "allow_internet_access": true, "autoResume": {"enabled": false}, "mcp": null,
        "network": {"allowPublicTraffic": true}, "volumeMounts": [], "futureField": 1,
    }))
    .await;
    let job = json!({"metadata": {"warren.isolation": "container", "warren.job": "j1"}});
    let sandbox = rig.create(job).await;
    assert_eq!(rig.inspect(&id(&sandbox)).await["job"], "j1");
    rig.stop().await;
}

#[tokio::test]
async fn unknown_and_malformed_templates_are_told_apart() {
    let rig = Rig::start().await;
    let create = |name: &str| rig.post("/v2/sandboxes", json!({"templateID": name}));
    create("nope").await.refused(404, &["nope", "template"]);
    create("../etc").await.refused(400, &["../etc"]);
    create("").await.refused(400, &["templateID"]);
    rig.stop().await;
}

#[tokio::test]
async fn malformed_json_names_field_and_line() {
    let rig = Rig::start().await;
    for (body, words) in [
        ("{\"templateID\":", ["EOF", "line 1"]),
        ("", ["templateID", "line 1"]),
        ("{\n\"templateID\": 5}", ["field templateID", "line 2"]),
        (
            "{\"templateID\":\"base\",\"envVars\":{\"A\":1}}",
            ["envVars.A", "line 1"],
        ),
    ] {
        rig.post_text("/v2/sandboxes", body)
            .await
            .refused(400, &words);
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_failed_create_leaves_nothing_and_is_not_to_be_repeated() {
    let rig = Rig::start_with(|c| c.pool_high = 0).await;
    rig.machine.attach_fails.store(true, Ordering::Relaxed);
    let reply = rig
        .post("/v2/sandboxes", json!({"templateID": "base"}))
        .await;
    reply.refused(500, &["attach", "the test wants it"]);
    assert_eq!(reply.header("should-retry"), Some("false"));
    assert_eq!(rig.machine.existing(), 0);
    assert_eq!(rig.get("/v2/sandboxes").await.json(), json!([]));
    // Nothing uses the template any more.
    assert_eq!(rig.delete("/templates/base").await.status, 204);
    rig.stop().await;
}

#[tokio::test]
async fn an_empty_pool_is_slow_and_not_an_error() {
    let rig = Rig::start_with(|c| c.pool_high = 0).await;
    rig.create_id().await;
    assert_eq!(rig.machine.existing(), 1);
    rig.stop().await;
}

#[tokio::test]
async fn the_pool_refills_and_skips_the_dead() {
    let rig = Rig::start().await;
    until(async || (rig.machine.existing() == 4).then_some(())).await;
    rig.machine.exit_waiting();
    rig.create_id().await;
    // One that runs and a full pool again, the dead removed.
    until(async || (rig.machine.existing() == 5).then_some(())).await;
    assert!(rig.machine.prepared.load(Ordering::Relaxed) >= 9);
    rig.stop().await;
}

#[tokio::test]
async fn a_pool_that_could_not_fill_recovers() {
    let rig = Rig::start_with(|c| c.pool_high = 1).await;
    until(async || (rig.machine.existing() == 1).then_some(())).await;
    rig.machine.prepare_fails.store(true, Ordering::Relaxed);
    rig.create_id().await;
    let reply = rig
        .post("/v2/sandboxes", json!({"templateID": "base"}))
        .await;
    reply.refused(500, &["prepare"]);
    rig.machine.prepare_fails.store(false, Ordering::Relaxed);
    rig.create_id().await;
    until(async || (rig.machine.existing() == 3).then_some(())).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_creates_at_once_all_succeed_and_differ() {
    let rig = Rig::start().await;
    let creates = (0..64).map(|_| rig.create_id());
    let ids: BTreeSet<String> = futures::future::join_all(creates)
        .await
        .into_iter()
        .collect();
    assert_eq!(ids.len(), 64);
    let page = rig.get("/v2/sandboxes").await;
    assert_eq!(page.json().as_array().map(Vec::len), Some(64));
    assert_eq!(page.header("x-total-running"), Some("64"));
    let machine = rig.machine.clone();
    rig.stop().await;
    assert_eq!(machine.existing(), 0, "a stopped node leaves nothing");
}

#[tokio::test]
async fn a_full_node_refuses_with_429_and_when_to_come_back() {
    let rig = Rig::start_with(|c| c.sandboxes_max = 1).await;
    let first = rig.create_id().await;
    let reply = rig
        .post("/v2/sandboxes", json!({"templateID": "base"}))
        .await;
    reply.refused(429, &["as many sandboxes"]);
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(rig.delete(&format!("/sandboxes/{first}")).await.status, 204);
    rig.create_id().await;
    rig.stop().await;
}

#[tokio::test]
async fn a_create_sent_twice_with_one_key_makes_one_sandbox() {
    let rig = Rig::start().await;
    let send = async |key: &str, body: Value| {
        let request = rig
            .request(Method::POST, "/v2/sandboxes")
            .header("idempotency-key", key);
        rig.read(request.body(Body::from(body.to_string())).expect("request"))
            .await
    };
    let body = json!({"templateID": "base"});
    let (first, second) = (
        send("k-1", body.clone()).await,
        send("k-1", body.clone()).await,
    );
    assert_eq!(first.status, 201);
    assert_eq!(first.json(), second.json());
    send("k-1", json!({"templateID": "py"}))
        .await
        .refused(409, &["another request"]);
    send("K", body.clone())
        .await
        .refused(400, &["Idempotency-Key"]);
    send("k-2", json!({"templateID": "nope"}))
        .await
        .refused(404, &["nope"]);
    assert_eq!(
        rig.get("/v2/sandboxes")
            .await
            .json()
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    rig.stop().await;
}
