//! What a failed system call means: for one record, for now, or for everybody.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::disposition::{Fault, Refusal};
use crate::reason::ReasonCode;

/// A call that failed, with what it was for and where.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}: {cause}", path.display())]
pub struct FileFailure {
    /// What was tried, as a verb.
    pub operation: &'static str,
    /// On what.
    pub path: PathBuf,
    /// What the system said.
    pub cause: io::Error,
}

impl FileFailure {
    pub(super) fn new(operation: &'static str, path: &Path, cause: impl Into<io::Error>) -> Self {
        Self { operation, path: path.into(), cause: cause.into() }
    }

    pub(super) fn errno(&self) -> Option<Errno> {
        Errno::from_io_error(&self.cause)
    }

    /// The fault of every record that this failure keeps from being durable.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self.errno() {
            Some(errno) if is_down(errno) => Fault::sink_down(format!("{self}{}", remedy(errno))),
            // The end of a file where bytes were promised, and a write that took nothing.
            None if matches!(self.cause.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::WriteZero) => {
                Fault::sink_down(self.to_string())
            }
            _ => Fault::transient(self.to_string()),
        }
    }

    /// The fault of the records of one partition whose folder cannot be used.
    pub(super) fn fault_of_partition(&self) -> Fault {
        match self.errno() {
            Some(Errno::LOOP | Errno::NOTDIR) => Fault::Refused(Refusal {
                reason: ReasonCode::SinkRefused,
                detail: format!("{self}; a partition must be a real folder, no link is followed"),
            }),
            Some(Errno::NAMETOOLONG) => {
                Fault::Refused(Refusal { reason: ReasonCode::NameTooLong, detail: self.to_string() })
            }
            _ => self.fault(),
        }
    }
}

const fn is_down(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOSPC
            | Errno::DQUOT
            | Errno::ROFS
            | Errno::ACCESS
            | Errno::PERM
            | Errno::IO
            | Errno::NOENT
            | Errno::LOOP
            | Errno::NOTDIR
            | Errno::STALE
            | Errno::FBIG
            | Errno::NXIO
            | Errno::NODEV
    )
}

const fn remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::NOSPC => "; free space on this file system",
        Errno::DQUOT => "; raise the quota or free space",
        Errno::ROFS => "; mount the file system writable",
        Errno::ACCESS | Errno::PERM => "; give the daemon's user write access",
        Errno::NOENT | Errno::STALE => "; bring the directory back, or restart to begin a new one",
        Errno::IO => "; check the disk",
        Errno::FBIG => "; raise the limit on file size",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(errno: Errno) -> FileFailure {
        FileFailure::new("write", Path::new("/data/x.ndjson.open"), errno)
    }

    #[test]
    fn a_disk_that_fails_is_down_and_a_shortage_of_this_process_is_transient() {
        for errno in
            [Errno::NOSPC, Errno::DQUOT, Errno::ROFS, Errno::ACCESS, Errno::IO, Errno::NOENT, Errno::FBIG]
        {
            let fault = failure(errno).fault();
            assert!(
                matches!(&fault, Fault::SinkDown { detail } if detail.contains("/data/x.ndjson.open")),
                "{fault:?}"
            );
        }
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INTR, Errno::AGAIN] {
            assert!(matches!(failure(errno).fault(), Fault::Transient { .. }), "{errno:?}");
        }
    }

    #[test]
    fn a_link_in_place_of_a_partition_is_the_fault_of_its_records_only() {
        for errno in [Errno::LOOP, Errno::NOTDIR, Errno::NAMETOOLONG] {
            assert!(matches!(failure(errno).fault_of_partition(), Fault::Refused(_)));
        }
        assert!(matches!(failure(Errno::NOSPC).fault_of_partition(), Fault::SinkDown { .. }));
    }
}
