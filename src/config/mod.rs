//! Configuration: raw (serde) → settings (validated). No effects but reading files.
