//! The dead-letter record: pure; what it holds, in which form, and how it is kept within a size (formats §6).

mod settings;

pub use settings::{Format, RecordSettings};
