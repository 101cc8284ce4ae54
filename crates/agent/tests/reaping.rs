//! As PID 1 would: orphans are adopted and collected. Alone in its process, because it collects all.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "envd/client.rs"]
#[expect(dead_code, reason = "shared with the other tests")]
mod client;

use agent::{Cgroups, Config, Reaping, serve};
use std::os::unix::net::UnixListener;
use std::time::Duration;

#[tokio::test]
async fn orphans_do_not_stay_as_zombies() {
    // P32
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("agent.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let config = Config {
        sandbox_id: "itest".into(),
        template_id: "template".into(),
        init: client::own_user(),
        cgroups: Cgroups::default(),
        reaping: Reaping::All,
        first: None,
    };
    tokio::spawn(async move { serve(listener, config).await.unwrap() });
    let server = client::Server::connect(directory).await;
    let script = "for i in $(seq 300); do (sleep 0.01 &); done; echo made; sleep 0.2";
    let outcome = server.run(script).await;
    assert_eq!(
        (outcome.text().as_str(), outcome.exit_code()),
        ("made\n", 0)
    );
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(children(), 0, "orphans were adopted by us and collected");
}

fn children() -> usize {
    let own = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    let parents = stats.filter_map(|stat| {
        Some(
            stat.rsplit_once(')')?
                .1
                .split_whitespace()
                .nth(1)?
                .to_owned(),
        )
    });
    parents.filter(|parent| *parent == own).count()
}
