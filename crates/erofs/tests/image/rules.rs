//! The rules of tar and OCI layers, one by one.

use crate::fixture::{TarOf, convert_bytes, files, header, read_back, refusal};
use erofs::{FileKind, Image, layer_digest};
use std::io::Cursor;
use tar::EntryType;

#[test]
fn the_same_tar_gives_the_same_bytes_for_ever() {
    let tar = TarOf::new()
        .directory("etc/")
        .file("etc/passwd", b"root:x:0:0::/root:/bin/sh\n")
        .link(EntryType::Symlink, "bin", "usr/bin")
        .file("etc/.wh.gone", b"")
        .finish();
    let (first, _) = convert_bytes(&tar).expect("converts");
    let (second, _) = convert_bytes(&tar).expect("converts");
    assert_eq!(first, second);
    // A change of this value changes the identity of every stored layer.
    let digest = layer_digest(&first[..]).expect("in memory");
    let hex: String = digest.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(hex, GOLDEN);
}

const GOLDEN: &str = "92e1d6c6fc358c0fb068ae203c4529ae07eb817b5229b0b54284548bec2f471d";

#[test]
fn data_lies_in_path_order_whatever_the_order_of_the_tar() {
    let forward = TarOf::new()
        .directory("d")
        .file("a", b"1")
        .file("d/b", b"2");
    let backward = TarOf::new()
        .file("d/b", b"2")
        .directory("d")
        .file("a", b"1");
    let forward = convert_bytes(&forward.finish()).expect("converts").0;
    let backward = convert_bytes(&backward.finish()).expect("converts").0;
    assert_eq!(forward, backward);
}

#[test]
fn a_later_entry_replaces_an_earlier_one_of_the_same_path() {
    let tar = TarOf::new()
        .file("a", b"old")
        .file("b", b"file")
        .directory("c")
        .file("c/x", b"x")
        .file("d/inner", b"kept")
        .file("./a", b"new")
        .directory("b/")
        .file("c", b"now a file")
        .directory("d")
        .finish();
    let files = files(&tar);
    assert_eq!(files["a"].content, b"new");
    assert_eq!(files["b"].inode.kind, FileKind::Directory);
    assert_eq!(files["c"].content, b"now a file");
    assert!(!files.contains_key("c/x"));
    assert_eq!(files["d/inner"].content, b"kept");
    assert_eq!(files["d"].inode.mtime, 1_000_000_000);
}

#[test]
fn whiteouts_become_devices_and_opaque_directories_carry_both_marks() {
    let tar = TarOf::new()
        .file("etc/.wh.shadow", b"")
        .directory("var")
        .file("var/.wh..wh..opq", b"")
        .file("var/kept", b"1")
        .file(".wh..wh.plnk/1.2", b"aufs")
        .finish();
    let files = files(&tar);
    assert!(files["etc/shadow"].inode.is_whiteout());
    assert_eq!(files["etc/shadow"].inode.mode, 0);
    assert!(files["var"].is_opaque());
    assert!(!files["etc"].is_opaque());
    assert_eq!(files["var/kept"].content, b"1");
    assert_eq!(files.keys().filter(|k| k.contains(".wh.")).count(), 0);
}

#[test]
fn p51_a_directory_removed_and_made_again_in_one_layer_hides_what_was_below() {
    let removed_first = TarOf::new()
        .file(".wh.d", b"")
        .directory("d")
        .directory("d/e");
    let removed_last = TarOf::new()
        .directory("d")
        .directory("d/e")
        .file(".wh.d", b"");
    let no_entry = TarOf::new().file(".wh.d", b"").directory("d/e");
    for tar in [removed_first, removed_last, no_entry] {
        let files = files(&tar.finish());
        assert!(files["d"].is_opaque());
        assert_eq!(files["d/e"].inode.kind, FileKind::Directory);
    }
}

#[test]
fn a_whiteout_never_removes_a_file_of_its_own_layer() {
    for tar in [
        TarOf::new().file("a", b"1").file(".wh.a", b""),
        TarOf::new().file(".wh.a", b"").file("a", b"1"),
    ] {
        assert_eq!(files(&tar.finish())["a"].content, b"1");
    }
}

