//! A node that dies at any instant and starts again.

use crate::fixture::{FakeTemplates, Rig, id, until};
use crate::machine::FakeMachine;
use node::Node;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

struct Machine {
    dir: Arc<TempDir>,
    machine: Arc<FakeMachine>,
    templates: Arc<FakeTemplates>,
}

impl Machine {
    fn new() -> Self {
        let dir = Arc::new(tempfile::tempdir().expect("a directory"));
        Self {
            machine: FakeMachine::new(dir.path().to_owned()),
            templates: FakeTemplates::with(&[("base", "tbase")]),
            dir,
        }
    }

    async fn node(&self) -> Rig {
        Rig::on(
            self.dir.clone(),
            self.machine.clone(),
            self.templates.clone(),
            |_| (),
        )
        .await
    }

    /// Runs a node on a runtime of its own, creates sandboxes, and lets it die without a word.
    async fn create_and_die(&self, bodies: &[Value]) -> Vec<Value> {
        let runtime = Runtime::new().expect("a runtime");
        let config = Rig::config(&self.dir);
        let (machine, templates) = (self.machine.clone(), self.templates.clone());
        let never = CancellationToken::new();
        let start = async move { Node::start(config, machine, templates, never).await };
        let node = runtime
            .spawn(start)
            .await
            .expect("joined")
            .expect("the node starts");
        let rig = ClientOf::new(&node, &self.dir);
        let mut made = Vec::new();
        for body in bodies {
            made.push(rig.create(body).await);
        }
        runtime.shutdown_background();
        made
    }
}

/// A bare client of a node that is about to die.
struct ClientOf(String, String);

impl ClientOf {
    fn new(node: &Node, dir: &TempDir) -> Self {
        let key = std::fs::read_to_string(dir.path().join("data/api-key")).expect("a key");
        let url = format!("http://{}/v2/sandboxes", node.local_addr());
        Self(url, key.trim().to_owned())
    }

    async fn create(&self, body: &Value) -> Value {
        use http_body_util::BodyExt;
        use hyper_util::client::legacy::Client;
        let client = Client::builder(hyper_util::rt::TokioExecutor::new()).build_http();
        let request = http::Request::post(&self.0).header("x-api-key", &self.1);
        let request = request
            .body(axum::body::Body::from(body.to_string()))
            .expect("request");
        let reply = client.request(request).await.expect("an answer");
        assert_eq!(reply.status().as_u16(), 201);
        let bytes = reply.into_body().collect().await.expect("whole").to_bytes();
        serde_json::from_slice(&bytes).expect("JSON")
    }
}

#[tokio::test]
async fn a_killed_node_adopts_what_runs_with_all_it_had() {
    let machine = Machine::new();
    let body = json!({"templateID": "base", "timeout": 500, "metadata": {"a": "b"},
        "allow_internet_access": false});
    let made = machine.create_and_die(&[body]).await;
    let rig = machine.node().await;
    let detail = rig
        .get(&format!("/sandboxes/{}", id(&made[0])))
        .await
        .json();
    assert_eq!(detail["metadata"], json!({"a": "b"}));
    assert_eq!(detail["envdAccessToken"], made[0]["envdAccessToken"]);
    assert_eq!(detail["allowInternetAccess"], false);
    let end: jiff::Timestamp = detail["endAt"]
        .as_str()
        .expect("text")
        .parse()
        .expect("a time");
    let left = end.duration_since(jiff::Timestamp::now()).as_secs();
    assert!((480..=500).contains(&left), "{left}");
    assert_eq!(rig.data_get(&made[0], 49983, "/headers").await.status, 200);
    rig.delete("/templates/base")
        .await
        .refused(409, &["in use"]);
    assert_eq!(
        rig.delete(&format!("/sandboxes/{}", id(&made[0])))
            .await
            .status,
        204
    );
    rig.stop().await;
}

#[tokio::test]
async fn what_an_earlier_node_left_without_a_record_is_reaped() {
    let machine = Machine::new();
    let body = json!({"templateID": "base"});
    let made = machine.create_and_die(&[body.clone(), body]).await;
    let record = machine
        .dir
        .path()
        .join(format!("run/records/{}.json", id(&made[0])));
    let mode = std::fs::metadata(&record)
        .expect("a record")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600, "it holds a token");
    std::fs::remove_file(record).expect("removed");
    let rig = machine.node().await;
    assert!(!machine.machine.has(&id(&made[0])));
    assert!(machine.machine.has(&id(&made[1])));
    // The waiting shells of the dead node are gone, a new pool waits.
    until(async || (machine.machine.existing() == 5).then_some(())).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_sandbox_that_ended_meanwhile_is_known_as_ended() {
    let machine = Machine::new();
    let made = machine
        .create_and_die(&[json!({"templateID": "base"})])
        .await;
    machine.machine.exit(&id(&made[0]).parse().expect("an id"));
    let rig = machine.node().await;
    rig.get(&format!("/sandboxes/{}", id(&made[0])))
        .await
        .refused(404, &[]);
    assert_eq!(rig.cause(&id(&made[0])).await, "node_lost");
    rig.stop().await;
}

#[tokio::test]
async fn a_sandbox_whose_time_passed_meanwhile_is_ended() {
    let machine = Machine::new();
    let made = machine
        .create_and_die(&[json!({"templateID": "base", "timeout": 1})])
        .await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let rig = machine.node().await;
    assert_eq!(rig.cause(&id(&made[0])).await, "timeout");
    rig.stop().await;
}

#[tokio::test]
async fn a_moved_end_outlives_the_node() {
    let machine = Machine::new();
    let made = machine
        .create_and_die(&[json!({"templateID": "base"})])
        .await;
    let rig = machine.node().await;
    let path = format!("/sandboxes/{}/timeout", id(&made[0]));
    assert_eq!(rig.post(&path, json!({"timeout": 7000})).await.status, 204);
    let record = machine
        .dir
        .path()
        .join(format!("run/records/{}.json", id(&made[0])));
    let record: Value =
        serde_json::from_slice(&std::fs::read(record).expect("a record")).expect("JSON");
    let end = rig
        .get(&format!("/sandboxes/{}", id(&made[0])))
        .await
        .json()["endAt"]
        .clone();
    assert_eq!(record["end_at"], end);
    rig.stop().await;
}

#[tokio::test]
async fn unreadable_records_do_not_stop_the_start() {
    let machine = Machine::new();
    let records = machine.dir.path().join("run/records");
    std::fs::create_dir_all(&records).expect("a directory");
    for name in ["broken.json", "half.new"] {
        let mut file = std::fs::File::create(records.join(name)).expect("a file");
        std::io::Write::write_all(&mut file, b"{\"version\":").expect("written");
    }
    let rig = machine.node().await;
    assert_eq!(rig.get("/v2/sandboxes").await.json(), json!([]));
    assert_eq!(std::fs::read_dir(&records).expect("a directory").count(), 0);
    rig.stop().await;
}
