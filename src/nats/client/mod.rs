//! The way to the server: connection and sign-in, contexts of the `nats` command, requests.

pub(super) mod api;
pub(super) mod connect;
pub(super) mod context;
pub(super) mod requests;
mod sign_in;
mod tls_files;
mod trouble;
