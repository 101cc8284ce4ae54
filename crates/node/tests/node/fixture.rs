//! A node on a played machine, and a client for it.

use crate::machine::FakeMachine;
use api::ErrorKind;
use api::warren::{NewAlias, PullProgress, PullRequest, TemplateInfo, TemplateLayer};
use axum::body::Body;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use jiff::Timestamp;
use model::{Digest, ProcessDefaults, Resources, RootPlan, RootSource, TemplateRef};
use node::{Node, NodeConfig, ResolvedTemplate, TemplateError, Templates};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Longest that anything in a test may take.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Default)]
pub(crate) struct FakeTemplates {
    /// Name to id.
    names: Mutex<BTreeMap<String, String>>,
}

fn info(id: &str, names: Vec<String>) -> TemplateInfo {
    TemplateInfo {
        template_id: id.to_owned(),
        names,
        source: None,
        layers: vec![TemplateLayer {
            digest: "sha256:00".into(),
            size_bytes: 1,
        }],
        env: vec![],
        user: None,
        workdir: None,
        cpu_count: 2,
        memory_mb: 512,
        disk_size_mb: 1024,
        builtin: false,
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
    }
}

impl FakeTemplates {
    pub(crate) fn with(names: &[(&str, &str)]) -> Arc<Self> {
        let names = names
            .iter()
            .map(|(n, id)| ((*n).to_owned(), (*id).to_owned()));
        Arc::new(Self {
            names: Mutex::new(names.collect()),
        })
    }

    fn find(&self, reference: &TemplateRef) -> Result<(String, String), TemplateError> {
        let names = self.names.lock().expect("lock");
        let wanted = reference.name();
        let found = names.iter().find(|(n, id)| *n == wanted || *id == wanted);
        let found = found.map(|(n, id)| (n.clone(), id.clone()));
        found.ok_or_else(|| TemplateError::not_found(&reference.to_string()))
    }
}

impl Templates for FakeTemplates {
    fn resolve(&self, reference: &TemplateRef) -> Result<ResolvedTemplate, TemplateError> {
        let (name, id) = self.find(reference)?;
        let resources = Resources {
            memory_mib: 512,
            disk_mib: 1024,
            ..Resources::default()
        };
        let process = ProcessDefaults {
            env: vec![("PATH".into(), "/bin".into())],
            user: Some("app".into()),
            workdir: Some("/srv".into()),
        };
        let sources = vec![RootSource::HostUsr];
        let plan = RootPlan {
            sources,
            process,
            resources,
        };
        Ok(ResolvedTemplate {
            id,
            alias: Some(name),
            plan,
        })
    }

    fn list(&self) -> Result<Vec<TemplateInfo>, TemplateError> {
        let names = self.names.lock().expect("lock");
        Ok(names
            .iter()
            .map(|(n, id)| info(id, vec![n.clone()]))
            .collect())
    }

    fn inspect(&self, reference: &TemplateRef) -> Result<TemplateInfo, TemplateError> {
        self.find(reference).map(|(name, id)| info(&id, vec![name]))
    }

    fn delete(&self, reference: &TemplateRef, _: &[Digest]) -> Result<(), TemplateError> {
        let (name, _) = self.find(reference)?;
        self.names.lock().expect("lock").remove(&name);
        Ok(())
    }

    fn alias(&self, alias: &NewAlias) -> Result<TemplateInfo, TemplateError> {
        let (_, id) = self.find(&alias.target.parse().expect("checked before"))?;
        self.names
            .lock()
            .expect("lock")
            .insert(alias.name.clone(), id.clone());
        Ok(info(&id, vec![alias.name.clone()]))
    }

    fn pull(
        &self,
        request: &PullRequest,
        progress: &(dyn Fn(PullProgress) + Sync),
    ) -> Result<TemplateInfo, TemplateError> {
        let step = PullProgress {
            step: "fetch".into(),
            done_bytes: Some(1),
            ..Default::default()
        };
        progress(step);
        if request.image.contains("unreachable") {
            return Err(TemplateError {
                kind: ErrorKind::Unavailable,
                message: format!("registry of {} does not answer", request.image),
                source: None,
            });
        }
        let id = format!("{}-id", request.name);
        self.names
            .lock()
            .expect("lock")
            .insert(request.name.clone(), id.clone());
        Ok(info(&id, vec![request.name.clone()]))
    }
}

/// A reply, read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|v| v.to_str().expect("text"))
    }

    /// Asserts status, equal code in the body, and that the message holds `words`.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, words: &[&str]) {
        assert_eq!(self.status, status, "{self:?}");
        let body = self.json();
        assert_eq!(body["code"], status, "{self:?}");
        let message = body["message"].as_str().expect("a message");
        for word in words {
            assert!(message.contains(word), "{message:?} lacks {word:?}");
        }
    }
}

