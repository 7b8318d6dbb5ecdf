//! `[admin]` and `[logging]` → their settings.

use std::net::SocketAddr;

use tracing_subscriber::EnvFilter;

use super::Validator;
use crate::config::raw::{self, Admin, Logging};
use crate::telemetry::{AdminSettings, LogFormat, LoggingSettings};

pub(super) fn admin(raw: &Admin, validator: &mut Validator<'_>) -> AdminSettings {
    let listen = raw.listen.as_ref().and_then(|text| {
        let address = text.parse::<SocketAddr>().ok();
        validator.require(
            address.is_some(),
            &["admin.listen"],
            "is not an address and a port",
            "write \"127.0.0.1:9464\", or \"[::1]:9464\"; names are not resolved",
        );
        address
    });
    if listen.is_some_and(|address| !address.ip().is_loopback()) {
        validator.warn("admin.listen: reachable from other machines, and it has no sign-in");
    }
    AdminSettings { listen }
}

pub(super) fn logging(raw: &Logging, validator: &mut Validator<'_>) -> LoggingSettings {
    validator.require(
        EnvFilter::builder().parse(&raw.filter).is_ok(),
        &["logging.filter"],
        "is not a filter",
        "write a level such as \"info\", or \"info,jetsink::nats=debug\"",
    );
    let format = match raw.format {
        raw::LogFormat::Text => LogFormat::Text,
        raw::LogFormat::Json => LogFormat::Json,
    };
    LoggingSettings { format, filter: raw.filter.clone() }
}
