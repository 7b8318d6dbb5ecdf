//! No secret is ever shown: a canary is put wherever a secret could stand, also by mistake, and everything that can be
//! printed is searched for it.

use super::super::environment::variable_of;
use super::super::{ConfigError, Loaded, load};
use super::{Environment, MINIMAL, load_text};

/// Part of every canary, also where its first letter is percent-encoded.
const CANARY: &str = "ANARY";

fn shown(result: &Result<Loaded, ConfigError>) -> String {
    match result {
        Ok(loaded) => format!(
            "{loaded:?}\n{:#?}\n{}\n{}\n{}",
            loaded.settings,
            loaded.settings.warnings.join("\n"),
            loaded.effective.to_toml(),
            loaded.effective.to_json()
        ),
        Err(error) => format!("{error}\n{error:?}"),
    }
}

fn assert_silent(extension: &str, text: &str, environment: &Environment, valid: bool) {
    let result = load_text(extension, text, environment);
    let shown = shown(&result);
    assert!(!shown.contains(CANARY), "{text}\n---\n{shown}");
    assert_eq!(result.is_ok(), valid, "{text}\n---\n{shown}");
    assert!(!format!("{environment:?}").contains(CANARY));
}

#[test]
fn secrets_that_are_in_their_place() {
    let nothing = Environment::default();
    for server in ["nats://u:CANARY@h", "u:CANARY@h:1", "tls://CANARY@h", "nats://u:%43ANARY%40@h:4222/"] {
        assert_silent("toml", &MINIMAL.replace("nats://127.0.0.1:4222", server), &nothing, true);
        let variable = Environment::with([("JETSINK_NATS__SERVERS", server)]);
        assert_silent("toml", MINIMAL, &variable, true);
    }
    let directory = tempfile::tempdir().unwrap();
    let secret = directory.path().join("secret");
    std::fs::write(&secret, "CANARY").unwrap();
    let file = format!("token_file = \"{}\"\n[consumer]", secret.display());
    assert_silent("toml", &MINIMAL.replace("[consumer]", &file), &nothing, true);
    let variable = Environment::with([("THE_TOKEN", "CANARY"), ("JETSINK_NATS__TOKEN_ENV", "THE_TOKEN")]);
    assert_silent("toml", MINIMAL, &variable, true);
}

#[test]
fn secrets_in_the_wrong_place_of_a_file() {
    for line in [
        "password = \"CANARY\"",
        "password = 'CANARY' # CANARY",
        "token = { value = \"CANARY\" }",
        "nkey_seed = [\"CANARY\"]",
        "credentials = \"\"\"CANARY\nCANARY\"\"\"",
        "password_file = [\"CANARY\"]",
        "password_file = { CANARY = \"CANARY\" }",
        "password_env = \"CANARY!\"",
        "password_env = \"\"\"CANARY\nCANARY\"\"\"",
        "password_credential = \"/CANARY\"",
        "user = \"CANARY\"",
        "context = \"../CANARY\"",
        "inbox_prefix = \"CANARY.*\"",
        "domain = \"CANARY.CANARY\"",
        "connect_timeout = \"CANARY\"",
        "connect_timeout = \"30 CANARY\"",
        "no_such_key = \"CANARY\"",
        "no_such_table = { a = { b = [\"CANARY\"] } }",
        "tls = \"CANARY\"",
        "tls = { required = \"CANARY\" }",
        "name = { x = \"CANARY\" }",
        "password = CANARY",
        "password = \"CANARY",
        "password = \"CANARY\\q\"",
        "password = \"CANARY\"\npassword = \"CANARY\"",
        "\"password\" \"CANARY\"",
        "[nats]\npassword = \"CANARY\"",
    ] {
        let text = MINIMAL.replace("[consumer]", &format!("{line}\n[consumer]"));
        assert_silent("toml", &text, &Environment::default(), false);
    }
}

