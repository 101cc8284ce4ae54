//! Filesystem calls.

use crate::client::Server;
use api::envd::Code;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

async fn call(server: &Server, method: &str, message: Value) -> Result<Value, Code> {
    let path = format!("filesystem.Filesystem/{method}");
    server
        .call(&path, message)
        .await
        .map_err(|error| error.code)
}

#[tokio::test]
async fn a_directory_is_made_with_its_parents_and_once() {
    let server = Server::start().await;
    let path = server.path("a/b/c");
    let made = call(&server, "MakeDir", json!({"path": path}))
        .await
        .unwrap();
    assert_eq!(made["entry"]["type"], "FILE_TYPE_DIRECTORY");
    assert_eq!(made["entry"]["path"], path);
    assert_eq!(made["entry"]["permissions"], "drwxr-xr-x");
    let again = call(&server, "MakeDir", json!({"path": path})).await;
    assert_eq!(again, Err(Code::AlreadyExists));
    let file = server.path("file");
    fs::File::create(&file).unwrap();
    let on_file = call(&server, "MakeDir", json!({"path": file})).await;
    assert_eq!(on_file, Err(Code::InvalidArgument));
    let below_file = call(&server, "MakeDir", json!({"path": format!("{file}/x")})).await;
    assert_eq!(below_file, Err(Code::InvalidArgument));
}

#[tokio::test]
async fn missing_paths_and_wrong_kinds_are_told_apart() {
    // P41
    let server = Server::start().await;
    let nope = json!({"path": "/nope"});
    assert_eq!(
        call(&server, "Stat", nope.clone()).await,
        Err(Code::NotFound)
    );
    assert_eq!(
        call(&server, "ListDir", nope.clone()).await,
        Err(Code::NotFound)
    );
    let moved = json!({"source": "/nope", "destination": server.path("x/y")});
    assert_eq!(call(&server, "Move", moved).await, Err(Code::NotFound));
    assert!(
        !server.directory.path().join("x").exists(),
        "nothing is made for it"
    );
    assert_eq!(call(&server, "Remove", nope).await, Ok(json!({})));
    let file = json!({"path": "/etc/passwd"});
    assert_eq!(
        call(&server, "ListDir", file).await,
        Err(Code::InvalidArgument)
    );
    let circle = server.path("circle");
    symlink(&circle, &circle).unwrap();
    let circle = json!({"path": circle});
    assert_eq!(
        call(&server, "ListDir", circle).await,
        Err(Code::FailedPrecondition)
    );
    assert_eq!(
        call(&server, "Remove", json!({"path": "/"})).await,
        Err(Code::InvalidArgument)
    );
    let other_home = json!({"path": "~root/x"});
    assert_eq!(
        call(&server, "Stat", other_home).await,
        Err(Code::InvalidArgument)
    );
}

#[tokio::test]
async fn a_link_is_described_by_what_it_leads_to() {
    let server = Server::start().await;
    let (file, link) = (server.path("file"), server.path("link"));
    fs::copy("/etc/passwd", &file).unwrap();
    symlink("file", &link).unwrap();
    symlink("nowhere", server.path("dangling")).unwrap();
    let entry = call(&server, "Stat", json!({"path": link})).await.unwrap()["entry"].take();
    assert_eq!(entry["type"], "FILE_TYPE_FILE");
    assert_eq!(entry["permissions"], "Lrwxrwxrwx");
    assert_eq!(entry["isSymlink"], true);
    let resolved = fs::canonicalize(&file).unwrap();
    assert_eq!(entry["symlinkTarget"], resolved.to_str().unwrap());
    assert_eq!(entry["mode"], 0o644);
    let entry = call(&server, "Stat", json!({"path": file})).await.unwrap()["entry"].take();
    let size = fs::metadata("/etc/passwd").unwrap().len();
    assert_eq!(
        entry["size"],
        size.to_string(),
        "64-bit numbers travel as strings"
    );
    assert!(entry.get("isSymlink").is_none());
    assert!(entry["modifiedTime"].as_str().unwrap().ends_with('Z'));
    let dangling = json!({"path": server.path("dangling")});
    let entry = call(&server, "Stat", dangling).await.unwrap()["entry"].take();
    assert!(entry.get("type").is_none());
}

#[tokio::test]
async fn a_tree_is_listed_by_name_to_the_depth_asked_for() {
    let server = Server::start().await;
    fs::create_dir_all(server.path("top/b/deep/deeper")).unwrap();
    fs::File::create(server.path("top/a")).unwrap();
    symlink("top", server.path("link")).unwrap();
    let paths = async |message: Value| {
        let listed = call(&server, "ListDir", message).await.unwrap();
        let entries = listed["entries"].as_array().unwrap().clone();
        entries
            .iter()
            .map(|entry| entry["path"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let top = server.path("top");
    let below = |names: &[&str]| {
        names
            .iter()
            .map(|n| format!("{top}/{n}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(paths(json!({"path": top})).await, below(&["a", "b"]));
    assert_eq!(
        paths(json!({"path": top, "depth": 2})).await,
        below(&["a", "b", "b/deep"])
    );
    let through = server.path("link");
    let expected = [format!("{through}/a"), format!("{through}/b")];
    assert_eq!(
        paths(json!({"path": through})).await,
        expected,
        "as asked for, not resolved"
    );
}

#[tokio::test]
async fn moving_makes_parents_and_removing_takes_all() {
    let server = Server::start().await;
    fs::create_dir(server.path("old")).unwrap();
    fs::File::create(server.path("old/file")).unwrap();
    let destination = server.path("new/parents/here");
    let message = json!({"source": server.path("old"), "destination": destination});
    let moved = call(&server, "Move", message).await.unwrap();
    assert_eq!(moved["entry"]["name"], "here");
    assert!(fs::exists(format!("{destination}/file")).unwrap());
    assert!(!fs::exists(server.path("old")).unwrap());
    for _ in 0..2 {
        let removed = call(&server, "Remove", json!({"path": server.path("new")})).await;
        assert_eq!(removed, Ok(json!({})), "also when it is not there");
    }
    assert!(!fs::exists(server.path("new")).unwrap());
}
