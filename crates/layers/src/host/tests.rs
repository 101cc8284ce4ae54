//! The layer of `host` from a made-up root, and from this machine's.

use super::*;
use erofs::{FileKind, Image, Limits};
use std::fs;
use std::os::unix::fs::symlink;

fn machine() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("dir");
    let root = dir.path();
    for path in [
        "usr/bin",
        "usr/lib",
        "usr/share/ca-certificates/own",
        "etc/alternatives",
        "root",
        "home/me",
    ] {
        fs::create_dir_all(root.join(path)).expect("makes");
    }
    for (name, target) in [
        ("bin", "usr/bin"),
        ("sbin", "/usr/sbin"),
        ("lib", "usr/lib"),
    ] {
        symlink(target, root.join(name)).expect("links");
    }
    for (name, target) in [
        ("vi", "/etc/alternatives/vi"),
        ("x", "/etc/alternatives/secret"),
    ] {
        symlink(target, root.join("usr/bin").join(name)).expect("links");
    }
    symlink("/usr/bin/vim", root.join("etc/alternatives/vi")).expect("links");
    symlink("/root/key", root.join("etc/alternatives/secret")).expect("links");
    let put = |path: &str, text: &str| {
        let mut file = fs::File::create(root.join(path)).expect("makes");
        std::io::Write::write_all(&mut file, text.as_bytes()).expect("writes");
    };
    put("usr/share/ca-certificates/own/b.crt", "CERT B");
    put("usr/share/ca-certificates/own/a.crt", "CERT A\n");
    put("usr/lib/os-release", "NAME=x\n");
    put("etc/passwd", "SECRET");
    put("root/key", "SECRET");
    put("home/me/diary", "SECRET");
    dir
}

fn image(tar: &[u8]) -> Image<Cursor<Vec<u8>>> {
    let mut out = Cursor::new(Vec::new());
    erofs::convert(tar, Cursor::new(Vec::new()), &mut out, &Limits::default()).expect("converts");
    Image::open(out).expect("opens")
}

#[test]
fn the_layer_takes_names_of_the_machine_and_none_of_its_files() {
    let machine = machine();
    let tar = layer_tar(machine.path()).expect("is merged");
    assert_eq!(tar, layer_tar(machine.path()).expect("is merged"));
    assert!(!tar.windows(6).any(|w| w == b"SECRET"));
    let mut image = image(&tar);
    let mut inode = |path: &str| image.lookup(path.as_bytes()).expect("reads");
    let user = inode("home/user").expect("is there");
    assert_eq!((user.uid, user.gid, user.mode), (1000, 1000, 0o755));
    assert_eq!(inode("etc/sudoers").expect("is there").mode, 0o440);
    assert_eq!(inode("tmp").expect("is there").mode, 0o1777);
    assert_eq!(inode("root").expect("is there").mode, 0o700);
    assert_eq!(inode("etc/alternatives/secret"), None);
    assert_eq!(inode("home/me"), None);
    let mut text = |path: &str| {
        let inode = image
            .lookup(path.as_bytes())
            .expect("reads")
            .expect("is there");
        let bytes = match inode.kind {
            FileKind::Symlink => image.read_link(&inode),
            _ => image.read_file(&inode, 1 << 20),
        };
        String::from_utf8(bytes.expect("reads")).expect("text")
    };
    assert_eq!(text("sbin"), "usr/sbin");
    assert_eq!(text("etc/alternatives/vi"), "/usr/bin/vim");
    assert_eq!(
        text("etc/ssl/certs/ca-certificates.crt"),
        "CERT A\nCERT B\n"
    );
    assert_eq!(text("etc/os-release"), "../usr/lib/os-release");
    assert!(text("etc/passwd").contains("user:x:1000:1000:user:/home/user:/bin/bash\n"));
    assert!(text("etc/group").contains("sudo:x:27:user\n"));
    assert!(
        text("etc/shadow")
            .lines()
            .all(|l| l.split(':').nth(1) == Some("*"))
    );
}

#[test]
fn a_machine_without_merged_usr_is_refused_with_the_reason() {
    let machine = machine();
    fs::remove_file(machine.path().join("bin")).expect("removes");
    fs::create_dir(machine.path().join("bin")).expect("makes");
    let error = layer_tar(machine.path())
        .expect_err("not merged")
        .to_string();
    assert!(error.contains("/bin is not a link into usr"), "{error}");
}
