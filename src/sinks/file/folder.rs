//! Folders held open, and files named by one component below them.
//!
//! Names come from subjects, and other users may plant links: every open is relative to a held folder, takes a single
//! component and follows no symbolic link, so nothing outside the base directory can be reached.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::fault::FileFailure;

const FILE_MODE: Mode = Mode::from_raw_mode(0o640);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o750);
const FOLDER_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// `NONBLOCK` keeps a planted pipe from holding us; it means nothing for a regular file.
const FILE_FLAGS: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// A folder that is held open.
#[derive(Debug)]
pub(super) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

/// What tells one folder from another one of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Inode {
    device: u64,
    number: u64,
}

impl Folder {
    /// Opens the base directory, which may be reached through links; makes what is missing of it, durably.
    pub(super) fn open_base(path: &Path) -> Result<Self, FileFailure> {
        let absolute = std::path::absolute(path).map_err(|cause| FileFailure::new("resolve", path, cause))?;
        let missing: Vec<&Path> = absolute.ancestors().take_while(|ancestor| !ancestor.exists()).collect();
        for folder in missing.into_iter().rev() {
            match fs::mkdir(folder, FOLDER_MODE) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(FileFailure::new("create", folder, errno)),
            }
            if let Some(parent) = folder.parent() {
                Self::open_path(parent)?.sync()?;
            }
        }
        Self::open_path(&absolute)
    }

    fn open_path(path: &Path) -> Result<Self, FileFailure> {
        let fd = fs::open(path, FOLDER_FLAGS, Mode::empty())
            .map_err(|errno| FileFailure::new("open", path, errno))?;
        Ok(Self { fd, path: path.into() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the folder `name` in this one.
    pub(super) fn folder(&self, name: &str) -> Result<Self, FileFailure> {
        let fd = fs::openat(&self.fd, name, FOLDER_FLAGS | OFlags::NOFOLLOW, Mode::empty())
            .map_err(|errno| self.failure("open", name, errno))?;
        Ok(Self { fd, path: self.path.join(name) })
    }

    /// As [`Folder::folder`], and makes it if it is missing; true when it was. The caller syncs this folder then.
    pub(super) fn folder_or_new(&self, name: &str) -> Result<(Self, bool), FileFailure> {
        let made = match fs::mkdirat(&self.fd, name, FOLDER_MODE) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(self.failure("create", name, errno)),
        };
        Ok((self.folder(name)?, made))
    }

    /// Makes a file that must not exist.
    pub(super) fn create(&self, name: &str) -> Result<File, FileFailure> {
        let flags = FILE_FLAGS | OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
        fs::openat(&self.fd, name, flags, FILE_MODE)
            .map(File::from)
            .map_err(|errno| self.failure("create", name, errno))
    }

    /// Opens a regular file to read and write.
    pub(super) fn open(&self, name: &str) -> Result<File, FileFailure> {
        self.open_regular(name, OFlags::RDWR)
    }

    /// Opens a regular file to read.
    pub(super) fn open_to_read(&self, name: &str) -> Result<File, FileFailure> {
        self.open_regular(name, OFlags::RDONLY)
    }

    /// Opens a regular file to read; makes it if it is missing.
    pub(super) fn open_or_create(&self, name: &str) -> Result<File, FileFailure> {
        self.open_regular(name, OFlags::RDONLY | OFlags::CREATE)
    }

    fn open_regular(&self, name: &str, flags: OFlags) -> Result<File, FileFailure> {
        let file = fs::openat(&self.fd, name, FILE_FLAGS | flags, FILE_MODE)
            .map_err(|errno| self.failure("open", name, errno))?;
        let stat = fs::fstat(&file).map_err(|errno| self.failure("inspect", name, errno))?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            Ok(File::from(file))
        } else {
            Err(self.failure("use as a regular file", name, Errno::LOOP))
        }
    }

    /// Whether anything has this name.
    pub(super) fn holds(&self, name: &str) -> Result<bool, FileFailure> {
        match fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(self.failure("inspect", name, errno)),
        }
    }

    /// Whether a regular file has this name: a link or a pipe of that name is no proof of anything.
    pub(super) fn holds_file(&self, name: &str) -> Result<bool, FileFailure> {
        match fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(self.failure("inspect", name, errno)),
        }
    }

    pub(super) fn rename(&self, from: &str, target: &Self, to: &str) -> Result<(), FileFailure> {
        fs::renameat(&self.fd, from, &target.fd, to).map_err(|errno| self.failure("rename", from, errno))
    }

    /// Removes a file; one that is not there is removed already.
    pub(super) fn remove(&self, name: &str) -> Result<(), FileFailure> {
        match fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.failure("remove", name, errno)),
        }
    }

    /// Makes the names in this folder durable.
    pub(super) fn sync(&self) -> Result<(), FileFailure> {
        fs::fsync(&self.fd).map_err(|errno| FileFailure::new("sync", &self.path, errno))
    }

    /// Names of the regular files in here.
    pub(super) fn files(&self) -> Result<Vec<String>, FileFailure> {
        self.list(FileType::RegularFile)
    }

    /// The folders in here that are not hidden; those that are closed to us are none of ours.
    pub(super) fn folders(&self) -> Result<Vec<Self>, FileFailure> {
        let mut folders = Vec::new();
        for name in self.list(FileType::Directory)?.iter().filter(|name| !name.starts_with('.')) {
            match self.folder(name) {
                Ok(folder) => folders.push(folder),
                Err(failure) if failure.errno() == Some(Errno::ACCESS) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(folders)
    }

    /// Names of one kind; a name that is no UTF-8 is none of ours.
    fn list(&self, wanted: FileType) -> Result<Vec<String>, FileFailure> {
        let failure = |errno| FileFailure::new("list", &self.path, errno);
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(failure)? {
            let entry = entry.map_err(failure)?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let mut kind = entry.file_type();
            if kind == FileType::Unknown {
                let stat = fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failure)?;
                kind = FileType::from_raw_mode(stat.st_mode);
            }
            if kind == wanted {
                names.push(name.into());
            }
        }
        Ok(names)
    }

    /// Whether the path still leads to the folder that is held.
    pub(super) fn check_is_in_place(&self) -> Result<(), FileFailure> {
        let held =
            fs::fstat(self.fd.as_fd()).map_err(|errno| FileFailure::new("inspect", &self.path, errno))?;
        let found = fs::stat(&self.path).map_err(|errno| FileFailure::new("find", &self.path, errno))?;
        if inode(&held) == inode(&found) {
            Ok(())
        } else {
            Err(FileFailure::new("find the same directory at", &self.path, Errno::STALE))
        }
    }

    /// Whether the name still leads to the file that is held.
    pub(super) fn leads_to(&self, name: &str, file: &File) -> bool {
        match (fs::fstat(file), fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)) {
            (Ok(held), Ok(found)) => inode(&held) == inode(&found),
            _ => false,
        }
    }

    fn failure(&self, operation: &'static str, name: &str, errno: Errno) -> FileFailure {
        FileFailure::new(operation, &self.path.join(name), errno)
    }
}

const fn inode(stat: &fs::Stat) -> Inode {
    Inode { device: stat.st_dev, number: stat.st_ino }
}

/// Whether an open file has lost its last name: what is written to it will be gone.
pub(super) fn is_unlinked(file: &File, path: &Path) -> Result<bool, FileFailure> {
    let stat = fs::fstat(file).map_err(|errno| FileFailure::new("inspect", path, errno))?;
    Ok(stat.st_nlink == 0)
}
