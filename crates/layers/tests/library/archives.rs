//! Images in one file: layouts in a tar, and what `docker save` writes.

use crate::fixture::{Layout, Pack, Room, config, pack, put, sha256, tar_of};
use layers::ErrorKind;
use serde_json::json;

/// A tar of these files.
fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        tar.append_data(&mut header, path, *bytes)
            .expect("in memory");
    }
    tar.into_inner().expect("in memory")
}

fn docker(room: &Room, name: &str, wrap: Pack) -> String {
    let (lower, upper) = (tar_of(&[("a", "1")]), tar_of(&[("b", "2")]));
    let config = config(&[sha256(&lower), sha256(&upper)]);
    let manifest = json!([{"Config": "config.json", "RepoTags": ["team/app:v1"],
        "Layers": ["1/layer.tar", "2/layer.tar"]}]);
    let manifest = serde_json::to_vec(&manifest).expect("in memory");
    let zipped = pack(Pack::Gzip, &upper);
    let bytes = archive(&[
        ("manifest.json", &manifest),
        ("config.json", &config),
        ("1/layer.tar", &lower),
        ("2/layer.tar", &zipped),
    ]);
    let path = room.path(name);
    put(&path, &pack(wrap, &bytes));
    format!("docker-archive:{}", path.display())
}

#[test]
fn docker_archives_are_read_plain_and_compressed() {
    let room = Room::new();
    for (name, wrap) in [("plain.tar", Pack::Plain), ("zipped.tar.gz", Pack::Gzip)] {
        let source = docker(&room, name, wrap);
        for source in [source.clone(), format!("{source}:team/app:v1")] {
            let image = room.import(&source).expect("imports");
            assert_eq!(room.paths(&image.layers[0]), ["", "a"]);
            assert_eq!(room.paths(&image.layers[1]), ["", "b"]);
        }
        let error = room
            .import(&format!("{source}:team/app:v2"))
            .expect_err("no such tag");
        assert!(error.to_string().contains("\"team/app:v2\""), "{error}");
    }
    assert_eq!(room.stored(), 2);
}

#[test]
fn layouts_in_a_tar_are_read() {
    let room = Room::new();
    let layout = Layout::new(&room.path("image"));
    let image = layout.image(&[(Pack::Zstd, tar_of(&[("a", "1")]))]);
    let layout = layout.tagged("v1", image);
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_dir_all(".", &layout.path).expect("in memory");
    let path = room.path("image.tar");
    put(&path, &tar.into_inner().expect("in memory"));
    let image = room
        .import(&format!("oci-archive:{}:v1", path.display()))
        .expect("imports");
    assert_eq!(room.paths(&image.layers[0]), ["", "a"]);
}

#[test]
fn broken_archives_are_named_and_leave_nothing() {
    let room = Room::new();
    let path = room.path("broken.tar");
    let source = format!("docker-archive:{}", path.display());
    let import = |bytes: &[u8]| {
        put(&path, bytes);
        room.import(&source).expect_err("is broken")
    };
    assert_eq!(import(&archive(&[])).kind(), ErrorKind::NotFound);
    let error = import(&archive(&[("manifest.json", b"[{}]")]));
    assert!(
        error
            .to_string()
            .contains("manifest.json of docker-archive:"),
        "{error}"
    );
    let manifest = br#"[{"Config":"c","Layers":["gone"]}]"#;
    let config = config(&[sha256(b"x")]);
    let error = import(&archive(&[("manifest.json", manifest), ("c", &config)]));
    assert!(error.to_string().contains("has no gone"), "{error}");
    let error = import(&[b'x'; 5000]);
    assert!(error.to_string().contains("broken.tar"), "{error}");
    let error = room
        .import("docker-archive:not/there.tar")
        .expect_err("no file");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(room.stored(), 0);
}
