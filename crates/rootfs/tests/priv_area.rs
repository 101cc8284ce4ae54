//! The writable area and the layer mounts over their life: made, found again, shared, removed.

#[path = "ground/ground.rs"]
mod ground;

use ground::{Ground, file, id, layers_mounted, mount_table, plan};
use rootfs::{OpenError, Roots, RootsConfig, WritableError, WritableKind};
use std::fs;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use sys::btrfs::{self, Access};
use sys::loopdev;
use sys::mount::{self, Attr};
use testkit::alone;

const FLAGS: [&str; 1] = ["--mount"];

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn closing_leaves_no_mount_no_loop_device_and_the_files_for_the_next_start() {
    let name = "closing_leaves_no_mount_no_loop_device_and_the_files_for_the_next_start";
    if !alone(name, &FLAGS) {
        return;
    }
    let ground = Ground::new();
    let layer = ground.layer(1, |tree| file(tree.join("a"), ""));
    let before = mount_table();
    let image = ground.path("data/state.img");
    for start in 0..2 {
        let roots = ground.open();
        assert_eq!(
            roots.writable(),
            &WritableKind::BtrfsImage {
                image: image.clone()
            }
        );
        assert_eq!(loopdev::of_file(&image).expect("loop devices").len(), 1);
        let upper = match start {
            0 => roots.create_upper(&id(1)).expect("upper"),
            _ => roots.find_upper(&id(1)).expect("it is still there"),
        };
        drop(roots.mount_root(&plan(&[layer]), &upper).expect("root"));
        roots.close().expect("closes");
        assert_eq!(mount_table(), before);
        let devices = || loopdev::of_file(&image).expect("loop devices");
        eventually("the loop device frees itself", || devices().is_empty());
    }
    let mounts = fs::read_dir(ground.path("run/layers")).expect("lists");
    assert_eq!(mounts.count(), 0, "no mount point stays");
}

#[test]
fn a_second_process_finds_the_mounts_of_the_first() {
    if !alone("a_second_process_finds_the_mounts_of_the_first", &FLAGS) {
        return;
    }
    let ground = Ground::new();
    let layer = ground.layer(1, |tree| file(tree.join("a"), ""));
    let first = ground.open();
    first.prepare_layer(&layer).expect("mounts");
    let before = mount_table();
    drop(first);
    let second = ground.open();
    second.prepare_layer(&layer).expect("finds it");
    assert_eq!(mount_table(), before);
    second.close().expect("closes");
}

#[test]
fn a_store_whose_filesystem_cannot_back_an_image_is_mounted_by_a_loop_device() {
    let name = "a_store_whose_filesystem_cannot_back_an_image_is_mounted_by_a_loop_device";
    if !alone(name, &FLAGS) {
        return;
    }
    let ground = Ground::new();
    let cache = ground.path("data/cache");
    let ram = mount::tmpfs(Attr::empty(), &[("size", "8m")]).expect("tmpfs");
    mount::attach(ram.as_fd(), &cache).expect("attach");
    let layer = ground.layer(1, |tree| file(tree.join("a"), "text"));
    let image = cache.join(format!("{}.erofs", layer.hex()));
    let devices = || loopdev::of_file(&image).expect("loop devices");
    let roots = ground.open();
    roots.prepare_layer(&layer).expect("mounts");
    assert_eq!(devices().len(), 1);
    let seen = ground.path("run/layers").join(layer.hex()).join("a");
    assert_eq!(fs::read_to_string(seen).expect("reads"), "text");
    roots.close().expect("closes");
    eventually("the loop device frees itself", || devices().is_empty());
    mount::detach(&cache).expect("detach");
}

#[test]
fn of_many_callers_at_once_one_mounts_the_layer() {
    if !alone("of_many_callers_at_once_one_mounts_the_layer", &FLAGS) {
        return;
    }
    let ground = Ground::new();
    let layer = ground.layer(1, |tree| file(tree.join("a"), ""));
    let roots = ground.open();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| roots.prepare_layer(&layer).expect("mounts"));
        }
    });
    assert_eq!(layers_mounted(&ground), 1);
    roots.close().expect("closes");
}

#[test]
fn a_layer_that_is_no_longer_in_use_is_unmounted_and_a_live_root_keeps_it() {
    let name = "a_layer_that_is_no_longer_in_use_is_unmounted_and_a_live_root_keeps_it";
    if !alone(name, &FLAGS) {
        return;
    }
    let ground = Ground::new();
    let used = ground.layer(1, |tree| file(tree.join("used"), ""));
    let idle = ground.layer(2, |tree| file(tree.join("idle"), "alive"));
    let roots = ground.open();
    let upper = roots.create_upper(&id(1)).expect("upper");
    let root = roots
        .mount_root(&plan(&[used, idle]), &upper)
        .expect("root");
    assert_eq!(roots.unmount_unused(&[used]).expect("unmounts"), [idle]);
    assert_eq!(layers_mounted(&ground), 1);
    let at = ground.path("at");
    fs::create_dir(&at).expect("mkdir");
    mount::attach(root.root.as_fd(), &at).expect("attach");
    assert_eq!(fs::read_to_string(at.join("idle")).expect("reads"), "alive");
    mount::detach(&at).expect("detach");
    drop(root);
    roots.close().expect("closes");
}