#[test]
fn p53_hard_links_share_an_inode_and_count_right() {
    let tar = TarOf::new()
        .file("bin/a", b"elf")
        .link(EntryType::Link, "bin/b", "bin/a")
        .link(EntryType::Link, "c", "./bin/b")
        .link(EntryType::Symlink, "s", "bin/a")
        .link(EntryType::Link, "t", "s")
        .file("bin/a", b"replaced")
        .finish();
    let files = files(&tar);
    assert_eq!(files["bin/b"].inode, files["c"].inode);
    assert_eq!(files["c"].inode.links, 2);
    assert_eq!(files["c"].content, b"elf");
    assert_eq!(files["bin/a"].content, b"replaced");
    assert_eq!(files["s"].inode, files["t"].inode);
    assert_eq!(
        (files["t"].inode.links, &files["t"].content[..]),
        (2, &b"bin/a"[..])
    );
    assert_eq!(files["bin"].inode.links, 2);
    assert_eq!(files[""].inode.links, 3);
}

#[test]
fn a_hard_link_to_what_is_not_in_the_layer_is_refused_by_name() {
    let missing = TarOf::new()
        .link(EntryType::Link, "b", "usr/bin/a")
        .finish();
    let text = refusal(&missing);
    assert!(
        text.contains("\"b\"") && text.contains("\"usr/bin/a\""),
        "{text}"
    );
    let directory = TarOf::new().directory("d").link(EntryType::Link, "b", "d");
    assert!(refusal(&directory.finish()).contains("directory"));
}

#[test]
fn p56_binary_attributes_survive_and_foreign_ones_are_counted() {
    let capability = b"\x01\x00\x00\x02\x00\x20\n\x00=\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";
    let records: [(&str, &[u8]); 5] = [
        ("SCHILY.xattr.security.capability", capability),
        ("SCHILY.xattr.user.empty", b""),
        ("SCHILY.xattr.system.posix_acl_access", b"\x02\x00\x00\x00"),
        ("SCHILY.xattr.com.apple.provenance", b"x"),
        ("mtime", b"1700000000.123456789"),
    ];
    let tar = TarOf::new().pax(&records).file("ping", b"elf").finish();
    let (image, summary) = convert_bytes(&tar).expect("converts");
    let ping = &read_back(&image)["ping"];
    assert_eq!(ping.xattr("security.capability"), Some(&capability[..]));
    assert_eq!(ping.xattr("user.empty"), Some(&b""[..]));
    assert_eq!(ping.xattrs.len(), 3);
    assert_eq!(summary.xattrs_dropped, 1);
    assert_eq!(
        (ping.inode.mtime, ping.inode.mtime_nsec),
        (1_700_000_000, 123_456_789)
    );
}

#[test]
fn attributes_that_steer_the_overlay_are_refused_with_path_and_name() {
    for name in [
        "trusted.overlay.redirect",
        "trusted.x",
        "user.overlay.opaque",
    ] {
        let key = format!("SCHILY.xattr.{name}");
        let tar = TarOf::new().pax(&[(&key, b"y")]).file("etc/evil", b"");
        let text = refusal(&tar.finish());
        assert!(
            text.contains("\"etc/evil\"") && text.contains(name),
            "{text}"
        );
    }
}

#[test]
fn paths_that_leave_the_layer_are_refused_by_name() {
    let raw = |path: &[u8]| {
        let header = header(EntryType::Regular, 0);
        TarOf::new().raw(path, header, b"").finish()
    };
    for path in ["../x", "a/../../x", "a/.."] {
        let text = refusal(&raw(path.as_bytes()));
        assert!(text.contains(&format!("{path:?}")), "{text}");
    }
    assert_eq!(files(&raw(b"/etc/x"))["etc/x"].inode.kind, FileKind::File);
    for bad in [".wh.", ".wh...", "d/.wh..", ".wh.d/x"] {
        assert!(refusal(&raw(bad.as_bytes())).contains("name"), "{bad}");
    }
}

