//! Templates: names, tags, removal, collection, damage.

use crate::fixture::{Layout, Pack, Room, put, tar_of};
use layers::{ErrorKind, ImportedImage, Library, NewBuild, Use};
use model::{Resources, RootSource, TemplateRef};
use std::fs;

fn reference(text: &str) -> TemplateRef {
    text.parse().expect("well formed")
}

fn image(room: &Room, file: &str) -> ImportedImage {
    let layout = Layout::new(&room.path(file));
    let image = layout.image(&[(Pack::Gzip, tar_of(&[(file, "")]))]);
    room.import(&layout.tagged("v1", image).source())
        .expect("imports")
}

fn build(image: &ImportedImage) -> NewBuild {
    NewBuild {
        layers: image.layers.clone(),
        image: image.reference.clone(),
        manifest_digest: Some(image.manifest_digest),
        config: image.config.clone(),
        resources: Resources::default(),
        start_cmd: None,
        ready_cmd: None,
        size_bytes: image.size_bytes,
    }
}

#[test]
fn templates_are_found_by_name_tag_alias_and_id_also_after_a_restart() {
    let room = Room::new();
    let (one, two) = (image(&room, "one"), image(&room, "two"));
    let library = &room.library;
    let put = |name: &str, image| {
        library
            .put(&reference(name), None, build(image), 5)
            .expect("puts")
    };
    let record = put("py", &one);
    assert_eq!(put("py:v2", &two).template_id, record.template_id);
    library
        .catalog()
        .add_alias(&reference("py"), &reference("team/python"))
        .expect("is free");
    let library = Library::open(&room.path("data")).expect("opens");
    for name in ["py", "team/python", "PY:default", &record.template_id] {
        let resolved = library.resolve(&reference(name)).expect(name);
        assert_eq!(resolved.plan.sources, [RootSource::Layer(one.layers[0])]);
        assert_eq!(resolved.plan.process.workdir.as_deref(), Some("/srv"));
        assert_eq!(
            (resolved.name.as_str(), resolved.build_id.len()),
            ("py", 36)
        );
    }
    let resolved = library
        .resolve(&reference("team/python:v2"))
        .expect("is there");
    assert_eq!(resolved.plan.sources, [RootSource::Layer(two.layers[0])]);
    let error = library
        .resolve(&reference("py:v3"))
        .expect_err("no such tag");
    assert_eq!(
        (error.kind(), error.to_string().contains("\"v3\"")),
        (ErrorKind::NotFound, true)
    );
    let error = library
        .resolve(&reference("ruby"))
        .expect_err("no such template");
    assert_eq!(error.to_string(), "template \"ruby\" not found");
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn names_belong_to_one_template() {
    let room = Room::new();
    let one = image(&room, "one");
    let library = &room.library;
    for name in ["a", "b"] {
        library
            .put(&reference(name), None, build(&one), 1)
            .expect("puts");
    }
    let error = library
        .catalog()
        .add_alias(&reference("a"), &reference("b"));
    assert_eq!(error.expect_err("is taken").kind(), ErrorKind::Conflict);
    let error = library.put(&reference("host"), None, build(&one), 1);
    assert_eq!(error.expect_err("is built in").kind(), ErrorKind::Conflict);
    let error = library.put(&reference("c"), Some("Not An Id"), build(&one), 1);
    assert_eq!(error.expect_err("is malformed").kind(), ErrorKind::Invalid);
    let id = "abcdefghij0123456789";
    let record = library
        .put(&reference("c"), Some(id), build(&one), 1)
        .expect("puts");
    assert_eq!(record.template_id, id);
}

#[test]
fn removal_takes_the_layers_that_nothing_else_needs() {
    let room = Room::new();
    let library = &room.library;
    let remove = |name: &str, used, live: &[_]| library.remove(&reference(name), used, live);
    let layers: Vec<_> = ["one", "two"]
        .map(|name| {
            let image = image(&room, name);
            library
                .put(&reference(name), None, build(&image), 1)
                .expect("puts");
            library
                .put(&reference(&format!("{name}:more")), None, build(&image), 1)
                .expect("puts");
            image.layers[0]
        })
        .to_vec();
    let error = remove("one", Use::InUse, &[]).expect_err("is in use");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("\"one\" is in use"), "{error}");
    remove("one:more", Use::Unused, &[]).expect("removes the tag");
    assert!(library.store().contains(&layers[0]));
    remove("one", Use::Unused, &layers).expect("removes");
    assert!(
        library.store().contains(&layers[0]),
        "a sandbox lives on it"
    );
    assert_eq!(library.collect(&[]).expect("collects"), [layers[0]]);
    assert!(library.store().contains(&layers[1]));
    let error = remove("one", Use::Unused, &[]).expect_err("is gone");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    // What the removed layer was made of can be imported again.
    let again = image(&room, "one");
    assert_eq!(again.layers[0], layers[0]);
    assert!(library.store().contains(&layers[0]));
    assert!(
        library.collect(&[]).expect("collects").is_empty(),
        "the import still holds it"
    );
}

