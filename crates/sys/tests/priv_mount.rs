//! Mounts made for real, in a private mount namespace: EROFS, idmaps, overlay, and their errors.

#[path = "namespace/inside.rs"]
mod inside;

use inside::{BASE, in_userns};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use sys::mount::{self, Attr, Depth, Overlay};
use tempfile::TempDir;
use testkit::alone;

/// A tmpfs that only this process sees, and an EROFS image on disk: a tmpfs cannot back one.
struct Scene {
    disk: TempDir,
    dir: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let disk = TempDir::new().expect("temporary directory");
        let dir = disk.path().join("ram");
        fs::create_dir(&dir).expect("mkdir");
        let ram = mount::tmpfs(Attr::empty(), &[("mode", "755")]).expect("tmpfs");
        mount::attach(ram.as_fd(), &dir).expect("attach");
        for sub in ["tree/dir", "upper", "work", "at"] {
            fs::create_dir_all(dir.join(sub)).expect("mkdir");
        }
        fs::File::create(dir.join("tree/dir/file")).expect("file");
        for path in [disk.path(), &dir.join("tree")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("chmod");
        }
        let made = Command::new("mkfs.erofs")
            .arg(disk.path().join("image"))
            .arg(dir.join("tree"))
            .output();
        assert!(made.expect("mkfs.erofs runs").status.success());
        for sub in ["upper", "work"] {
            chown(dir.join(sub), Some(BASE), Some(BASE)).expect("chown");
        }
        Self { disk, dir }
    }

    fn image(&self) -> PathBuf {
        self.disk.path().join("image")
    }

    fn layer(&self) -> OwnedFd {
        let plain = mount::erofs(&self.image()).expect("erofs");
        let clone = mount::clone_mount(plain.as_fd(), Depth::Single).expect("clone");
        let userns = sys::userns::mapped(BASE, 65_536).expect("userns");
        mount::set_idmap(clone.as_fd(), userns.as_fd()).expect("idmap");
        clone
    }

    fn overlay(&self, lowers: &[BorrowedFd<'_>]) -> io::Result<OwnedFd> {
        let upper = fs::File::open(self.dir.join("upper")).expect("upper");
        let work = fs::File::open(self.dir.join("work")).expect("work");
        mount::overlay(&Overlay {
            lowers_top_to_bottom: lowers,
            upper: upper.as_fd(),
            work: work.as_fd(),
        })
    }
}

#[test]
fn a_lower_directory_is_renamed_by_root_of_the_user_namespace() {
    let name = "a_lower_directory_is_renamed_by_root_of_the_user_namespace";
    if !alone(name, &["--mount"]) {
        return;
    }
    let scene = Scene::new();
    let layer = scene.layer();
    let root = scene.overlay(&[layer.as_fd()]).expect("overlay");
    let at = scene.dir.join("at");
    mount::attach(root.as_fd(), &at).expect("attach");
    let at = at.display();
    let rename = "import os,sys; os.rename(sys.argv[1]+'/dir', sys.argv[1]+'/moved')";
    let seen = in_userns(&format!(
        "stat -c %u {at}/dir; python3 -c \"{rename}\" {at}; ls -d {at}/*; ls {at}/moved"
    ));
    assert_eq!(seen, format!("0\n{at}/moved\nfile"));
    let moved = fs::metadata(scene.dir.join("upper/moved")).expect("in the upper");
    assert_eq!(
        moved.uid(),
        BASE,
        "what is written belongs to the range on disk"
    );
}

#[test]
fn errors_carry_the_words_of_the_kernel() {
    if !alone("errors_carry_the_words_of_the_kernel", &["--mount"]) {
        return;
    }
    let scene = Scene::new();
    let error = mount::erofs(Path::new("/proc/version")).expect_err("not an image");
    assert!(error.to_string().contains("/proc/version"), "{error}");
    let dir = fs::File::open(scene.dir.join("tree")).expect("dir");
    let file = fs::File::open(scene.image()).expect("image");
    let error = scene
        .overlay(&[dir.as_fd(), file.as_fd()])
        .expect_err("a file is no lower");
    assert!(error.to_string().contains("kernel: "), "{error}");
    assert!(mount::errno(&error).is_some());
}

#[test]
fn a_detached_mount_is_in_no_mount_table() {
    if !alone("a_detached_mount_is_in_no_mount_table", &["--mount"]) {
        return;
    }
    let scene = Scene::new();
    let table = || fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let before = table();
    let layer = scene.layer();
    let root = scene.overlay(&[layer.as_fd()]).expect("overlay");
    assert_eq!(table(), before);
    mount::attach(root.as_fd(), &scene.dir.join("at")).expect("attach");
    assert_ne!(table(), before);
    mount::detach(&scene.dir.join("at")).expect("detach");
    assert_eq!(table(), before);
}

impl Drop for Scene {
    fn drop(&mut self) {
        mount::detach(&self.dir).expect("unmount the tmpfs, else its directory stays");
    }
}
