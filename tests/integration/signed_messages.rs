//! Signed messages at a real server: both algorithms, a key that is replaced while the daemon runs, and nothing of a key, a
//! signature or a message in the log at debug level.

use std::time::Duration;

use async_nats::HeaderMap;
use jetsink::checks::authenticity::{Algorithm, AuthenticityHeaders, SignedField, SigningInput, SigningKey};
use jetsink::envelope::Metadata;
use rustix::process::Signal;

use crate::harness::{Daemon, Rig, Settings, eventually};

const SOON: Duration = Duration::from_secs(20);
const FIELDS: &[SignedField] = &[SignedField::Subject, SignedField::MessageId];

const RULES: &str = r#"
    [logging]
    filter = "debug"
    [message_authenticity]
    enabled = true
    [[message_authenticity.rules]]
    subject = "src.public.>"
    algorithm = "ed25519"
    key_id = "e1"
    key_file = "@PUBLIC@"
    [[message_authenticity.rules]]
    subject = "src.shared.>"
    algorithm = "hmac-sha256"
    key_id = "h1"
    key_file = "@SHARED@"
"#;

/// Publishes a message that `key` signed; gives its sequence and the signature.
async fn publish(rig: &Rig, key: &SigningKey, key_id: &str, subject: &str, id: &str) -> (u64, String) {
    let payload = format!("{{\"id\":\"{id}\",\"text\":\"CANARY-BODY\"}}");
    let metadata = Metadata::default();
    let input =
        SigningInput { subject, message_id: Some(id), metadata: &metadata, payload: payload.as_bytes() };
    let signature = key.sign(key_id, FIELDS, &input);
    let names = AuthenticityHeaders::default();
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Id", id);
    for (name, value) in signature.headers(&names) {
        headers.insert(name, value);
    }
    (rig.client.publish_with(subject, headers, payload).await, signature.text)
}

#[tokio::test]
async fn signed_messages_pass_and_keys_are_replaced_while_the_daemon_runs() {
    let rig = Rig::start().await;
    let (public, shared) = (rig.folder().join("public"), rig.folder().join("shared"));
    let ed25519 = SigningKey::generate(Algorithm::Ed25519).unwrap();
    let (old, new) = (
        SigningKey::generate(Algorithm::HmacSha256).unwrap(),
        SigningKey::generate(Algorithm::HmacSha256).unwrap(),
    );
    std::fs::write(&public, ed25519.public_text().unwrap() + "\n").unwrap();
    std::fs::write(&shared, old.secret_text().expose()).unwrap();
    let rules =
        RULES.replace("@PUBLIC@", public.to_str().unwrap()).replace("@SHARED@", shared.to_str().unwrap());
    let mut settings = rig.settings();
    settings.merge(&Settings::parse(&rules));
    let mut daemon = Daemon::start(&settings, &[]);
    daemon.ready().await;
    let (first, one) = publish(&rig, &ed25519, "e1", "src.public.a", "m1").await;
    let (second, two) = publish(&rig, &old, "h1", "src.shared.a", "m2").await;
    let (third, three) = publish(&rig, &new, "h1", "src.shared.a", "m3").await;
    rig.sink_holds(&[first, second], SOON).await;
    rig.drained(SOON).await;
    assert_eq!(rig.dead_letters().await, [third]);

    reload(&daemon, "failed", 1.0, || std::fs::write(&shared, "CANARY-KEY").unwrap()).await;
    let (fourth, four) = publish(&rig, &old, "h1", "src.shared.a", "m4").await;
    rig.sink_holds(&[first, second, fourth], SOON).await;

    reload(&daemon, "succeeded", 1.0, || std::fs::write(&shared, new.secret_text().expose()).unwrap()).await;
    let (fifth, five) = publish(&rig, &new, "h1", "src.shared.a", "m5").await;
    let (sixth, six) = publish(&rig, &old, "h1", "src.shared.a", "m6").await;
    rig.sink_holds(&[first, second, fourth, fifth], SOON).await;
    rig.drained(SOON).await;
    assert_eq!(rig.dead_letters().await, [third, sixth]);

    let log = daemon.log();
    assert!(log.contains("the gate rejects the message") && log.contains("signature_invalid"), "{log}");
    let keys = [&ed25519, &old, &new].map(|key| key.secret_text().expose().to_owned());
    for canary in ["CANARY-KEY", "CANARY-BODY"].map(str::to_owned).iter().chain(&keys) {
        assert!(!log.contains(canary.as_str()), "{canary} is in the log");
    }
    for signature in [one, two, three, four, five, six] {
        assert!(!log.contains(&signature), "a signature is in the log");
    }
    daemon.stop().await;
}

/// Changes a key file, sends SIGHUP and waits for the outcome.
async fn reload(daemon: &Daemon, outcome: &str, count: f64, change: impl FnOnce()) {
    change();
    daemon.signal(Signal::HUP);
    eventually(SOON, "the keys are read again", async || {
        let metrics = daemon.metrics().await?;
        let found = metrics.sum("jetsink_key_reloads_total", &[&format!("outcome=\"{outcome}\"")]);
        if found == count { Ok(()) } else { Err(format!("{found}")) }
    })
    .await;
}
