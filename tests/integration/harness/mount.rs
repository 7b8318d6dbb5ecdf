//! A small file system of its own, to be filled up.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A tmpfs; unmounted when dropped.
#[derive(Debug)]
pub(crate) struct Tmpfs {
    directory: TempDir,
}

impl Tmpfs {
    /// Mounts one of this size (`64k`). Needs the right to mount: root, or a user namespace (`unshare -rm`), which
    /// tests/run.sh takes when it is not root.
    pub(crate) fn mount(size: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mounted = Self { directory };
        mounted.run("mount", &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]);
        mounted
    }

    /// Gives it another size while it is in use.
    pub(crate) fn resize(&self, size: &str) {
        self.run("mount", &["-o", &format!("remount,size={size}")]);
    }

    fn run(&self, command: &str, words: &[&str]) {
        let done = Command::new(command).args(words).arg(self.directory.path()).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(
            done.status.success(),
            "{command} {words:?} failed; this test needs the right to mount: {said}"
        );
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Fills what is left with one file; removing that file frees it again.
    pub(crate) fn fill(&self) -> PathBuf {
        let path = self.directory.path().join(".ballast");
        let mut file = File::create(&path).unwrap();
        while file.write_all(&[0; 512]).is_ok() {}
        path
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // A lazy one: whoever still holds a file there must not keep the test from ending.
        let done = Command::new("umount").arg("-l").arg(self.directory.path()).status();
        if !std::thread::panicking() {
            assert!(done.unwrap().success(), "umount failed");
            assert!(fs::read_dir(self.directory.path()).unwrap().next().is_none(), "still mounted");
        }
    }
}
