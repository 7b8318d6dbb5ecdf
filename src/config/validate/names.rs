//! Names that NATS must accept.

/// The longest name of a stream or durable.
const LONGEST: usize = 255;

/// What is wrong with a name of a stream, durable or domain: it becomes one token of API subjects and a directory of the
/// server.
pub(super) fn fault_of(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("is empty")
    } else if name.len() > LONGEST {
        Some("is longer than 255 bytes")
    } else if name.contains(['.', '*', '>', '/', '\\']) {
        Some("holds one of . * > / \\")
    } else if name.contains(|other: char| other.is_whitespace() || other.is_control()) {
        Some("holds white space or a control character")
    } else {
        None
    }
}

/// Whether a stream belongs to the server's MQTT gateway: `$MQTT_msgs`, `$MQTT_rmsgs`, `$MQTT_sess`, `$MQTT_qos2in`,
/// `$MQTT_out`, and whatever a later server adds.
pub(super) fn is_of_the_mqtt_gateway(stream: &str) -> bool {
    stream.starts_with("$MQTT_")
}

/// What is wrong with a header name.
pub(super) fn header_fault_of(name: &str) -> Option<&'static str> {
    let plain = |other: char| other.is_ascii_graphic() && other != ':';
    (name.is_empty() || !name.chars().all(plain)).then_some("is not a header name")
}

/// Whether a header has a meaning of its own: a command to the server, the id of a message, or a fact of the server's MQTT
/// gateway.
pub(super) fn is_reserved_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let of_server = name.starts_with("nats-") && !name.starts_with("nats-sinks-");
    of_server || name.starts_with("nmqtt-") || name == "message-id"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nats_refuses_are_refused_here() {
        for name in ["", "a.b", "a b", "*", ">", "a/b", "a\\b", "a\tb", &"x".repeat(256)] {
            assert!(fault_of(name).is_some(), "{name:?}");
        }
        for name in ["ORDERS", "orders_dlq-1", "größe"] {
            assert_eq!(fault_of(name), None);
        }
        assert!(header_fault_of("A:b").is_some());
        assert_eq!(header_fault_of("Nats-Sinks-Labels"), None);
        for name in ["Nats-Msg-Id", "nats-message-ID", "Message-Id", "Nats-TTL", "Nmqtt-Pub"] {
            assert!(is_reserved_header(name), "{name}");
        }
        for name in ["Nats-Sinks-Labels", "X-Labels", "Message-Ids", "Natsy"] {
            assert!(!is_reserved_header(name), "{name}");
        }
    }
}