#[test]
fn uppers_are_made_listed_and_removed() {
    if !alone("uppers_are_made_listed_and_removed", &FLAGS) {
        return;
    }
    let ground = Ground::new();
    let roots = ground.open();
    let upper = roots.create_upper(&id(1)).expect("upper");
    assert!(btrfs::is_subvolume(upper.dir()).expect("examines"));
    let twice = roots.create_upper(&id(1)).expect_err("it is there");
    assert!(twice.to_string().contains(id(1).as_str()), "{twice}");
    assert_eq!(
        roots.list_uppers().expect("lists"),
        [id(1)],
        "and stays there"
    );
    file(upper.dir().join("upper/deep/file"), "x");
    for _ in 0..2 {
        roots.remove_upper(&id(1)).expect("repeatable");
    }
    assert_eq!(roots.list_uppers().expect("lists"), []);
    assert_eq!(roots.find_upper(&id(1)), None);
    roots.close().expect("closes");
}

#[test]
fn a_snapshot_of_an_upper_keeps_the_instant() {
    if !alone("a_snapshot_of_an_upper_keeps_the_instant", &FLAGS) {
        return;
    }
    let ground = Ground::new();
    let roots = ground.open();
    let upper = roots.create_upper(&id(1)).expect("upper");
    file(upper.dir().join("upper/file"), "then");
    let taken = upper.dir().with_file_name("taken");
    btrfs::snapshot(upper.dir(), &taken, Access::ReadOnly).expect("snapshot");
    file(upper.dir().join("upper/file"), "now");
    let kept = fs::read_to_string(taken.join("upper/file")).expect("reads");
    assert_eq!(kept, "then");
    let refused = fs::File::create(taken.join("upper/file")).expect_err("read-only");
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    btrfs::delete_subvolume(&taken).expect("deletes");
    assert!(!taken.exists());
    roots.remove_upper(&id(1)).expect("removes");
    roots.close().expect("closes");
}

#[test]
fn a_data_directory_on_btrfs_needs_no_image() {
    if !alone("a_data_directory_on_btrfs_needs_no_image", &FLAGS) {
        return;
    }
    let ground = Ground::new();
    let outer = ground.open();
    let inner = RootsConfig {
        data_dir: ground.path("data/state/data"),
        run_dir: ground.path("run/inner"),
    };
    let roots = Roots::open(inner.clone()).expect("opens");
    assert_eq!(roots.writable(), &WritableKind::Btrfs);
    let upper = roots.create_upper(&id(1)).expect("upper");
    assert!(btrfs::is_subvolume(upper.dir()).expect("examines"));
    roots.remove_upper(&id(1)).expect("removes");
    roots.close().expect("closes");
    assert!(!inner.data_dir.join("state.img").exists());
    outer.close().expect("closes");
}

#[test]
fn a_data_directory_without_room_is_refused_and_nothing_stays() {
    let name = "a_data_directory_without_room_is_refused_and_nothing_stays";
    if !alone(name, &FLAGS) {
        return;
    }
    let ground = Ground::new();
    let data_dir = ground.path("data");
    let small = mount::tmpfs(Attr::empty(), &[("size", "8m")]).expect("tmpfs");
    mount::attach(small.as_fd(), &data_dir).expect("attach");
    let run_dir = ground.path("run");
    let error = Roots::open(RootsConfig {
        data_dir: data_dir.clone(),
        run_dir,
    });
    let Err(OpenError::Writable(error @ WritableError::Full { .. })) = error else {
        panic!("{error:?}");
    };
    assert!(error.to_string().contains("state.img"), "{error}");
    let left: Vec<_> = fs::read_dir(&data_dir).expect("lists").flatten().collect();
    assert_eq!(left.len(), 1, "only the empty directory: {left:?}");
    mount::detach(&data_dir).expect("detach");
}

#[test]
fn a_missing_mkfs_is_named_with_its_package() {
    let flags = ["--mount", "env", "PATH=/nonexistent"];
    if !alone("a_missing_mkfs_is_named_with_its_package", &flags) {
        return;
    }
    let ground = Ground::new();
    let error = Roots::open(RootsConfig {
        data_dir: ground.path("data"),
        run_dir: ground.path("run"),
    });
    let Err(OpenError::Writable(error @ WritableError::NoMkfs { .. })) = error else {
        panic!("{error:?}");
    };
    assert!(error.to_string().contains("btrfs-progs"), "{error}");
    assert!(!ground.path("data/state.img.new").exists());
}
