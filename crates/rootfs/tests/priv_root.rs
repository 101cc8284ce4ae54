//! What is seen in a mounted root: the layers' rules, the owners, one's own writes.

#[path = "ground/ground.rs"]
mod ground;
#[path = "../../sys/tests/namespace/inside.rs"]
mod inside;

use ground::{Ground, file, id, layers_mounted, mount_table, plan};
use inside::{BASE, in_userns};
use model::RootSource;
use rootfs::{MountError, MountedRoot};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;
use sys::mount;
use testkit::alone;

const FLAGS: [&str; 1] = ["--mount"];

/// Puts a root where the test can look at it.
fn attach(ground: &Ground, name: &str, root: &MountedRoot) -> PathBuf {
    let at = ground.path(name);
    fs::create_dir(&at).expect("mkdir");
    mount::attach(root.root.as_fd(), &at).expect("attach");
    for extra in &root.extra {
        let target = at.join(extra.target.trim_start_matches('/'));
        mount::attach(extra.mount.as_fd(), &target).expect("attach");
    }
    at
}

/// Undoes everything, so that the temporary directory can be removed.
fn end(roots: rootfs::Roots, attached: &[&Path]) {
    for at in attached {
        mount::detach(at).expect("detach");
    }
    for id in roots.list_uppers().expect("lists") {
        roots.remove_upper(&id).expect("removes");
    }
    roots.close().expect("closes");
}

#[test]
fn whiteouts_opaque_directories_and_the_order_of_layers_hold() {
    let name = "whiteouts_opaque_directories_and_the_order_of_layers_hold";
    if !alone(name, &FLAGS) {
        return;
    }
    let ground = Ground::new();
    let bottom = ground.layer(1, |tree| {
        for name in ["dir/old", "plain/below", "gone", "both"] {
            file(tree.join(name), "bottom");
        }
    });
    let top = ground.layer(2, |tree| {
        for name in ["dir/new", "plain/above", "both"] {
            file(tree.join(name), "top");
        }
        let kind = FileType::CharacterDevice;
        mknodat(CWD, tree.join("gone"), kind, Mode::empty(), 0).expect("whiteout");
        let opaque = "trusted.overlay.opaque";
        setxattr(tree.join("dir"), opaque, b"y", XattrFlags::empty()).expect("opaque");
    });
    let roots = ground.open();
    let upper = roots.create_upper(&id(1)).expect("upper");
    let root = roots
        .mount_root(&plan(&[bottom, top]), &upper)
        .expect("root");
    let at = attach(&ground, "at", &root);
    let seen = in_userns(&format!(
        "cd {}; find . -type f | sort; cat both",
        at.display()
    ));
    assert_eq!(seen, "./both\n./dir/new\n./plain/above\n./plain/below\ntop");
    end(roots, &[&at]);
}

#[test]
fn a_directory_of_a_layer_can_be_renamed_with_all_that_is_in_it() {
    let name = "a_directory_of_a_layer_can_be_renamed_with_all_that_is_in_it";
    if !alone(name, &FLAGS) {
        return;
    }
    let ground = Ground::new();
    let layer = ground.layer(1, |tree| file(tree.join("dir/sub/file"), "kept"));
    let roots = ground.open();
    let upper = roots.create_upper(&id(1)).expect("upper");
    let root = roots.mount_root(&plan(&[layer]), &upper).expect("root");
    let at = attach(&ground, "at", &root);
    let seen = in_userns(&format!(
        "cd {}; python3 -c \"import os; os.rename('dir','moved')\"; ls; cat moved/sub/file",
        at.display()
    ));
    assert_eq!(seen, "moved\nkept");
    end(roots, &[&at]);
}

#[test]
fn root_of_the_namespace_owns_the_image_and_no_file_belongs_to_root_of_the_host() {
    let name = "root_of_the_namespace_owns_the_image_and_no_file_belongs_to_root_of_the_host";
    if !alone(name, &FLAGS) {
        return;
    }
    let ground = Ground::new();
    let layer = ground.layer(1, |tree| {
        file(tree.join("etc/conf"), "x");
        fs::copy("/usr/bin/id", tree.join("id")).expect("copy");
        let setuid = fs::Permissions::from_mode(0o4755);
        fs::set_permissions(tree.join("id"), setuid).expect("chmod");
    });
    let roots = ground.open();
    let upper = roots.create_upper(&id(1)).expect("upper");
    let root = roots.mount_root(&plan(&[layer]), &upper).expect("root");
    let at = attach(&ground, "at", &root);
    let seen = in_userns(&format!(
        "cd {}; stat -c %u:%g . etc/conf; echo y >> etc/conf; touch mine; chown 1000:1000 mine; \
         stat -c %u:%g etc/conf mine; setpriv --reuid 1000 --clear-groups ./id -u",
        at.display()
    ));
    let setuid_works = "0";
    assert_eq!(seen, format!("0:0\n0:0\n0:0\n1000:1000\n{setuid_works}"));
    let owner = |name: &str| {
        fs::metadata(upper.dir().join("upper").join(name))
            .expect("stat")
            .uid()
    };
    assert_eq!(
        [owner("etc/conf"), owner("mine"), owner(".")],
        [BASE, BASE + 1000, BASE]
    );
    end(roots, &[&at]);
}