#[test]
fn a_damaged_record_is_named_and_the_others_load() {
    let room = Room::new();
    let one = image(&room, "one");
    room.library
        .put(&reference("good"), None, build(&one), 1)
        .expect("puts");
    let templates = room.path("data/catalog/templates");
    put(
        &templates.join("bbbbbbbbbbbbbbbbbbbb.json"),
        b"{\"format\":1,",
    );
    put(
        &templates.join("cccccccccccccccccccc.json"),
        b"{\"format\":99}",
    );
    let library = Library::open(&room.path("data")).expect("opens");
    let listing = library.list().expect("lists");
    assert_eq!((listing.templates.len(), listing.damaged.len()), (1, 2));
    let error = library
        .resolve(&reference("bbbbbbbbbbbbbbbbbbbb"))
        .expect_err("is damaged");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(
        error.to_string().contains("bbbbbbbbbbbbbbbbbbbb.json"),
        "{error}"
    );
    let error = library
        .resolve(&reference("cccccccccccccccccccc"))
        .expect_err("is newer");
    assert!(error.to_string().contains("its format is 99"), "{error}");
    library.resolve(&reference("good")).expect("loads");
    drop(one);
    let error = library
        .collect(&[])
        .expect_err("cannot know what is needed");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[test]
fn a_template_whose_layer_is_gone_is_not_resolved() {
    let room = Room::new();
    let one = image(&room, "one");
    room.library
        .put(&reference("one"), None, build(&one), 1)
        .expect("puts");
    fs::remove_file(room.library.store().path(&one.layers[0])).expect("removes");
    let error = room
        .library
        .resolve(&reference("one"))
        .expect_err("is gone");
    assert!(
        error.to_string().contains(&one.layers[0].to_string()),
        "{error}"
    );
    let error = room.library.put(&reference("two"), None, build(&one), 1);
    assert!(error.is_err());
}

#[test]
fn host_is_there_without_a_pull_and_base_means_it_until_defined() {
    let room = Room::new();
    let library = &room.library;
    let error = library
        .resolve(&reference("host"))
        .expect_err("is not prepared");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let machine = room.path("machine");
    fs::create_dir_all(machine.join("usr/bin")).expect("makes");
    for name in ["bin", "sbin", "lib"] {
        std::os::unix::fs::symlink(format!("usr/{name}"), machine.join(name)).expect("links");
    }
    library.prepare_host(&machine).expect("is merged");
    let host = library.resolve(&reference("host")).expect("is there");
    assert!(host.plan.uses_host_usr());
    assert_eq!(host.plan.sources[0], RootSource::HostUsr);
    assert_eq!(host.plan.process.user.as_deref(), Some("user"));
    assert_eq!(
        library.resolve(&reference("base")).expect("is an alias"),
        host
    );
    assert_eq!(
        library
            .resolve(&reference(&host.template_id))
            .expect("by id"),
        host
    );
    assert_eq!(
        library
            .inspect(&reference("base"))
            .expect("is there")
            .aliases,
        ["base"]
    );
    assert!(
        library
            .remove(&reference("host"), Use::Unused, &[])
            .is_err()
    );
    assert!(library.collect(&[]).expect("collects").is_empty());
    let one = image(&room, "one");
    library
        .put(&reference("base"), None, build(&one), 1)
        .expect("puts");
    let base = library.resolve(&reference("base")).expect("is there");
    assert!(!base.plan.uses_host_usr());
    assert_eq!(library.list().expect("lists").templates.len(), 2);
    assert!(
        library
            .inspect(&reference("host"))
            .expect("is there")
            .aliases
            .is_empty()
    );
    fs::remove_file(machine.join("bin")).expect("removes");
    library.prepare_host(&machine).expect_err("not merged");
    let error = library
        .resolve(&reference("host"))
        .expect_err("unavailable")
        .to_string();
    assert!(error.contains("is not a link into usr"), "{error}");
}

#[test]
fn another_process_sees_changes() {
    let room = Room::new();
    let one = image(&room, "one");
    let other = Library::open(&room.path("data")).expect("opens");
    let record = room
        .library
        .put(&reference("one"), None, build(&one), 1)
        .expect("puts");
    assert!(other.resolve(&reference("one")).is_ok());
    room.library
        .catalog()
        .add_spawns(&record.template_id, 3, 9)
        .expect("counts");
    let seen = room.library.inspect(&reference("one")).expect("is there");
    assert_eq!((seen.spawn_count, seen.last_spawned_at_ms), (3, Some(9)));
}
