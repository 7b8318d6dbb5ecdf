//! Values that must be in range, and values that must go together.

use super::{problems, with};
use crate::nats::SignIn;
use crate::secret::{Secret, SecretSource};

/// Overrides that must be refused with one problem, the key it names, and a word of it.
type Case<'text> = (&'text [(&'text str, &'text str)], &'text str, &'text str);

fn all_refused(cases: &[Case<'_>]) {
    for (overrides, key, word) in cases {
        let found = problems(with(overrides));
        assert_eq!(found.len(), 1, "{overrides:?}: {found:?}");
        let problem = found.first().unwrap();
        assert_eq!(problem.key.as_deref(), Some(*key), "{overrides:?}: {problem}");
        assert!(problem.to_string().contains(word), "{overrides:?}: {problem}");
        assert!(!problem.remedy.is_empty());
    }
}

#[test]
fn batches_and_retries() {
    all_refused(&[
        (&[("delivery.batch_size", "0")], "delivery.batch_size", "1 or more"),
        (&[("delivery.batch_size", "10001")], "delivery.batch_size", "max_batch_messages"),
        (&[("size_policy.max_batch_messages", "499")], "size_policy.max_batch_messages", "500"),
        (&[("delivery.batch_bytes", "0 B")], "delivery.batch_bytes", "out of range"),
        (&[("delivery.parked_bytes", "0 B")], "delivery.parked_bytes", "out of range"),
        (&[("delivery.max_parked", "0")], "delivery.max_parked", "out of range"),
        (&[("delivery.max_in_flight_batches", "257")], "delivery.max_in_flight_batches", "1 to 256"),
        (&[("delivery.max_attempts", "0")], "delivery.max_attempts", "out of range"),
        (&[("delivery.crash_limit", "1")], "delivery.crash_limit", "2 or more"),
        (&[("delivery.retry.initial", "31s")], "delivery.retry.initial", "longer than the longest"),
        (&[("delivery.retry.initial", "0s")], "delivery.retry.initial", "too short"),
        (&[("delivery.retry.multiplier", "0.9")], "delivery.retry.multiplier", "1 to 100"),
        (&[("delivery.retry.jitter", "0.6")], "delivery.retry.jitter", "0 to 0.5"),
        (&[("delivery.linger", "1s"), ("consumer.max_ack_pending", "100")], "delivery.linger", "never fill"),
    ]);
}

#[test]
fn order_and_deadlines() {
    let action = "delivery.temporary_failure_action";
    all_refused(&[
        (&[(action, "nak")], action, "any"),
        (&[(action, "leave_unacked")], action, "any"),
        (&[("delivery.strict", "true"), ("delivery.order", "any")], "delivery.strict", "has none"),
        (&[("delivery.shutdown_timeout", "5s")], "delivery.shutdown_timeout", "consumer.expires"),
        (&[("consumer.expires", "25s")], "consumer.expires", "longer than"),
        (&[("delivery.write_timeout", "500ms")], "delivery.write_timeout", "too short"),
        (&[("delivery.in_progress_cap", "59s")], "delivery.in_progress_cap", "write_timeout"),
        (
            &[("delivery.in_progress", "false"), ("consumer.ack_wait", "30s")],
            "delivery.in_progress",
            "outlast",
        ),
        (&[("delivery.in_progress", "false")], "delivery.in_progress", "30s"),
    ]);
    assert!(with(&[("delivery.in_progress", "false"), ("delivery.write_timeout", "29s")]).is_ok());
    assert_eq!(problems(with(&[("delivery.strict", "true"), (action, "nak")])).len(), 2);
    let zero = problems(with(&[("delivery.shutdown_timeout", "0s")]));
    assert!(zero.iter().all(|problem| problem.key.as_deref() == Some("delivery.shutdown_timeout")));
    assert!(with(&[("delivery.order", "any"), (action, "nak")]).is_ok());
    assert!(with(&[("delivery.strict", "true"), ("delivery.order", "subject")]).is_ok());
}

#[test]
fn what_rests_on_a_wrong_value_is_not_judged() {
    let found = problems(with(&[("delivery.batch_size", "many"), ("size_policy.max_batch_messages", "5")]));
    assert_eq!(found.len(), 1, "{found:?}");
    let found = problems(with(&[("nats.user", "u"), ("nats.password_file", " ")]));
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn consumer() {
    all_refused(&[
        (&[("consumer.stream", "A B")], "consumer.stream", "white space"),
        (&[("consumer.durable", "a/b")], "consumer.durable", "holds one of"),
        (&[("consumer.expires", "999ms")], "consumer.expires", "\"1s\" or more"),
        (
            &[("consumer.ack_wait", "1m"), ("consumer.backoff", "1s,5s")],
            "consumer.backoff",
            "quietly replaces",
        ),
        (&[("consumer.max_deliver", "1"), ("consumer.backoff", "1s,5s")], "consumer.backoff", "2 steps"),
        (&[("consumer.backoff", "0s")], "consumer.backoff[0]", "too short"),
        (&[("consumer.max_deliver", "0")], "consumer.max_deliver", "-1"),
        (&[("consumer.max_ack_pending", "-2")], "consumer.max_ack_pending", "-1"),
        (&[("consumer.replicas", "6")], "consumer.replicas", "1 to 5"),
        (&[("consumer.start_sequence", "4")], "consumer.start_sequence", "without"),
        (&[("consumer.deliver_policy", "start_sequence")], "consumer.deliver_policy", "without a sequence"),
        (&[("consumer.filter_subjects", "a.>,a.b")], "consumer.filter_subjects[1]", "overlaps"),
        (&[("consumer.filter_subjects", "a..b")], "consumer.filter_subjects[0]", "empty token"),
    ]);
}

#[test]
fn dead_letters_checks_sink_and_operations() {
    let subject = "dead_letter.subject";
    all_refused(&[
        (&[("dead_letter.timeout", "1s")], subject, "is missing"),
        (&[(subject, "dlq.*")], subject, "wildcard"),
        (&[(subject, "dlq x")], subject, "white space"),
        (&[(subject, "$JS.x")], subject, "keeps for itself"),
        (&[(subject, "a.dlq"), ("consumer.filter_subjects", "a.>")], subject, "come back"),
        (&[(subject, "dlq"), ("dead_letter.stream", "ORDERS")], "dead_letter.stream", "source stream"),
        (&[("size_policy.max_headers_bytes", "4 KiB")], "size_policy.max_headers_bytes", "8 KiB"),
        (&[("size_policy.max_labels_bytes", "127 B")], "size_policy.max_labels_bytes", "128 B"),
        (&[("size_policy.max_payload_bytes", "21 MiB")], "size_policy.max_payload_bytes", "20 MiB"),
        (&[("message_metadata.labels_header", "a:b")], "message_metadata.labels_header", "header name"),
        (
            &[("message_metadata.labels_header", "nats-sinks-priority")],
            "message_metadata.labels_header",
            "same",
        ),
        (&[("sink.file.rotate_bytes", "1 KiB")], "sink.file.rotate_bytes", "64 KiB"),
        (&[("sink.file.max_open_files", "0")], "sink.file.max_open_files", "out of range"),
        (
            &[("sink.file.record", "payload"), ("consumer.headers_only", "expected")],
            "sink.file.record",
            "no payloads",
        ),
        (&[("admin.listen", "localhost:9464")], "admin.listen", "127.0.0.1:9464"),
        (&[("logging.filter", "info,=[")], "logging.filter", "is not a filter"),
    ]);
}

#[test]
fn ways_to_sign_in() {
    all_refused(&[
        (&[("nats.user", "u")], "nats.user", "without a password"),
        (&[("nats.password_env", "P")], "nats.password_env", "without a user"),
        (&[("nats.token_env", "T"), ("nats.token_file", "f")], "nats.token_file", "more than one place"),
        (&[("nats.token_env", "T"), ("nats.nkey_seed_file", "f")], "nats.token_env", "more than one way"),
        (&[("nats.servers", "u:p@h"), ("nats.token_env", "T")], "nats.servers", "more than one way"),
        (&[("nats.servers", "u:p@h,u:q@h")], "nats.servers[1]", "differ"),
        (&[("nats.servers", "ws://h")], "nats.servers[0]", "WebSocket"),
        (&[("nats.token_env", "a b")], "nats.token_env", "not the secret"),
        (&[("nats.token_credential", "../x")], "nats.token_credential", "LoadCredential"),
        (&[("nats.tls.key_file", "k")], "nats.tls.key_file", "set both"),
        (&[("nats.context", "hub")], "nats.context", "nats.servers"),
        (&[("nats.inbox_prefix", "_INBOX.*")], "nats.inbox_prefix", "wildcard"),
        (&[("nats.domain", "a.b")], "nats.domain", "holds one of"),
    ]);
    let sign_in = |overrides| with(overrides).unwrap().settings.connection.sign_in;
    let password = SecretSource::File("/p".into());
    let expected = SignIn::UserPassword { user: "u".into(), password };
    assert_eq!(sign_in(&[("nats.user", "u"), ("nats.password_file", "/p")]), expected);
    let expected = SignIn::Nkey(SecretSource::Credential("seed".into()));
    assert_eq!(sign_in(&[("nats.nkey_seed_credential", "seed")]), expected);
    let expected = SignIn::Credentials(SecretSource::Environment("CREDS".into()));
    assert_eq!(sign_in(&[("nats.credentials_env", "CREDS")]), expected);
    let loaded = with(&[("nats.servers", "nats://u:p%40@h:1,nats://h:2")]).unwrap().settings;
    let password = SecretSource::Inline(Secret::new("p@".into()));
    assert_eq!(loaded.connection.sign_in, SignIn::UserPassword { user: "u".into(), password });
    assert_eq!(loaded.connection.servers, ["nats://h:1", "nats://h:2"]);
}

#[test]
fn what_is_allowed_and_yet_worth_a_word() {
    for (overrides, word) in [
        (&[] as &[(&str, &str)], "authenticity: off"),
        (&[], "policy: off"),
        (&[], "dead_letter: not configured"),
        (&[("consumer.max_deliver", "10")], "delivery.crash_limit = 10"),
        (&[("admin.listen", "0.0.0.0:9464")], "no sign-in"),
        (&[("sink.stdout.record", "payload")], "sink.stdout is written and not used"),
        (&[("delivery.strict", "true")], "one jetsink"),
        (&[("nats.servers", "u:p@h")], "in the clear"),
        (&[("nats.servers", "tls://a,nats://b"), ("nats.tls.ca_file", "/ca")], "offers no TLS"),
    ] {
        let warnings = with(overrides).unwrap().settings.warnings;
        assert!(warnings.iter().any(|warning| warning.contains(word)), "{word}: {warnings:?}");
    }
    let quiet = with(&[
        ("consumer.max_deliver", "11"),
        ("admin.listen", "[::1]:9464"),
        ("dead_letter.subject", "dlq"),
        ("consumer.max_ack_pending", "1"),
        ("delivery.strict", "true"),
        ("nats.servers", "tls://a,tls://b"),
        ("nats.tls.ca_file", "/ca"),
    ]);
    assert_eq!(quiet.unwrap().settings.warnings.len(), 2);
}

#[test]
fn streams_of_the_mqtt_gateway_are_left_to_it() {
    for name in ["$MQTT_msgs", "$MQTT_rmsgs", "$MQTT_sess", "$MQTT_qos2in", "$MQTT_out", "$MQTT_later"] {
        all_refused(&[
            (&[("consumer.stream", name)], "consumer.stream", "MQTT gateway"),
            (
                &[("dead_letter.subject", "dlq.orders"), ("dead_letter.stream", name)],
                "dead_letter.stream",
                "MQTT gateway",
            ),
        ]);
    }
    assert!(with(&[("consumer.stream", "MQTT_msgs")]).is_ok());
}
