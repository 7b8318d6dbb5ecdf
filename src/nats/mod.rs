//! The sole importer of async-nats.

mod settings;

pub use settings::{
    BindMode, ConnectionSettings, ConsumerSettings, DeliverPolicy, OnGone, PublisherSettings, SignIn,
    TlsSettings,
};
