//! Routes, methods, keys, probes, what is not built.

use crate::fixture::{Rig, until};
use axum::body::Body;
use http::{Method, Request};
use serde_json::json;

async fn bare(rig: &Rig, path: &str, header: Option<(&str, &str)>) -> crate::fixture::Reply {
    let mut request = Request::get(format!("http://{}{path}", rig.address));
    if let Some((name, value)) = header {
        request = request.header(name, value);
    }
    rig.read(request.body(Body::empty()).expect("request"))
        .await
}

#[tokio::test]
async fn keys_are_needed_and_taken_in_both_headers() {
    let rig = Rig::start().await;
    bare(&rig, "/v2/sandboxes", None)
        .await
        .refused(401, &["X-API-Key"]);
    let wrong = ("x-api-key", "e2b_0000");
    bare(&rig, "/v2/sandboxes", Some(wrong))
        .await
        .refused(401, &["not known"]);
    let bearer = format!("Bearer {}", rig.key);
    for header in [("x-api-key", rig.key.as_str()), ("authorization", &bearer)] {
        assert_eq!(bare(&rig, "/v2/sandboxes", Some(header)).await.status, 200);
    }
    bare(&rig, "/v2/sandboxes", Some(("authorization", "Basic eA==")))
        .await
        .refused(401, &[]);
    rig.stop().await;
}

#[tokio::test]
async fn probes_need_no_key() {
    let rig = Rig::start().await;
    for path in ["/health", "/livez"] {
        assert_eq!(bare(&rig, path, None).await.status, 204, "{path}");
    }
    until(async || (bare(&rig, "/readyz", None).await.status == 204).then_some(())).await;
    rig.stop().await;
}

#[tokio::test]
async fn metrics_count_and_never_name_a_sandbox() {
    let rig = Rig::start().await;
    let sandbox = rig.create_id().await;
    rig.delete(&format!("/sandboxes/{sandbox}")).await;
    let text = bare(&rig, "/metrics", None).await.text;
    for name in [
        "node_create_seconds_bucket{stage=\"attach\"",
        "node_create_seconds_bucket{stage=\"claim\"",
        "node_create_seconds_bucket{stage=\"admit\"",
        "node_pool_claims_total{result=",
        "node_ends_total{cause=\"killed\"}",
        "node_sandboxes_running",
        "node_pool_waiting",
    ] {
        assert!(text.contains(name), "{name} is not in\n{text}");
    }
    assert!(!text.contains(&sandbox));
    rig.stop().await;
}

#[tokio::test]
async fn every_route_of_the_document_is_built_and_every_shape_it_uses_is_in_it() {
    let rig = Rig::start().await;
    let document = bare(&rig, "/openapi.json", None).await;
    assert_eq!(document.status, 200);
    let json = document.json();
    let paths = json["paths"].as_object().expect("paths");
    assert!(paths.len() > 20);
    for (path, item) in paths {
        for method in item.as_object().expect("methods").keys() {
            let method: Method = method.to_uppercase().parse().expect("a method");
            let path = path
                .replace("{id}", "x")
                .replace("{name}", "x")
                .replace("{alias}", "x");
            let request = rig.request(method.clone(), &path).body(Body::from("?"));
            let reply = rig.read(request.expect("request")).await;
            assert!(
                ![405, 501].contains(&reply.status),
                "{method} {path}: {reply:?}"
            );
            assert!(
                !reply.text.contains("no route"),
                "{method} {path}: {reply:?}"
            );
        }
    }
    for reference in document.text.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().expect("a name");
        assert!(
            json["components"]["schemas"][name].is_object(),
            "{name} is missing"
        );
    }
    rig.stop().await;
}

#[tokio::test]
async fn unknown_routes_are_a_json_404_that_names_them_p91() {
    let rig = Rig::start().await;
    rig.get("/v9/sandboxes")
        .await
        .refused(404, &["GET /v9/sandboxes"]);
    rig.post("/sandboxes/x/y/z", json!({}))
        .await
        .refused(404, &["POST /sandboxes/x/y/z"]);
    rig.stop().await;
}

