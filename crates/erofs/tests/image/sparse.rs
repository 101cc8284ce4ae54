//! Sparse files in all the ways tars write them, and zeros that become holes.

use crate::fixture::{TarOf, convert_bytes, files, header, read_back, refusal};
use erofs::{Image, Limits, convert};
use std::io::{Cursor, Read};
use tar::EntryType;

/// 200,000 bytes with two islands.
fn wanted() -> Vec<u8> {
    let mut bytes = vec![0; 200_000];
    bytes[4096..4096 + 600].fill(1);
    bytes[150_001..150_011].fill(2);
    bytes
}

fn stored() -> Vec<u8> {
    [vec![1; 600], vec![2; 10]].concat()
}

#[test]
fn pax_sparse_formats_0_0_0_1_and_1_0_give_the_same_file() {
    let v00: [(&str, &[u8]); 6] = [
        ("GNU.sparse.size", b"200000"),
        ("GNU.sparse.numblocks", b"2"),
        ("GNU.sparse.offset", b"4096"),
        ("GNU.sparse.numbytes", b"600"),
        ("GNU.sparse.offset", b"150001"),
        ("GNU.sparse.numbytes", b"10"),
    ];
    let v01: [(&str, &[u8]); 3] = [
        ("GNU.sparse.name", b"f"),
        ("GNU.sparse.size", b"200000"),
        ("GNU.sparse.map", b"4096,600,150001,10"),
    ];
    let v10: [(&str, &[u8]); 4] = [
        ("GNU.sparse.major", b"1"),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.name", b"f"),
        ("GNU.sparse.realsize", b"200000"),
    ];
    let mut with_map = b"3\n4096\n600\n150001\n10\n200000\n0\n".to_vec();
    with_map.resize(512, 0);
    with_map.extend(stored());
    let images = [
        TarOf::new().pax(&v00).file("f", &stored()),
        TarOf::new().pax(&v01).file("GNUSparseFile.0/f", &stored()),
        TarOf::new().pax(&v10).file("GNUSparseFile.0/f", &with_map),
    ]
    .map(|tar| convert_bytes(&tar.finish()).expect("converts").0);
    assert!(read_back(&images[0])["f"].content == wanted());
    assert!(images[0] == images[1] && images[1] == images[2]);
}

#[test]
fn old_gnu_sparse_headers_are_followed_through_their_extensions() {
    let mut wanted = vec![0; 40 * 8192];
    let mut data = Vec::new();
    let mut pieces = Vec::new();
    for i in 0..30u8 {
        let at = usize::from(i) * 8192;
        wanted[at..at + 512].fill(i + 1);
        data.extend([i + 1; 512]);
        pieces.push((at, 512));
    }
    let octal = |n: usize| format!("{n:011o}\0").into_bytes();
    let mut head = header(EntryType::GNUSparse, data.len() as u64);
    let bytes = head.as_mut_bytes();
    for (i, (at, length)) in pieces[..4].iter().enumerate() {
        bytes[386 + 24 * i..][..12].copy_from_slice(&octal(*at));
        bytes[398 + 24 * i..][..12].copy_from_slice(&octal(*length));
    }
    bytes[482] = 1;
    bytes[483..495].copy_from_slice(&octal(wanted.len()));
    let mut body = Vec::new();
    for run in pieces[4..].chunks(21) {
        let mut record = [0; 512];
        for (i, (at, length)) in run.iter().enumerate() {
            record[24 * i..][..12].copy_from_slice(&octal(*at));
            record[24 * i + 12..][..12].copy_from_slice(&octal(*length));
        }
        record[504] = u8::from(run.len() == 21);
        body.extend(record);
    }
    body.extend(data);
    let tar = TarOf::new()
        .raw(b"f", head, &body)
        .file("after", b"1")
        .finish();
    let files = files(&tar);
    assert!(files["f"].content == wanted);
    assert_eq!(files["after"].content, b"1");
}

#[test]
fn maps_that_lie_are_refused_by_name() {
    let map = |map: &'static [u8]| {
        let records: [(&str, &[u8]); 2] = [("GNU.sparse.size", b"1000"), ("GNU.sparse.map", map)];
        refusal(&TarOf::new().pax(&records).file("f", &[1; 20]).finish())
    };
    for bad in [
        &b"0,10,5,10"[..],
        b"0,10",
        b"0,10,995,10",
        b"10,10,0,10",
        b"0,10,10",
    ] {
        let text = map(bad);
        assert!(text.contains("\"f\" has a broken sparse map"), "{text}");
    }
}

#[test]
fn a_sparse_file_of_five_gibibytes_costs_kilobytes() {
    let size = (5u64 << 30).to_string();
    let map = format!("0,10,{},10", (5u64 << 30) - 10);
    let records: [(&str, &[u8]); 2] = [
        ("GNU.sparse.size", size.as_bytes()),
        ("GNU.sparse.map", map.as_bytes()),
    ];
    let tar = TarOf::new().pax(&records).file("big", &[9; 20]).finish();
    let (image, summary) = convert_bytes(&tar).expect("converts");
    assert!(image.len() < 2 << 20, "{}", image.len());
    assert_eq!(summary.data_bytes, 20);
    let mut reader = Image::open(Cursor::new(&image)).expect("opens");
    let big = reader.lookup(b"big").expect("reads").expect("is there");
    assert_eq!(big.size, 5 << 30);
    for (at, byte) in [
        (0, 9),
        (10, 0),
        (3 << 30, 0),
        ((5 << 30) - 11, 0),
        ((5 << 30) - 1, 9),
    ] {
        let mut out = [7];
        assert_eq!(reader.read_at(&big, at, &mut out).expect("reads"), 1);
        assert_eq!(out[0], byte, "at {at}");
    }
    assert!(reader.read_file(&big, 1 << 30).is_err());
}

#[test]
fn plain_zeros_of_more_than_four_gibibytes_become_holes() {
    let size = (4u64 << 30) + 5;
    let mut head = header(EntryType::Regular, size);
    head.set_path("zeros").expect("short");
    head.set_cksum();
    let tail = 512 * size.div_ceil(512) - size;
    let data = std::io::repeat(0).take(size - 1).chain(&b"x"[..]);
    let pad = std::io::repeat(0).take(tail + 1024);
    let stream = (&head.as_bytes()[..]).chain(data).chain(pad);
    let mut out = Cursor::new(Vec::new());
    let summary = convert(
        stream,
        Cursor::new(Vec::new()),
        &mut out,
        &Limits::default(),
    );
    assert!(summary.expect("converts").image_bytes < 2 << 20);
    let mut reader = Image::open(&mut out).expect("opens");
    let zeros = reader.lookup(b"zeros").expect("reads").expect("is there");
    let mut end = [7; 3];
    assert_eq!(
        reader.read_at(&zeros, size - 2, &mut end).expect("reads"),
        2
    );
    assert_eq!((zeros.size, end), (size, [0, b'x', 7]));
}
