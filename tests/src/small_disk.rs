//! A small disk that a test can fill.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::statvfs::statvfs;

/// Fills the disk.
const BALLAST: &str = ".ballast";

/// A file system in memory, mounted at a folder until it is dropped.
pub struct SmallDisk {
    mounted_at: PathBuf,
}

impl SmallDisk {
    /// Mounts a disk. Returns `None` without the permission, which only root has.
    pub fn mount(at: &Path, mebibytes: u64) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m,mode=700"), "tmpfs"])
            .arg(at)
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then(|| Self { mounted_at: at.to_owned() })
    }

    /// Fills the disk until about this much is free.
    pub fn fill(&self, leave_mebibytes: u64) {
        let leave = leave_mebibytes * 1024 * 1024;
        let mut file = File::options().create(true).append(true).open(self.ballast()).unwrap();
        let block = vec![0; 64 * 1024];
        while leave == 0 || self.free() > leave {
            match file.write(&block) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => panic!("{}: {error}", self.mounted_at.display()),
            }
        }
    }

    /// Frees this much of the space that [`Self::fill`] took, at once.
    pub fn release(&self, mebibytes: u64) {
        let file = File::options().write(true).open(self.ballast()).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length.saturating_sub(mebibytes * 1024 * 1024)).unwrap();
    }

    pub fn clear(&self) {
        let _ = fs::remove_file(self.ballast());
    }

    fn free(&self) -> u64 {
        let stat = statvfs(&self.mounted_at).unwrap();
        stat.blocks_available() * stat.fragment_size()
    }

    fn ballast(&self) -> PathBuf {
        self.mounted_at.join(BALLAST)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A lazy unmount, because a dying process may have a file open.
        let _ = Command::new("umount").arg("-l").arg(&self.mounted_at).stderr(Stdio::null()).status();
    }
}