#[tokio::test]
async fn wrong_methods_are_a_json_405_with_allow_p91() {
    let rig = Rig::start().await;
    for (method, path, allowed) in [
        (Method::PUT, "/v2/sandboxes", ["POST", "GET"]),
        (Method::DELETE, "/v2/sandboxes", ["POST", "GET"]),
        (Method::PATCH, "/sandboxes/x", ["GET", "DELETE"]),
        (Method::DELETE, "/livez", ["GET", "HEAD"]),
    ] {
        let request = rig
            .request(method.clone(), path)
            .body(Body::empty())
            .expect("request");
        let reply = rig.read(request).await;
        reply.refused(405, &[path, method.as_str()]);
        let allow = reply.header("allow").expect("an Allow header");
        assert!(allowed.iter().all(|m| allow.contains(m)), "{allow}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn both_generations_of_create_and_connect_are_there_p91() {
    let rig = Rig::start().await;
    for generation in ["", "/v2"] {
        let made = rig
            .post(
                &format!("{generation}/sandboxes"),
                json!({"templateID": "base"}),
            )
            .await;
        assert_eq!(made.status, 201);
        let id = crate::fixture::id(&made.json());
        let path = format!("{generation}/sandboxes/{id}/connect");
        assert_eq!(rig.post(&path, json!({"timeout": 5})).await.status, 200);
    }
    rig.stop().await;
}

#[tokio::test]
async fn what_comes_later_is_501_and_names_itself() {
    let rig = Rig::start().await;
    for (method, path) in [
        (Method::POST, "/sandboxes/x/pause"),
        (Method::POST, "/sandboxes/x/resume"),
        (Method::POST, "/sandboxes/x/fork"),
        (Method::POST, "/sandboxes/x/snapshots"),
        (Method::PUT, "/sandboxes/x/network"),
        (Method::GET, "/sandboxes/x/metrics"),
        (Method::GET, "/sandboxes/metrics"),
        (Method::GET, "/sandboxes/x/logs"),
        (Method::GET, "/v2/sandboxes/x/logs"),
        (Method::GET, "/snapshots"),
        (Method::POST, "/v3/templates"),
        (Method::POST, "/templates"),
        (Method::GET, "/templates/x/files/abc"),
        (Method::POST, "/v2/templates/x/builds/y"),
        (Method::GET, "/templates/x/builds/y/status"),
        (Method::DELETE, "/templates/tags"),
        (Method::PATCH, "/v2/templates/x"),
        (Method::GET, "/volumes"),
        (Method::GET, "/volumecontent/x/file"),
        (Method::POST, "/secrets"),
        (Method::GET, "/teams"),
        (Method::GET, "/nodes"),
        (Method::GET, "/api-keys"),
    ] {
        let request = rig
            .request(method.clone(), path)
            .body(Body::empty())
            .expect("request");
        let reply = rig.read(request).await;
        reply.refused(501, &[method.as_str(), path, "not implemented yet"]);
        assert_eq!(
            reply.header("should-retry"),
            Some("false"),
            "{method} {path}"
        );
    }
    bare(&rig, "/volumes", None).await.refused(401, &[]);
    rig.stop().await;
}

#[tokio::test]
async fn version_and_machine_are_told() {
    let rig = Rig::start().await;
    assert_eq!(
        rig.get("/warren/v1/version").await.json()["envdVersion"],
        "0.6.13"
    );
    assert_eq!(
        rig.get("/warren/v1/host").await.json(),
        json!({"kernel": "played"})
    );
    rig.stop().await;
}

#[tokio::test]
async fn http2_without_tls_is_served_too() {
    let rig = Rig::start().await;
    let client = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new())
        .http2_only(true)
        .build_http();
    let request = rig
        .request(Method::GET, "/v2/sandboxes")
        .body(Body::empty())
        .expect("request");
    let reply = client.request(request).await.expect("an answer");
    assert_eq!(
        (reply.status().as_u16(), reply.version()),
        (200, http::Version::HTTP_2)
    );
    rig.stop().await;
}
