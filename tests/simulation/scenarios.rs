//! Named scenarios.
