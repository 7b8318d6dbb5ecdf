//! The one writer of a directory, in either layout.

use std::sync::Arc;
use std::time::Duration;

use super::encode::EncodedBatch;
use super::error::FileSinkError;
use super::folder::Folder;
use super::lock::{Lock, Owner};
use super::messages::MessageStore;
use super::name::STATE_FOLDER;
use super::outcome::Outcome;
use super::segments::SegmentStore;
use super::settings::{FileSettings, Layout};
use crate::clock::Clock;
use crate::disposition::Fault;
use crate::envelope::Identity;

/// The one writer of a directory.
#[derive(Debug)]
pub(super) enum Store {
    Segments(Box<SegmentStore>),
    Messages(Box<MessageStore>),
}

impl Store {
    pub(super) fn open(
        settings: &FileSettings,
        stream: &str,
        consumer: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, FileSinkError> {
        let base = Arc::new(Folder::open_base(&settings.directory)?);
        let (state, made) = base.folder_or_new(STATE_FOLDER)?;
        if made {
            base.sync()?;
        }
        let state = Arc::new(state);
        let lock = Lock::take(&base, &state, &Owner::new(stream, consumer, settings))?;
        Ok(match settings.layout {
            Layout::Segments => {
                Self::Segments(Box::new(SegmentStore::open(settings, stream, base, state, lock, clock)?))
            }
            Layout::OneFilePerMessage => {
                Self::Messages(Box::new(MessageStore::open(settings, stream, base, state, lock)?))
            }
        })
    }

    pub(super) fn commit(&mut self, batch: EncodedBatch) -> Outcome {
        match self {
            Self::Segments(store) => store.commit(batch),
            Self::Messages(store) => store.commit(batch),
        }
    }

    /// Messages of the other layout are remembered by their file names, which need more than the identity.
    pub(super) fn remembers(&mut self, identity: Identity) -> bool {
        match self {
            Self::Segments(store) => store.remembers(identity),
            Self::Messages(_) => false,
        }
    }

    pub(super) fn rotate(&mut self) {
        match self {
            Self::Segments(store) => store.rotate(),
            Self::Messages(_) => {}
        }
    }

    pub(super) fn probe(&mut self) -> Result<(), Fault> {
        match self {
            Self::Segments(store) => store.probe(),
            Self::Messages(store) => store.probe(),
        }
        .map_err(|failure| failure.fault())
    }

    pub(super) fn note_ack_floor(&mut self, floor: u64) {
        match self {
            Self::Segments(store) => store.note_ack_floor(floor),
            Self::Messages(_) => {}
        }
    }

    pub(super) fn close(&mut self, deadline: Duration) -> Result<(), Fault> {
        match self {
            Self::Segments(store) => store.close(deadline),
            Self::Messages(_) => Ok(()),
        }
    }
}