/// A running node.
pub(crate) struct Rig {
    pub(crate) machine: Arc<FakeMachine>,
    pub(crate) address: SocketAddr,
    pub(crate) key: String,
    pub(crate) dir: Arc<TempDir>,
    pub(crate) http: Client<HttpConnector, Body>,
    node: Node,
    stop: CancellationToken,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| ()).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut NodeConfig)) -> Self {
        let dir = Arc::new(tempfile::tempdir().expect("a directory"));
        let machine = FakeMachine::new(dir.path().to_owned());
        let templates = FakeTemplates::with(&[("base", "tbase"), ("py", "tpython")]);
        Self::on(dir, machine, templates, change).await
    }

    pub(crate) fn config(dir: &TempDir) -> NodeConfig {
        let mut config = NodeConfig::new(dir.path().join("data"), dir.path().join("run"));
        config.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        config.pool_low = 2;
        config.pool_high = 4;
        config
    }

    pub(crate) async fn on(
        dir: Arc<TempDir>,
        machine: Arc<FakeMachine>,
        templates: Arc<FakeTemplates>,
        change: impl FnOnce(&mut NodeConfig),
    ) -> Self {
        let mut config = Self::config(&dir);
        change(&mut config);
        let stop = CancellationToken::new();
        let node = Node::start(config, machine.clone(), templates, stop.clone())
            .await
            .expect("the node starts");
        let key = std::fs::read_to_string(dir.path().join("data/api-key")).expect("a key");
        Self {
            machine,
            address: node.local_addr(),
            key: key.trim().to_owned(),
            dir,
            http: Client::builder(TokioExecutor::new()).build_http(),
            node,
            stop,
        }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> http::request::Builder {
        let url = format!("http://{}{path}", self.address);
        Request::builder()
            .method(method)
            .uri(url)
            .header("x-api-key", &self.key)
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Response<Incoming> {
        let sent = tokio::time::timeout(PATIENCE, self.http.request(request));
        sent.await.expect("in time").expect("an answer")
    }

    pub(crate) async fn read(&self, request: Request<Body>) -> Reply {
        let (head, body) = self.send(request).await.into_parts();
        let bytes = body.collect().await.expect("a whole body").to_bytes();
        Reply {
            status: head.status.as_u16(),
            headers: head.headers,
            text: String::from_utf8(bytes.to_vec()).expect("text"),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.read(
            self.request(Method::GET, path)
                .body(Body::empty())
                .expect("request"),
        )
        .await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.read(
            self.request(Method::DELETE, path)
                .body(Body::empty())
                .expect("request"),
        )
        .await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        self.post_text(path, &body.to_string()).await
    }

    pub(crate) async fn post_text(&self, path: &str, body: &str) -> Reply {
        let body = Body::from(body.to_owned());
        self.read(
            self.request(Method::POST, path)
                .body(body)
                .expect("request"),
        )
        .await
    }

    /// Creates a sandbox from `base`; returns the reply.
    pub(crate) async fn create(&self, more: Value) -> Value {
        let mut body = json!({"templateID": "base"});
        if let (Some(body), Some(more)) = (body.as_object_mut(), more.as_object()) {
            body.extend(more.clone());
        }
        let reply = self.post("/v2/sandboxes", body).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.json()
    }

    pub(crate) async fn create_id(&self) -> String {
        id(&self.create(json!({})).await)
    }

    /// A request to `port` of a sandbox, with its token.
    pub(crate) fn data(
        &self,
        method: Method,
        sandbox: &Value,
        port: u16,
        path: &str,
    ) -> http::request::Builder {
        Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header("e2b-sandbox-id", id(sandbox))
            .header("e2b-sandbox-port", port)
            .header(
                "x-access-token",
                sandbox["envdAccessToken"].as_str().expect("a token"),
            )
    }

    pub(crate) async fn data_get(&self, sandbox: &Value, port: u16, path: &str) -> Reply {
        let request = self.data(Method::GET, sandbox, port, path);
        self.read(request.body(Body::empty()).expect("request"))
            .await
    }

    /// What Warren knows of a sandbox.
    pub(crate) async fn inspect(&self, id: &str) -> Value {
        let reply = self.get(&format!("/warren/v1/sandboxes/{id}")).await;
        assert_eq!(reply.status, StatusCode::OK.as_u16(), "{reply:?}");
        reply.json()
    }

    /// Waits until the sandbox is dead and returns its cause.
    pub(crate) async fn cause(&self, id: &str) -> String {
        until(async || {
            let seen = self.inspect(id).await;
            let dead = seen["state"] == "dead";
            dead.then(|| seen["cause"].as_str().expect("a cause").to_owned())
        })
        .await
    }

    /// Stops the node and waits.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.node.wait())
            .await
            .expect("stops in time");
    }
}

pub(crate) fn id(sandbox: &Value) -> String {
    sandbox["sandboxID"].as_str().expect("an id").to_owned()
}

/// Asks again and again until there is an answer.
pub(crate) async fn until<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking)
        .await
        .expect("it happens in time")
}
