//! A real registry on this machine, filled by skopeo.

use crate::fixture::{Layout, Pack, Room, put, tar_of};
use layers::{Credentials, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Password `secret` of `me`; bcrypt, the only kind that the registry takes.
const HTPASSWD: &str = "me:$2y$05$ji5Y577YF3eG0IjTixL9DuNY74eM7Mf/D5IX/LzKYahr9i6SW7gbm\n";

struct Registry {
    process: Child,
    port: u16,
}

impl Drop for Registry {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Registry {
    /// `None`, said aloud, if the programs are not installed.
    #[expect(clippy::print_stderr, reason = "a skip is said aloud")]
    fn start(room: &Room, auth: bool) -> Option<Self> {
        for program in ["docker-registry", "skopeo"] {
            if Command::new(program).arg("--version").output().is_err() {
                eprintln!("SKIPPED: {program} is not installed");
                return None;
            }
        }
        let free = TcpListener::bind("127.0.0.1:0").expect("binds");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        let root = room.path("registry");
        put(&room.path("htpasswd"), HTPASSWD.as_bytes());
        let mut config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
             http: {{addr: '127.0.0.1:{port}'}}\n",
            root.display()
        );
        if auth {
            let path = room.path("htpasswd");
            config += &format!(
                "auth: {{htpasswd: {{realm: test, path: {}}}}}\n",
                path.display()
            );
        }
        let path = room.path("registry.yml");
        put(&path, config.as_bytes());
        let mut command = Command::new("docker-registry");
        command
            .arg("serve")
            .arg(path)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let registry = Self {
            process: command.spawn().expect("starts"),
            port,
        };
        let limit = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < limit, "the registry does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(registry)
    }

    fn reference(&self) -> String {
        format!("docker://127.0.0.1:{}/team/app:v1", self.port)
    }

    fn push(&self, layout: &Layout, credentials: &[&str]) {
        let mut skopeo = Command::new("skopeo");
        skopeo
            .args(["copy", "--insecure-policy", "--dest-tls-verify=false"])
            .args(credentials);
        let out = skopeo
            .arg(format!("{}:v1", layout.source()))
            .arg(self.reference())
            .output();
        let out = out.expect("runs");
        assert!(out.status.success(), "{out:?}");
    }
}

fn layout(room: &Room) -> Layout {
    let layout = Layout::new(&room.path("image"));
    let layers: Vec<_> = (0..6)
        .map(|i| {
            (
                Pack::Gzip,
                tar_of(&[(&format!("f{i}"), &"x".repeat(300_000))]),
            )
        })
        .collect();
    let image = layout.image(&layers);
    layout.tagged("v1", image)
}

#[test]
fn an_image_is_pulled_from_a_registry_and_tampering_is_found() {
    let room = Room::new();
    let Some(registry) = Registry::start(&room, false) else {
        return;
    };
    let layout = layout(&room);
    registry.push(&layout, &[]);
    let pulled = room.import(&registry.reference()).expect("pulls");
    let copied = room.import(&layout.source()).expect("imports");
    assert_eq!(
        (&pulled.layers, pulled.manifest_digest),
        (&copied.layers, copied.manifest_digest)
    );
    assert_eq!(room.paths(&pulled.layers[5]), ["", "f5"]);

    let missing = registry.reference().replace("v1", "v2");
    let error = room.import(&missing).expect_err("no such tag");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}");
    assert!(error.to_string().contains("team/app:v2"), "{error}");

    let fresh = Room::new();
    let blobs = room.path("registry/docker/registry/v2/blobs/sha256");
    let victim = crate::fixture::sha256(&crate::fixture::pack(
        Pack::Gzip,
        &tar_of(&[("f0", &"x".repeat(300_000))]),
    ));
    let hex = victim.trim_start_matches("sha256:");
    let path = blobs.join(&hex[..2]).join(hex).join("data");
    let length = usize::try_from(std::fs::metadata(&path).expect("is there").len()).expect("small");
    put(&path, &vec![b'z'; length]);
    let error = fresh
        .import(&registry.reference())
        .expect_err("was tampered with");
    assert!(error.to_string().contains(&victim), "{error}");
    assert!(
        error
            .to_string()
            .contains(&crate::fixture::sha256(&vec![b'z'; length])),
        "{error}"
    );
}

#[test]
fn a_registry_with_a_password_opens_to_the_right_one_only() {
    let room = Room::new();
    let Some(registry) = Registry::start(&room, true) else {
        return;
    };
    registry.push(&layout(&room), &["--dest-creds", "me:secret"]);
    let basic = |password: &str| Credentials::Basic {
        username: "me".into(),
        password: password.into(),
    };
    for wrong in [Credentials::Anonymous, basic("wrong")] {
        let error = room
            .import_with(&registry.reference(), wrong, &|_| ())
            .expect_err("is closed");
        assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    }
    let image = room
        .import_with(&registry.reference(), basic("secret"), &|_| ())
        .expect("opens");
    assert_eq!(image.layers.len(), 6);
}

#[test]
fn a_registry_that_does_not_answer_is_unavailable_and_named() {
    let free = TcpListener::bind("127.0.0.1:0").expect("binds");
    let port = free.local_addr().expect("bound").port();
    drop(free);
    let error = Room::new()
        .import(&format!("127.0.0.1:{port}/x"))
        .expect_err("nobody there");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.is_retryable());
    assert!(
        error
            .to_string()
            .contains(&format!("127.0.0.1:{port}/x:latest")),
        "{error}"
    );
}
