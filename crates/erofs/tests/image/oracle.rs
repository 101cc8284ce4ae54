//! What others say: fsck.erofs about our images, GNU tar's own archives as input.

use crate::fixture::{TarOf, convert_bytes, files};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::Command;
use tar::EntryType;

/// Whether the program is here; says aloud when a test is skipped.
#[expect(clippy::print_stderr, reason = "a skip is said aloud")]
fn have(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok()
        || Command::new(program).arg("-V").output().is_ok();
    if !found {
        eprintln!("SKIPPED: {program} is not installed");
    }
    found
}

fn fsck(tar: &[u8]) {
    let image = convert_bytes(tar).expect("converts").0;
    let mut file = tempfile::NamedTempFile::new().expect("temporary file");
    file.write_all(&image).expect("writes");
    let out = Command::new("fsck.erofs")
        .arg("--extract")
        .arg(file.path())
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{text}");
    assert!(!text.contains("<E>"), "{text}");
}

#[test]
fn fsck_erofs_accepts_every_kind_of_content() {
    if !have("fsck.erofs") {
        return;
    }
    let mut tar = TarOf::new()
        .directory("d")
        .file("d/empty", b"")
        .file("d/small", b"1")
        .file("d/block", &[1; 4096])
        .file("d/more", &[2; 10_000])
        .file(
            "d/holes",
            &[vec![0; 1 << 17], vec![1; 70_001], vec![0; 1 << 18]].concat(),
        )
        .file("d/all-hole", &vec![0; 1 << 20])
        .link(EntryType::Symlink, "d/link", &"t/".repeat(1000))
        .link(EntryType::Link, "hard", "d/more")
        .file(".wh.gone", b"")
        .file("d/.wh..wh..opq", b"")
        .pax(&[("SCHILY.xattr.user.big", &[b'v'; 9000])])
        .file("d/attributes", b"1")
        .pax(&[
            ("SCHILY.xattr.user.a", b"1"),
            ("SCHILY.xattr.security.b", b"2"),
        ])
        .directory("d/with-attributes");
    for i in 0..3000 {
        tar = tar.file(&format!("many/{i}-{}", "y".repeat(i % 200)), b"");
    }
    fsck(&tar.finish());
    fsck(&TarOf::new().finish());
}

#[test]
fn gnu_tars_sparse_formats_are_read() {
    if !have("tar") {
        return;
    }
    let dir = tempfile::tempdir().expect("temporary directory");
    let file = File::create(dir.path().join("sparse")).expect("creates");
    file.set_len(600_000_000).expect("grows");
    for i in 0..40u64 {
        file.write_all_at(&[7; 5000], i * 12_000_000)
            .expect("writes");
    }
    for format in [
        &["--format=gnu"][..],
        &["--sparse-version=0.0"],
        &["--sparse-version=0.1"],
        &["--sparse-version=1.0"],
    ] {
        let mut tar = Command::new("tar");
        tar.arg("-C")
            .arg(dir.path())
            .args(["-cS", "--hole-detection=raw"])
            .args(format);
        let out = tar.arg("sparse").output().expect("runs");
        assert!(out.status.success(), "{out:?}");
        assert!(out.stdout.len() < 2_000_000, "{format:?} is not sparse");
        let (image, summary) = convert_bytes(&out.stdout).expect("converts");
        assert!(
            summary.data_bytes < 2_000_000 && image.len() < 20 << 20,
            "{format:?}"
        );
        let seen = &files(&out.stdout)["sparse"];
        assert_eq!(seen.content.len(), 600_000_000);
        for i in 0..40 {
            let at = i * 12_000_000;
            assert_eq!(
                (
                    seen.content[at],
                    seen.content[at + 4999],
                    seen.content[at + 5000]
                ),
                (7, 7, 0)
            );
        }
    }
}