#[test]
fn keys_of_signatures_in_the_wrong_place() {
    let rule = "[message_authenticity]\nenabled = true\n[[message_authenticity.rules]]\nsubject = \"a\"\n\
                algorithm = \"ed25519\"\n";
    let place = "key_id = \"k\"\nkey_file = \"f\"\n";
    assert_silent("toml", &format!("{MINIMAL}{rule}{place}"), &Environment::default(), true);
    for line in [
        "key = \"CANARY\"",
        "secret = [\"CANARY\"]",
        "public_key = { pem = \"CANARY\" }",
        "key_base64 = \"\"\"CANARY\nCANARY\"\"\"",
        "key_env = \"CANARY=\"",
        "key_credential = \"CANARY/CANARY\"",
        "keys = [\"CANARY\"]",
        "keys = \"CANARY\"",
        "keys = [{ key = \"CANARY\" }]",
        "keys = [{ key_id = \"CANARY\", key_env = \"CANARY+/\" }]",
        "keys = [{ key_id = \"b\", key_file = \"b\", not_before = \"CANARY\" }]",
        "enabled = \"CANARY\"",
        "signed_fields = [\"CANARY\"]",
    ] {
        let text = format!("{MINIMAL}{rule}{place}{line}\n");
        assert_silent("toml", &text, &Environment::default(), false);
    }
    for json in
        [r#"[{"key": "CANARY"}]"#, r#"["CANARY"]"#, r#"[{"keys": [{"secret": "CANARY"}]}]"#, r#""CANARY""#]
    {
        let text = format!(r#"{{"message_authenticity": {{"enabled": true, "rules": {json}}}}}"#);
        assert_silent("json", &text, &Environment::default(), false);
        // JSON is YAML as well.
        assert_silent("yaml", &text, &Environment::default(), false);
    }
}

#[test]
fn secrets_in_server_urls_that_are_refused() {
    for server in [
        "nats://u:CANARY@h:x",
        "nats://u:CANARY@",
        "nats:/u:CANARY@h",
        "nats://u:CANARY%zz@h",
        "nats://u:%43ANARY%ff@h",
        "http://u:CANARY@h",
        "ws://CANARY@h",
        "CANARY h",
        "nats://h/CANARY",
        "u:CANARY",
        "nats://a:b@h\", \"nats://u:CANARY@h",
        "nats://u:CANARY@h\", \"nats://u:CANARY2@h",
        "nats://u:CANARY@h\"]\ntoken_env = \"T\"\ntoken_credential = \"t\"\nno = [\"",
    ] {
        let text = MINIMAL.replace("nats://127.0.0.1:4222", server);
        assert_silent("toml", &text, &Environment::default(), false);
    }
}

#[test]
fn secrets_anywhere_else() {
    for (key, value) in [
        ("message_metadata.default_priority", "CANARY\nCANARY"),
        ("message_metadata.default_mission_metadata", "CANARY"),
        ("message_metadata.default_mission_metadata", "{\"CANARY\": \"CANARY\", \"CANARY\": 1}"),
        ("security_labels.default", "{\"CANARY\": \"CANARY\"}"),
        ("security_labels.header", "CANARY CANARY"),
        ("message_authenticity.key_id_header", "Nats-CANARY"),
        ("consumer.stream", "CANARY CANARY"),
        ("consumer.durable", "CANARY."),
        ("consumer.filter_subjects", "CANARY..x"),
        ("consumer.backoff", "CANARY"),
        ("consumer.max_deliver", "CANARY"),
        ("delivery.order", "CANARY"),
        ("delivery.batch_bytes", "CANARY"),
        ("delivery.retry.jitter", "CANARY"),
        ("delivery.strict", "CANARY"),
        ("dead_letter.subject", "CANARY.>.x"),
        ("message_metadata.labels_header", "CANARY:"),
        ("message_authenticity.rules", "CANARY"),
        ("admin.listen", "CANARY"),
        ("logging.filter", "CANARY=["),
        ("sink.file.directory", "/{CANARY}"),
        ("nats.password", "CANARY"),
        ("nats.token", "CANARY"),
        ("nats.no_such_key", "CANARY"),
        ("nats.password_env", "CANARY!"),
        ("nats.tls", "CANARY"),
        ("no_such_table.no_such_key", "CANARY"),
    ] {
        let variable = variable_of(key);
        assert_silent("toml", MINIMAL, &Environment::with([(variable.as_str(), value)]), false);
    }
    let text = MINIMAL.replace("/var/lib/jetsink", "/{instance}");
    assert_silent("toml", &text, &Environment::with([("JETSINK_INSTANCE", "CANARY/..")]), false);
}

#[test]
fn secrets_in_json_and_yaml() {
    for text in [
        r#"{"nats": {"password": "CANARY"}}"#,
        r#"{"nats": {"password": "CANARY", "password": "CANARY"}}"#,
        r#"{"nats": {"password": CANARY}}"#,
        r#"{"nats": {"password": "CANARY"#,
        r#"{"nats": {"name": ["CANARY"]}}"#,
        r#"{"nats": "CANARY"}"#,
        r#""CANARY""#,
        r#"["CANARY"]"#,
    ] {
        assert_silent("json", text, &Environment::default(), false);
    }
    for text in [
        "nats:\n  password: CANARY\n",
        "nats:\n  password: *CANARY\n",
        "nats:\n  password: !!int CANARY\n",
        "nats:\n  password: !CANARY x\n",
        "nats:\n  password: \"CANARY\n",
        "nats:\n  password: |\n    CANARY: CANARY\n    x\n",
        "nats:\n  ? [CANARY]\n  : CANARY\n",
        "nats:\n  password: CANARY: CANARY\n",
        "nats: CANARY\n",
        "CANARY\n",
        "- CANARY\n",
    ] {
        assert_silent("yaml", text, &Environment::default(), false);
    }
}

#[test]
fn a_file_that_cannot_be_read_shows_its_path_only() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.toml");
    std::fs::write(&path, b"password = \"CANARY\xff\"").unwrap();
    let result = load(&path, &Environment::default());
    assert!(matches!(result, Err(ConfigError::NotText { .. })));
    assert!(!shown(&result).contains(CANARY));
}
