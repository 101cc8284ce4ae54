//! Input that is broken or means harm: always an error, never a panic, never much memory.

use crate::fixture::{TarOf, convert_bytes, header, read_back, refusal};
use erofs::{FileKind, Image, Limits, convert};
use proptest::prelude::*;
use std::io::{self, Cursor, Read};
use tar::EntryType;

fn sample() -> Vec<u8> {
    TarOf::new()
        .directory("a")
        .pax(&[("SCHILY.xattr.user.k", b"v"), ("mtime", b"5.5")])
        .file("a/file", &[7; 5000])
        .link(EntryType::Symlink, "a/link", "file")
        .link(EntryType::Link, "a/hard", "a/file")
        .file(&"n".repeat(150), b"long")
        .finish()
}

#[test]
fn a_tar_cut_inside_an_entry_is_truncated() {
    let tar = sample();
    for at in [100, 600, 3000, 5000] {
        let text = refusal(&tar[..at]);
        assert!(text.contains("cut off at byte"), "{at}: {text}");
    }
}

#[test]
fn a_stream_that_ends_without_end_marker_is_whole() {
    let tar = TarOf::new().file("a", b"1").finish();
    let (image, _) = convert_bytes(&tar[..1024]).expect("converts");
    assert_eq!(read_back(&image)["a"].content, b"1");
    assert_eq!(read_back(&convert_bytes(b"").expect("converts").0).len(), 1);
}

#[test]
fn what_is_no_tar_says_so() {
    assert!(refusal(&[b'x'; 2048]).contains("checksum"));
    let mut odd = header(EntryType::Regular, 0);
    odd.set_entry_type(EntryType::new(b'Z'));
    assert!(refusal(&TarOf::new().raw(b"f", odd, b"").finish()).contains("unknown type 'Z'"));
}

#[test]
fn a_huge_claimed_size_costs_nothing() {
    let mut lying = header(EntryType::Regular, 0);
    lying.set_size(1 << 50);
    assert!(refusal(&TarOf::new().raw(b"f", lying, b"").finish()).contains("cut off"));
    let mut name = header(EntryType::GNULongName, 0);
    name.set_size(1 << 40);
    assert!(refusal(&TarOf::new().raw(b"f", name, b"").finish()).contains("too long"));
    let sizes = TarOf::new()
        .pax(&[("size", b"18446744073709551615")])
        .file("f", b"");
    assert!(refusal(&sizes.finish()).contains("impossible size"));
}

#[test]
fn limits_are_named() {
    let run = |limits: Limits| {
        let tar = sample();
        let out = Cursor::new(Vec::new());
        let error = convert(&tar[..], Cursor::new(Vec::new()), out, &limits);
        error.expect_err("over the limit").to_string()
    };
    let limits = Limits {
        inodes_max: 3,
        ..Limits::default()
    };
    assert_eq!(run(limits), "the layer has more than 3 files");
    let limits = Limits {
        metadata_bytes_max: 600,
        ..Limits::default()
    };
    assert_eq!(run(limits), "the layer has more than 600 bytes of metadata");
    let limits = Limits {
        data_bytes_max: 100,
        ..Limits::default()
    };
    assert_eq!(
        run(limits),
        "the layer has more than 100 bytes of file data"
    );
    let limits = Limits {
        xattr_value_bytes_max: 0,
        ..Limits::default()
    };
    assert!(run(limits).contains("\"user.k\", which is too large"));
}

#[test]
fn a_failing_source_and_a_full_disk_are_not_the_inputs_fault() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::from(io::ErrorKind::ConnectionReset))
        }
    }
    let limits = Limits::default();
    let memory = || Cursor::new(Vec::new());
    let error = convert(Failing, memory(), memory(), &limits).expect_err("no source");
    assert!(!error.is_bad_input());
    let mut small = [0; 100];
    let tar = sample();
    let error = convert(&tar[..], memory(), Cursor::new(&mut small[..]), &limits);
    let error = error.expect_err("no space");
    assert!(
        !error.is_bad_input() && error.to_string() == "write the image",
        "{error}"
    );
}

/// Reads everything an image offers; what matters is that it returns.
fn explore(image: &[u8]) {
    let Ok(mut reader) = Image::open(Cursor::new(image)) else {
        return;
    };
    let mut all = Vec::new();
    drop(reader.walk(|_, inode| all.push(inode.clone())));
    for inode in all {
        drop(reader.xattrs(&inode));
        match inode.kind {
            FileKind::Directory => drop(reader.read_dir(&inode)),
            _ => drop(reader.read_file(&inode, 1 << 20)),
        }
    }
    drop(reader.lookup(b"a/file"));
}

proptest! {
    #[test]
    fn a_damaged_tar_never_panics(at in 0usize..8192, byte: u8, cut in 0usize..16384) {
        let mut tar = sample();
        let at = at % tar.len();
        tar[at] = byte;
        tar.truncate(cut.max(512));
        let header = at / 512 * 512;
        if tar.len() >= header + 512 {
            let record: &mut [u8] = &mut tar[header..header + 512];
            let sum: u32 = record.iter().enumerate()
                .map(|(i, b)| if (148..156).contains(&i) { 32 } else { u32::from(*b) }).sum();
            record[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
        if let Ok((image, _)) = convert_bytes(&tar) {
            explore(&image);
        }
    }

    #[test]
    fn a_damaged_image_never_panics(
        spots in proptest::collection::vec((1024usize..16384, any::<u8>()), 1..8),
    ) {
        let mut image = convert_bytes(&sample()).expect("converts").0;
        for (at, byte) in spots {
            let at = at % image.len();
            image[at] = byte;
        }
        image[1024 + 8] &= !1; // Without checksum, so that the damage is reached.
        explore(&image);
    }

    #[test]
    fn random_bytes_are_neither_tar_nor_image(bytes in proptest::collection::vec(any::<u8>(), 1..9000)) {
        drop(convert_bytes(&bytes));
        explore(&bytes);
    }
}
