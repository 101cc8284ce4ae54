//! OCI layouts in directories: what is taken, and what is refused with nothing left behind.

use crate::fixture::{Layout, Pack, Room, config, pack, put, sha256, tar_of};
use layers::{ErrorKind, Phase};
use serde_json::json;
use std::fs;
use std::sync::Mutex;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";

#[test]
fn plain_gzip_and_zstd_layers_give_the_same_layer() {
    let room = Room::new();
    let tar = tar_of(&[("etc/", ""), ("etc/x", "1")]);
    let mut layers = Vec::new();
    for (i, how) in [Pack::Plain, Pack::Gzip, Pack::Zstd]
        .into_iter()
        .enumerate()
    {
        let layout = Layout::new(&room.path(&format!("image{i}")));
        let image = layout.image(&[(how, tar.clone())]);
        let source = layout.tagged("v1", image).source();
        layers.push(room.import(&source).expect("imports").layers);
    }
    assert_eq!(layers[0], layers[1]);
    assert_eq!(layers[0], layers[2]);
    assert_eq!(room.stored(), 1);
    assert_eq!(room.paths(&layers[0][0]), ["", "etc", "etc/x"]);
}

#[test]
fn p60_config_and_labels_come_with_the_image() {
    let room = Room::new();
    let layout = Layout::new(&room.path("image"));
    let image = layout.image(&[(Pack::Gzip, tar_of(&[("a", "1")]))]);
    let image = room
        .import(&layout.tagged("v1", image).source())
        .expect("imports");
    let process = &image.config.process;
    assert_eq!(process.workdir.as_deref(), Some("/srv"));
    assert_eq!(process.user.as_deref(), Some("7"));
    assert!(process.env.contains(&("A".to_owned(), "1".to_owned())));
    assert_eq!(image.config.cmd, ["run"]);
}

#[test]
fn p54_an_image_on_a_cached_base_has_all_its_layers() {
    let room = Room::new();
    let layer = |i: usize| (Pack::Gzip, tar_of(&[(&format!("file{i}"), "x")]));
    let base = Layout::new(&room.path("base"));
    let image = base.image(&[layer(0)]);
    let base = room
        .import(&base.tagged("v1", image).source())
        .expect("imports");
    let upper = Layout::new(&room.path("upper"));
    let image = upper.image(&[layer(0), layer(1), layer(2), layer(3)]);
    let seen = Mutex::new(Vec::new());
    let upper = room
        .import_with(
            &upper.tagged("v1", image).source(),
            layers::Credentials::Anonymous,
            &|p| {
                seen.lock().expect("whole").push(p.phase);
            },
        )
        .expect("imports");
    assert_eq!(upper.layers[0], base.layers[0]);
    for (i, layer) in upper.layers.iter().enumerate() {
        assert_eq!(room.paths(layer), ["", &format!("file{i}")]);
    }
    let seen = seen.into_inner().expect("whole");
    let count = |phase| seen.iter().filter(|p| **p == phase).count();
    assert_eq!((count(Phase::Cached), count(Phase::Done)), (1, 3));
}

#[test]
fn a_layer_of_ten_images_at_once_is_stored_once() {
    let room = Room::new();
    let tar = tar_of(&[("big", &"x".repeat(3_000_000))]);
    let sources: Vec<String> = (0..10)
        .map(|i| {
            let layout = Layout::new(&room.path(&format!("image{i}")));
            let own = (Pack::Plain, tar_of(&[(&format!("own{i}"), "")]));
            let image = layout.image(&[(Pack::Gzip, tar.clone()), own]);
            layout.tagged("v1", image).source()
        })
        .collect();
    let done = Mutex::new(0);
    std::thread::scope(|scope| {
        for source in &sources {
            scope.spawn(|| {
                let tell = |p: layers::Progress| {
                    *done.lock().expect("whole") += u32::from(p.phase == Phase::Done);
                };
                let import = room.import_with(source, layers::Credentials::Anonymous, &tell);
                import.expect("imports");
            });
        }
    });
    assert_eq!(room.stored(), 11);
    assert_eq!(done.into_inner().expect("whole"), 11);
}

#[test]
fn an_index_gives_this_machines_image_and_an_alien_one_is_refused() {
    let room = Room::new();
    let layout = Layout::new(&room.path("image"));
    let platform = |arch: &str, name: &str| {
        let mut image = layout.image(&[(Pack::Gzip, tar_of(&[(name, "")]))]);
        image["platform"] = json!({"os": "linux", "architecture": arch});
        image
    };
    let (alien, own) = (
        platform("mips", "alien"),
        platform(crate::fixture::architecture(), "own"),
    );
    let both = layout.document(
        INDEX,
        &json!({"schemaVersion": 2, "manifests": [alien, own]}),
    );
    let aliens = layout.document(INDEX, &json!({"schemaVersion": 2, "manifests": [alien]}));
    let layout = layout.tagged("both", both).tagged("alien", aliens);
    let image = room
        .import(&format!("{}:both", layout.source()))
        .expect("imports");
    assert_eq!(room.paths(&image.layers[0]), ["", "own"]);
    let error = room
        .import(&format!("{}:alien", layout.source()))
        .expect_err("is alien");
    assert!(error.to_string().contains("it has linux/mips"), "{error}");
    let error = room
        .import(&format!("{}:other", layout.source()))
        .expect_err("no such tag");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("\"other\""), "{error}");
    let error = room.import(&layout.source()).expect_err("two images");
    assert!(error.to_string().contains("both, alien"), "{error}");
}

