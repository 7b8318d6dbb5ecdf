//! The checks before the sink, in their fixed order: authenticity → size → policy. Pure: no I/O, no clock.

mod settings;

pub use settings::{Authenticity, GateSettings, MetadataHeaders, Policy, SizeLimits};
