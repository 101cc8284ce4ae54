//! Loop devices: a file as a block device, for the btrfs image and for kernels without file-backed EROFS.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;
/// Somebody may take the free device between the question and the use of the answer.
const ATTEMPTS: usize = 64;

/// `struct loop_info64`.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopConfig>() == 304);

/// Whether the device can be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The file is never written.
    ReadOnly,
    /// Writes go to the file.
    ReadWrite,
}

/// A loop device that frees itself when its last user is gone.
///
/// Keep the value until the device is mounted: dropping it before frees the device.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    _open: File,
}

impl LoopDevice {
    /// The device node.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Attaches `file` to a free loop device, past the page cache of the file where that is possible.
pub fn attach(file: &Path, access: Access) -> io::Result<LoopDevice> {
    let writable = access == Access::ReadWrite;
    let backing = OpenOptions::new().read(true).write(writable).open(file)?;
    let control = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/loop-control")?;
    for _ in 0..ATTEMPTS {
        let path = PathBuf::from(format!("/dev/loop{}", free_number(&control)?));
        let device = OpenOptions::new().read(true).write(writable).open(&path)?;
        match configure(&device, &backing, access) {
            Ok(()) => {
                return Ok(LoopDevice {
                    path,
                    _open: device,
                });
            }
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// The loop devices whose backing file is `file`, by the name the kernel shows.
pub fn of_file(file: &Path) -> io::Result<Vec<PathBuf>> {
    let wanted = std::fs::canonicalize(file)?;
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/sys/block")? {
        let entry = entry?;
        // Absent for a device without a file.
        let Ok(shown) = std::fs::read_to_string(entry.path().join("loop/backing_file")) else {
            continue;
        };
        if Path::new(shown.trim_end_matches('\n')) == wanted {
            found.push(Path::new("/dev").join(entry.file_name()));
        }
    }
    Ok(found)
}

fn free_number(control: &File) -> io::Result<i32> {
    // SAFETY: this request takes no argument and returns a number.
    let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(number)
}

fn configure(device: &File, backing: &File, access: Access) -> io::Result<()> {
    let mut flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    if access == Access::ReadOnly {
        flags |= LO_FLAGS_READ_ONLY;
    }
    // SAFETY: the structure holds only integers, for which all zeros is a value.
    let mut config: LoopConfig = unsafe { std::mem::zeroed() };
    config.fd = u32::try_from(backing.as_raw_fd()).expect("an open descriptor is not negative");
    config.info.flags = flags;
    // SAFETY: `config` is live and laid out as `struct loop_config`; the kernel only reads it.
    let done = unsafe {
        libc::ioctl(
            device.as_raw_fd(),
            LOOP_CONFIGURE,
            std::ptr::from_ref(&config),
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
