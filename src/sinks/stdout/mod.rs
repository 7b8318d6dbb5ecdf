//! The stdout sink: one line a record, for pipes and trials.

mod settings;

pub use settings::StdoutSettings;
