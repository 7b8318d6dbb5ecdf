//! Integration tests: the real daemon against real servers. One file per behaviour.

#[cfg(test)]
mod ack_refused;
#[cfg(test)]
mod ack_wait;
#[cfg(test)]
mod advisories;
#[cfg(test)]
mod canaries;
#[cfg(test)]
mod dead_letter_commands;
#[cfg(test)]
mod dead_letter_rules;
#[cfg(test)]
mod dead_letter_size;
#[cfg(test)]
mod dead_letter_stream;
#[cfg(test)]
mod dlq_change;
#[cfg(test)]
mod dlq_read;
#[cfg(test)]
mod dlq_redrive;
#[cfg(test)]
mod dlq_scale;
#[cfg(test)]
mod dlq_through;
#[cfg(test)]
mod drain;
#[cfg(test)]
mod existing_durable;
#[cfg(test)]
mod given_up;
#[cfg(test)]
mod gone;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod harness_works;
#[cfg(test)]
mod headers_only;
#[cfg(test)]
mod interest;
#[cfg(test)]
mod mqtt_gateway;
#[cfg(test)]
mod nats_bind;
#[cfg(test)]
mod nats_command;
#[cfg(test)]
mod nats_pull;
#[cfg(test)]
mod nats_settle;
#[cfg(test)]
mod nats_wire;
#[cfg(test)]
mod order_of_calls;
#[cfg(test)]
mod preflight;
#[cfg(test)]
mod pull_limits;
#[cfg(test)]
mod reason_codes;
#[cfg(test)]
mod server_trouble;
#[cfg(test)]
mod sign_in;
#[cfg(test)]
mod signed_messages;
#[cfg(test)]
mod sink_down;
#[cfg(test)]
mod tools;
#[cfg(test)]
mod torn_line;
#[cfg(test)]
mod undeliverable;
