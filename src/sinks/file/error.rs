//! Why a file sink cannot be opened.

use super::fault::FileFailure;
use std::path::PathBuf;

/// Why a file sink cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum FileSinkError {
    /// Another daemon of the same pipeline writes here; wait until it ends (`sink_locked`).
    #[error("another daemon of this pipeline writes to {}", directory.display())]
    Locked {
        /// The directory.
        directory: PathBuf,
    },
    /// The directory belongs to another pipeline, whether that runs now or not.
    #[error("{} belongs to {owner}; this is {own}", directory.display())]
    AnotherPipeline {
        /// The directory.
        directory: PathBuf,
        /// Whose it is.
        owner: String,
        /// Who asks.
        own: String,
    },
    /// The system refuses something.
    #[error(transparent)]
    Failed(#[from] FileFailure),
}
