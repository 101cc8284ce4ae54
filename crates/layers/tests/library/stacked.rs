//! Layers over each other: what an upper one must not change in those below.

use crate::fixture::{Layout, Pack, Room, tar_of};

fn import(layers: &[&[(&str, &str)]]) -> (Room, Result<Vec<model::Digest>, String>) {
    let room = Room::new();
    let layout = Layout::new(&room.path("image"));
    let tars: Vec<_> = layers.iter().map(|l| (Pack::Plain, tar_of(l))).collect();
    let image = layout.image(&tars);
    let imported = room.import(&layout.tagged("v1", image).source());
    let result = imported.map(|i| i.layers).map_err(|e| e.to_string());
    (room, result)
}

#[test]
fn p51_a_directory_removed_and_made_again_later_stays_empty() {
    let (room, layers) = import(&[
        &[("d/", ""), ("d/f", "")],
        &[(".wh.d", "")],
        &[("d/", ""), ("d/e/", "")],
    ]);
    let layers = layers.expect("imports");
    // The whiteout of the middle layer ends the search below the upper directory: no layer lost, none merged.
    let store = room.library.store();
    let mut middle = store.open_layer(&layers[1]).expect("opens");
    let whiteout = middle.lookup(b"d").expect("reads").expect("is there");
    assert!(whiteout.is_whiteout());
    assert_eq!(room.paths(&layers[2]), ["", "d", "d/e"]);
    assert_eq!(layers.len(), 3);
}

#[test]
fn a_directory_without_entry_above_keeps_owner_and_mode_of_the_one_below() {
    let (room, layers) = import(&[
        &[("var/", ""), ("var/lib/", ""), ("tmp/", "")],
        &[("var/lib/app/file", "1"), ("new/file", "2")],
    ]);
    let layers = layers.expect("imports");
    assert_eq!(layers.len(), 3, "a patch on top");
    assert_eq!(room.paths(&layers[2]), ["", "var", "var/lib"]);
    let mut patch = room.library.store().open_layer(&layers[2]).expect("opens");
    let lib = patch.lookup(b"var/lib").expect("reads").expect("is there");
    assert_eq!(
        (lib.mode, lib.uid, lib.gid, lib.mtime),
        (0o751, 7, 8, 1_600_000_000)
    );
    assert!(patch.xattrs(&lib).expect("reads").is_empty());
}

#[test]
fn no_patch_is_made_where_nothing_is_hidden() {
    let lower: &[(&str, &str)] = &[("var/", ""), ("var/x", "")];
    for upper in [
        &[("var/", ""), ("var/y", "")][..],
        &[("opt/new", "")],
        &[("var/.wh..wh..opq", ""), ("var/y", "")],
        &[(".wh.var", ""), ("var/y", "")],
    ] {
        let (_room, layers) = import(&[lower, upper]);
        assert_eq!(layers.expect("imports").len(), 2, "{upper:?}");
    }
}

#[test]
fn files_through_a_link_of_a_lower_layer_are_refused_by_path() {
    let (_room, layers) = import(&[
        &[("usr/lib/", ""), ("lib", "-> usr/lib")],
        &[("lib/x.so", "")],
    ]);
    let error = layers.expect_err("would hide the link");
    assert!(error.contains("files under \"lib\""), "{error}");
}
