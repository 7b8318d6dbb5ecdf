//! One file for every message. Its name is made from the message's identity, so a file that is there is a commit.
//!
//! A file gets its name when it is complete and synced; the folders are synced once per batch, before anything is reported.

use std::collections::HashSet;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use super::crew::{Crew, Job};
use super::encode::{EncodedBatch, Line, Part};
use super::fault::FileFailure;
use super::folder::Folder;
use super::lock::Lock;
use super::name::{message_file, stream_part};
use super::outcome::Outcome;
use super::settings::{FileSettings, Record};
use super::trouble::Trouble;

/// Threads that write and sync files side by side.
const THREADS: usize = 8;

/// The files of a directory.
#[derive(Debug)]
pub(super) struct MessageStore {
    stream_part: String,
    ending: &'static str,
    base: Arc<Folder>,
    state: Arc<Folder>,
    /// Files whose names may not be durable, since syncing their folder failed: they are written again.
    unproven: HashSet<String>,
    trouble: Option<Trouble>,
    crew: Crew,
    #[expect(dead_code, reason = "held for life")]
    lock: Lock,
}

impl MessageStore {
    /// Removes unfinished files of an earlier life and makes the names of the finished ones durable.
    pub(super) fn open(
        settings: &FileSettings,
        stream: &str,
        base: Arc<Folder>,
        state: Arc<Folder>,
        lock: Lock,
    ) -> Result<Self, FileFailure> {
        for name in state.files()?.iter().filter(|name| name.ends_with(".tmp")) {
            state.remove(name)?;
        }
        for folder in base.folders()? {
            folder.sync()?;
        }
        base.sync()?;
        state.sync()?;
        let ending = match settings.record {
            Record::Full => "json",
            Record::Payload => "payload",
        };
        Ok(Self {
            stream_part: stream_part(stream),
            ending,
            base,
            state,
            unproven: HashSet::new(),
            trouble: None,
            crew: Crew::start(THREADS)?,
            lock,
        })
    }

    pub(super) fn commit(&mut self, batch: EncodedBatch) -> Outcome {
        let mut outcome = Outcome::default();
        let mut failed = None;
        for part in batch.parts {
            let needs = Trouble::of(std::slice::from_ref(&part));
            let records: Vec<usize> = part.lines.iter().map(|line| line.record).collect();
            match self.folder_of(&part.partition) {
                Err(failure) => {
                    outcome.fail(records, &failure.fault_of_partition());
                    failed = Some(needs);
                }
                Ok(folder) => match self.commit_part(part, &folder) {
                    Ok(()) => outcome.commit(records),
                    Err(failure) => {
                        outcome.fail(records, &failure.fault());
                        failed = Some(needs);
                    }
                },
            }
        }
        self.trouble = failed.map(|failed| failed.joined_with(self.trouble.as_ref()));
        outcome
    }

    fn folder_of(&self, partition: &str) -> Result<Arc<Folder>, FileFailure> {
        self.base.check_is_in_place()?;
        if partition.is_empty() {
            return Ok(Arc::clone(&self.base));
        }
        let (folder, made) = self.base.folder_or_new(partition)?;
        if made {
            self.base.sync()?;
        }
        Ok(Arc::new(folder))
    }

    /// Writes the files of one folder: all or nothing is reported.
    fn commit_part(&mut self, part: Part, folder: &Arc<Folder>) -> Result<(), FileFailure> {
        let mut files = Vec::new();
        let mut start = 0;
        for line in &part.lines {
            let name = message_file(&self.stream_part, line.identity, self.ending);
            if self.unproven.contains(&name) || !folder.holds_file(&name)? {
                files.push(Content { name, start, line: *line });
            }
            start = line.end;
        }
        if files.is_empty() {
            return Ok(());
        }
        let data = Arc::new(part.data);
        let share = files.len().div_ceil(THREADS + 1);
        let jobs: Vec<Job> = files
            .chunks(share)
            .map(|files| {
                let (files, data, state) = (files.to_vec(), Arc::clone(&data), Arc::clone(&self.state));
                let job: Job = Box::new(move || files.iter().try_for_each(|file| file.write(&data, &state)));
                job
            })
            .collect();
        if let Some(failure) = self.crew.run(jobs).into_iter().find_map(Result::err) {
            for file in &files {
                self.state.remove(&file.temporary())?;
            }
            return Err(failure);
        }
        #[cfg(feature = "failpoints")]
        crate::failpoint::hit("file.before_rename");
        let mut named =
            files.iter().try_for_each(|file| self.state.rename(&file.temporary(), folder, &file.name));
        if named.is_ok() {
            named = folder.sync();
        }
        if let Err(failure) = named {
            for file in files {
                // Where even this fails, the name is known to be no proof.
                if folder.remove(&file.name).is_err() {
                    tracing::warn!(file = file.name, "a file is in doubt and will be written again");
                }
                self.unproven.insert(file.name);
            }
            return Err(failure);
        }
        for file in &files {
            self.unproven.remove(&file.name);
        }
        Ok(())
    }

    pub(super) fn probe(&self) -> Result<(), FileFailure> {
        self.trouble.clone().unwrap_or_default().probe(&self.base, &self.state)
    }
}

/// One file to write.
#[derive(Clone, Debug)]
struct Content {
    name: String,
    start: usize,
    line: Line,
}

impl Content {
    fn temporary(&self) -> String {
        format!("{}.tmp", self.name)
    }

    fn write(&self, data: &[u8], state: &Folder) -> Result<(), FileFailure> {
        #[cfg(feature = "failpoints")]
        crate::failpoint::hit("file.before_write");
        let name = self.temporary();
        let path = state.path().join(&name);
        state.remove(&name)?;
        let file = state.create(&name)?;
        let bytes = data.get(self.start..self.line.end).unwrap_or_default();
        file.write_all_at(bytes, 0).map_err(|cause| FileFailure::new("write", &path, cause))?;
        #[cfg(feature = "failpoints")]
        crate::failpoint::hit("file.between_write_and_sync");
        file.sync_data().map_err(|cause| FileFailure::new("sync", &path, cause))?;
        #[cfg(feature = "failpoints")]
        crate::failpoint::hit("file.after_data_sync");
        Ok(())
    }
}
