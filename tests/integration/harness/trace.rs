//! The daemon under strace: what it asks of the kernel, in which order; and calls that are slow or fail.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

/// One use of strace.
#[derive(Debug)]
pub(crate) struct Trace {
    directory: TempDir,
    words: Vec<String>,
}

impl Trace {
    /// Notes these system calls, `write,fdatasync`, with whole arguments and the paths of descriptors.
    pub(crate) fn of(calls: &str) -> Self {
        Self::with(vec![format!("trace={calls}")])
    }

    /// Tampers with these calls: `fdatasync:delay_exit=100000` or `fdatasync:error=EIO:when=3`.
    pub(crate) fn injecting(rule: &str) -> Self {
        let calls = rule.split(':').next().unwrap();
        Self::with(vec![format!("trace={calls}"), format!("inject={rule}")])
    }

    fn with(expressions: Vec<String>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // -D: strace becomes a grandchild, so that the process we start is the daemon itself; it ends with the daemon.
        let mut words = ["strace", "-D", "-f", "-y", "-s", "256", "-o"].map(str::to_owned).to_vec();
        words.push(directory.path().join("calls").to_str().unwrap().to_owned());
        for expression in expressions {
            words.extend(["-e".to_owned(), expression]);
        }
        Self { directory, words }
    }

    /// The command line before the daemon's own.
    pub(crate) fn launcher(&self) -> &[String] {
        &self.words
    }

    /// The calls so far, one a line, each where it ended.
    pub(crate) fn calls(&self) -> Vec<String> {
        let path: PathBuf = self.directory.path().join("calls");
        let text = fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
    }
}