#[test]
fn a_blob_that_is_not_what_its_digest_says_is_refused_with_both_digests() {
    let room = Room::new();
    let tar = tar_of(&[("a", "1")]);
    let wanted = sha256(&pack(Pack::Gzip, &tar));
    let other = pack(Pack::Gzip, &tar_of(&[("a", "2")]));
    let torn = pack(Pack::Gzip, &tar)[..40].to_vec();
    for (i, bytes) in [other, torn, b"no tar at all".repeat(99)]
        .iter()
        .enumerate()
    {
        let layout = Layout::new(&room.path(&format!("image{i}")));
        let image = layout.image(&[(Pack::Gzip, tar.clone())]);
        put(&layout.blob_path(&wanted), bytes);
        let error = room
            .import(&layout.tagged("v1", image).source())
            .expect_err("is another");
        let text = error.to_string();
        assert!(
            text.contains(&wanted) && text.contains(&sha256(bytes)),
            "{text}"
        );
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    assert_eq!(room.stored(), 0);
}

#[test]
fn a_tar_that_is_not_what_the_configuration_says_is_refused_with_both_digests() {
    let room = Room::new();
    let (tar, lie) = (tar_of(&[("a", "1")]), sha256(b"something else"));
    let layout = Layout::new(&room.path("image"));
    let manifest = json!({
        "schemaVersion": 2,
        "config": layout.blob("c", &config(std::slice::from_ref(&lie))),
        "layers": [layout.blob("l", &pack(Pack::Zstd, &tar))],
    });
    let image = layout.document("m", &manifest);
    let error = room
        .import(&layout.tagged("v1", image).source())
        .expect_err("lies");
    let text = error.to_string();
    assert!(
        text.contains(&lie) && text.contains(&sha256(&tar)),
        "{text}"
    );
    assert_eq!(room.stored(), 0);
}

#[test]
fn a_layer_that_would_escape_is_refused_by_its_entry() {
    let room = Room::new();
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..9].copy_from_slice(b"../escape");
    header.set_size(0);
    header.set_cksum();
    let mut tar = tar::Builder::new(Vec::new());
    tar.append(&header, &[][..]).expect("in memory");
    let tar = tar.into_inner().expect("in memory");
    let layout = Layout::new(&room.path("image"));
    let image = layout.image(&[(Pack::Gzip, tar)]);
    let error = room
        .import(&layout.tagged("v1", image).source())
        .expect_err("escapes");
    let cause = std::error::Error::source(&error)
        .expect("has one")
        .to_string();
    assert!(cause.contains("\"../escape\""), "{cause}");
    assert_eq!((room.stored(), error.kind()), (0, ErrorKind::Invalid));
}

#[test]
fn malformed_documents_are_named() {
    let room = Room::new();
    let path = room.path("image");
    let layout = Layout::new(&path);
    let missing = room.import(&layout.source()).expect_err("no index");
    assert!(missing.to_string().contains("index.json"), "{missing}");
    for (index, wanted) in [
        ("{", "the manifest of oci:"),
        ("{}", "neither a manifest nor an index"),
        (r#"{"manifests":[]}"#, "has nothing"),
        (
            r#"{"manifests":[{"digest":"md5:1","size":1}]}"#,
            "sha256:<64",
        ),
    ] {
        put(&path.join("index.json"), index.as_bytes());
        let error = room
            .import(&layout.source())
            .expect_err("malformed")
            .to_string();
        assert!(
            error.contains(wanted) || error.contains("no single image"),
            "{error}"
        );
    }
    let manifest = json!({"schemaVersion": 2, "config": layout.blob("c", &config(&[])),
        "layers": [layout.blob("l", b"x")]});
    let image = layout.document("m", &manifest);
    let error = room
        .import(&layout.tagged("v1", image).source())
        .expect_err("counts differ");
    assert!(
        error
            .to_string()
            .contains("it names 0 layers, the manifest 1"),
        "{error}"
    );
    let nowhere = room.import("oci:nowhere/at/all").expect_err("no directory");
    assert_eq!(nowhere.kind(), ErrorKind::NotFound);
    assert_eq!(
        fs::read_dir(room.path("data/catalog/oci"))
            .expect("lists")
            .count(),
        0
    );
}
