//! What the integration tests stand on: real servers, the real daemon, and ways to look at both.
//!
//! Everything lives in temp folders and on loopback ports of its own; every process is ended by its pid when its owner is
//! dropped. Nothing sleeps: tests poll with deadlines ([`eventually`]) or watch that something stays as it is
//! ([`stays`]).

mod admin;
mod client;
mod command;
mod daemon;
mod mount;
mod mqtt;
mod ports;
mod raw;
mod rig;
mod segments;
mod server;
mod settings;
mod trace;
mod wait;

pub(crate) use admin::{Metrics, Readiness};
pub(crate) use client::{Client, Stored};
pub(crate) use command::{Ran, dlq, letter, start_dlq};
pub(crate) use daemon::Daemon;
pub(crate) use mount::Tmpfs;
pub(crate) use mqtt::{MqttClient, MqttPublish};
pub(crate) use ports::free_port;
pub(crate) use raw::RawClient;
pub(crate) use rig::{Rig, RigPlan, oversized, small};
pub(crate) use segments::{Record, records, sequences, whole_records};
pub(crate) use server::{Server, ServerKind, ServerPlan};
pub(crate) use settings::Settings;
pub(crate) use trace::Trace;
pub(crate) use wait::{eventually, stays};
