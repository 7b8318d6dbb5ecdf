//! The loop: permits → pull → batch → settle.

mod settings;

pub use settings::{DeliverySettings, Order, TemporaryFailureAction};
