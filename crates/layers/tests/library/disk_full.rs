//! A full disk: told with its directory, nothing half-made. In a namespace of its own, without privileges.

use crate::fixture::{Layout, Pack, Room, tar_of};
use layers::{Credentials, ErrorKind, ImportRequest, Library};
use std::path::PathBuf;
use std::process::Command;

const DIRECTORY: &str = "WARREN_TEST_SMALL_DISK";
const NAME: &str = "disk_full::a_full_disk_is_told_and_nothing_half_made_is_left";

#[test]
fn a_full_disk_is_told_and_nothing_half_made_is_left() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return on_the_small_disk(PathBuf::from(directory));
    }
    let probe = Command::new("unshare").args(["-rm", "true"]).output();
    if !probe.is_ok_and(|o| o.status.success()) {
        eprintln!("SKIPPED: unshare cannot make a user and mount namespace here");
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    let script =
        format!("mount -t tmpfs -o size=2m tmpfs \"${DIRECTORY}\" && exec \"$0\" --exact {NAME}");
    let test = std::env::current_exe().expect("known");
    let mut inner = Command::new("unshare");
    inner
        .args(["-rm", "sh", "-c", &script])
        .arg(test)
        .env(DIRECTORY, dir.path());
    let out = inner.output().expect("runs");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && text.contains("1 passed"), "{out:?}");
}

fn on_the_small_disk(directory: PathBuf) {
    let room = Room::new();
    let mut noise = 1u32;
    let text: String = (0..6_000_000)
        .map(|_| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b'a' + u8::try_from(noise >> 28).expect("4 bits"))
        })
        .collect();
    let layout = Layout::new(&room.path("image"));
    let image = layout.image(&[(Pack::Zstd, tar_of(&[("big", &text)]))]);
    let source = layout
        .tagged("v1", image)
        .source()
        .parse()
        .expect("well formed");
    let library = Library::open(&directory.join("data")).expect("opens");
    let request = ImportRequest {
        source,
        credentials: Credentials::Anonymous,
    };
    let error = library.import(&request, &|_| ()).expect_err("does not fit");
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    let cache = directory.join("data/cache");
    assert!(
        error.to_string().contains(&cache.display().to_string()),
        "{error}"
    );
    assert_eq!(std::fs::read_dir(cache).expect("lists").count(), 0);
    assert_eq!(
        std::fs::read_dir(directory.join("data/catalog/oci"))
            .expect("lists")
            .count(),
        0
    );
}
