//! The stdout sink: one line a record, for pipes and trials.