#[test]
fn the_hosts_usr_is_seen_and_never_written() {
    if !alone("the_hosts_usr_is_seen_and_never_written", &FLAGS) {
        return;
    }
    let ground = Ground::new();
    let layer = ground.layer(1, |tree| fs::create_dir(tree.join("usr")).expect("mkdir"));
    let roots = ground.open();
    let upper = roots.create_upper(&id(1)).expect("upper");
    let mut plan = plan(&[layer]);
    plan.sources.push(RootSource::HostUsr);
    let root = roots.mount_root(&plan, &upper).expect("root");
    let at = attach(&ground, "at", &root);
    let probe = "warren-probe-of-a-test";
    let seen = in_userns(&format!(
        "cd {}/usr; stat -c %u bin/env; touch {probe}; rm bin/env; ls {probe}; ls bin/env || true",
        at.display()
    ));
    assert_eq!(seen, format!("0\n{probe}"));
    assert!(Path::new("/usr/bin/env").exists());
    assert!(!Path::new("/usr").join(probe).exists());
    assert!(upper.dir().join("usr-upper").join(probe).exists());
    end(roots, &[&at.join("usr"), &at]);
}

#[test]
fn a_plan_that_cannot_be_mounted_leaves_no_mount() {
    if !alone("a_plan_that_cannot_be_mounted_leaves_no_mount", &FLAGS) {
        return;
    }
    let ground = Ground::new();
    let good = ground.layer(1, |tree| file(tree.join("a"), ""));
    let absent = model::Digest::from_sha256([9; 32]);
    let broken = model::Digest::from_sha256([8; 32]);
    file(
        ground.path(&format!("data/cache/{}.erofs", broken.hex())),
        "no image",
    );
    let roots = ground.open();
    let upper = roots.create_upper(&id(1)).expect("upper");
    let before = mount_table();
    let error = |layers: &[model::Digest]| {
        let error = roots
            .mount_root(&plan(layers), &upper)
            .expect_err("cannot be");
        let source = std::error::Error::source(&error).map(ToString::to_string);
        (error, source.unwrap_or_default())
    };
    let (_, cause) = error(&[absent]);
    assert!(
        cause.contains(&absent.to_string()) && cause.contains("pull"),
        "{cause}"
    );
    let (_, cause) = error(&[broken]);
    assert!(cause.contains(&broken.to_string()), "{cause}");
    assert!(matches!(error(&[]).0, MountError::Empty { .. }));
    assert_eq!(mount_table(), before);
    let root = roots.mount_root(&plan(&[good]), &upper);
    assert!(root.is_ok(), "the upper is still of use: {root:?}");
    drop(root);
    end(roots, &[]);
}

#[test]
fn fifty_roots_of_three_layers_are_mounted() {
    if !alone("fifty_roots_of_three_layers_are_mounted", &FLAGS) {
        return;
    }
    let ground = Ground::new();
    let layers = [1, 2, 3].map(|n| ground.layer(n, |tree| file(tree.join("a"), "")));
    let roots = ground.open();
    let (mut makes, mut mounts, mut held) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..50 {
        let start = Instant::now();
        let upper = roots.create_upper(&id(number)).expect("upper");
        makes.push(start.elapsed());
        let start = Instant::now();
        held.push(roots.mount_root(&plan(&layers), &upper).expect("root"));
        mounts.push(start.elapsed());
    }
    makes.sort();
    mounts.sort();
    eprintln!("create_upper: median {:?}, max {:?}", makes[25], makes[49]);
    eprintln!("mount_root: median {:?}, max {:?}", mounts[25], mounts[49]);
    let mounted = layers_mounted(&ground);
    assert_eq!(mounted, 3, "a layer is mounted once, whatever it is in");
    drop(held);
    end(roots, &[]);
}