#[test]
fn an_entry_under_a_link_or_a_file_is_refused() {
    let link = TarOf::new()
        .link(EntryType::Symlink, "etc", "/host")
        .file("etc/x/y", b"");
    let text = refusal(&link.finish());
    assert!(
        text.contains("\"etc/x/y\"") && text.contains("non-directory, \"etc\""),
        "{text}"
    );
    let file = TarOf::new().file("a", b"").directory("a/b");
    assert!(refusal(&file.finish()).contains("under a non-directory"));
    let root = TarOf::new().raw(b"./", header(EntryType::Symlink, 0), b"");
    assert!(refusal(&root.finish()).contains("symbolic link"));
    let root = TarOf::new().raw(b"./", header(EntryType::Fifo, 0), b"");
    assert!(refusal(&root.finish()).contains("root"));
}

#[test]
fn long_and_unicode_names_are_kept_and_longer_ones_refused() {
    let name = "ü".repeat(127) + "x";
    let deep = format!("{}/{name}", "d".repeat(200));
    let tar = TarOf::new().file(&deep, b"1").file("a\u{1F980}\n b", b"2");
    let files = files(&tar.finish());
    assert_eq!(files[&deep].content, b"1");
    assert_eq!(files["a\u{1F980}\n b"].content, b"2");
    let pax = TarOf::new()
        .pax(&[("path", "日本/ü".as_bytes())])
        .file("short", b"3");
    assert_eq!(crate::fixture::files(&pax.finish())["日本/ü"].content, b"3");
    let long = TarOf::new().file(&"x".repeat(256), b"");
    assert!(refusal(&long.finish()).contains("name"));
    let deep = TarOf::new().file(&"x/".repeat(2100), b"");
    assert!(refusal(&deep.finish()).contains("longer than 4096"));
}

#[test]
fn devices_pipes_and_special_bits_are_kept() {
    let mut device = header(EntryType::Block, 0);
    device.set_device_major(259).expect("gnu");
    device.set_device_minor(70_000).expect("gnu");
    let mut setuid = header(EntryType::Regular, 2);
    setuid.set_mode(0o104_755);
    setuid.set_uid(65_534);
    setuid.set_gid(3_000_000_000);
    let tar = TarOf::new()
        .raw(b"dev", device, b"")
        .raw(b"pipe", header(EntryType::Fifo, 0), b"")
        .raw(b"su", setuid, b"#!")
        .finish();
    let files = files(&tar);
    let (major, minor) = (259, 70_000u32);
    let wanted = (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12);
    assert_eq!(
        (files["dev"].inode.kind, files["dev"].inode.device),
        (FileKind::BlockDevice, wanted)
    );
    assert_eq!(files["pipe"].inode.kind, FileKind::Fifo);
    let su = &files["su"].inode;
    assert_eq!((su.mode, su.uid, su.gid), (0o4755, 65_534, 3_000_000_000));
}

#[test]
fn directories_without_an_entry_are_reported() {
    let tar = TarOf::new()
        .directory("./")
        .directory("a")
        .file("a/b/c", b"")
        .file("d/e", b"");
    let (image, summary) = convert_bytes(&tar.finish()).expect("converts");
    assert_eq!(summary.implicit_directories, [&b"a/b"[..], b"d"]);
    let dir = &read_back(&image)["d"].inode;
    assert_eq!((dir.mode, dir.uid, dir.mtime), (0o755, 0, 0));
}

#[test]
fn a_directory_of_a_hundred_thousand_names_is_found_by_name() {
    let mut tar = tar::Builder::new(Vec::new());
    for i in 0..100_000 {
        let mut header = header(EntryType::Regular, 0);
        header.set_path(format!("big/entry-{i}")).expect("short");
        header.set_cksum();
        tar.append(&header, &[][..]).expect("in memory");
    }
    let (image, summary) = convert_bytes(&tar.into_inner().expect("in memory")).expect("converts");
    assert_eq!(summary.inodes, 100_002);
    let mut reader = Image::open(Cursor::new(&image)).expect("opens");
    let big = reader.lookup(b"big").expect("reads").expect("is there");
    assert_eq!(reader.read_dir(&big).expect("reads").len(), 100_000);
    let last = reader.lookup(b"/big/entry-99999").expect("reads");
    assert_eq!(last.expect("is there").kind, FileKind::File);
    assert_eq!(reader.lookup(b"big/entry-100000").expect("reads"), None);
}
