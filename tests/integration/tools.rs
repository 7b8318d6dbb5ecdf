//! `keygen`, `sign`, `verify`, `explain` and `test` as processes of their own, and with a real server: what `sign` writes and
//! the nats command publishes is what the daemon takes.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use toml::Table;

use crate::harness::{Daemon, Rig, Settings, eventually};

const SOON: Duration = Duration::from_secs(30);
const BODY: &str = r#"{"order":17,"note":"it's {braces} and \"quotes\""}"#;

/// What a finished process said.
#[derive(Debug)]
struct Said {
    code: i32,
    out: String,
    error: String,
}

/// Runs a command in a folder, with this on its standard input.
fn run(mut command: Command, folder: &Path, input: &str) -> Said {
    let command =
        command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Said {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        error: String::from_utf8(output.stderr).unwrap(),
    }
}

fn jetsink(folder: &Path, arguments: &[&str], input: &str) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jetsink"));
    command.args(arguments);
    run(command, folder, input)
}

/// What a command that must succeed says.
fn good(folder: &Path, arguments: &[&str], input: &str) -> String {
    let said = jetsink(folder, arguments, input);
    assert_eq!((said.code, said.error.as_str()), (0, ""), "{arguments:?}: {said:?}");
    said.out
}

/// A folder with a pair of keys and the snippet that `keygen` printed for it.
fn keys() -> (TempDir, Table) {
    let folder = tempfile::tempdir().unwrap();
    let snippet = good(
        folder.path(),
        &["keygen", "--algorithm", "ed25519", "--key-id", "k1", "--out", "k1.key", "--public", "k1.pub"],
        "",
    );
    let snippet = snippet.parse().unwrap();
    (folder, snippet)
}

/// The nats command; tests/tools.sh cannot bring it where there is no go.
fn nats() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/nats");
    path.is_file().then_some(path)
}

#[test]
fn a_key_is_written_once_and_for_its_owner_only() {
    let (folder, snippet) = keys();
    let mode = fs::metadata(folder.path().join("k1.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let rule = &snippet["message_authenticity"]["rules"][0];
    assert_eq!(rule["key_file"].as_str(), Some("k1.pub"));
    let before = fs::read(folder.path().join("k1.key")).unwrap();
    for algorithm in ["ed25519", "hmac-sha256"] {
        let said = jetsink(folder.path(), &["keygen", "--algorithm", algorithm, "--out", "k1.key"], "");
        assert_eq!(said.code, 65, "{said:?}");
        assert_eq!(fs::read(folder.path().join("k1.key")).unwrap(), before);
    }
    let out = good(folder.path(), &["keygen", "--algorithm", "hmac-sha256", "--out", "shared.key"], "");
    let shared = fs::read_to_string(folder.path().join("shared.key")).unwrap();
    assert!(!out.contains(shared.trim()), "the shared key is in the answer");
    assert_eq!(
        out.parse::<Table>().unwrap()["message_authenticity"]["rules"][0]["key_file"].as_str(),
        Some("shared.key")
    );
}

/// What every `sign` and `verify` here says about the message.
const MESSAGE: [&str; 6] = ["--algorithm", "ed25519", "--key-id", "k1", "--subject", "orders.new"];

#[test]
fn what_is_signed_verifies_and_nothing_else_does() {
    let (folder, _) = keys();
    let folder = folder.path();
    let id = "Nats-Msg-Id: order-17";
    let sign = [&["sign", "--key-file", "k1.key", "--format", "lines", "-H", id][..], &MESSAGE].concat();
    let lines = good(folder, &sign, BODY);
    let lines: Vec<_> = lines.lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(lines[0], "Nats-Sinks-Authenticity-Algorithm: ed25519");
    let verify = |id: &str, body: &str| {
        let mut arguments = [&["verify", "--key-file", "k1.pub", "-H", id][..], &MESSAGE].concat();
        for line in &lines {
            arguments.extend(["-H", line]);
        }
        jetsink(folder, &arguments, body)
    };
    let said = verify(id, BODY);
    assert_eq!((said.code, said.out.lines().next()), (0, Some("valid")), "{said:?}");
    for said in [verify("Nats-Msg-Id: order-18", BODY), verify(id, &BODY.replace('7', "8"))] {
        assert_eq!(said.code, 1, "{said:?}");
        assert!(
            said.out.contains("fails: signature_invalid (stage authenticity, PolicyViolationError)"),
            "{said:?}"
        );
    }
    let missing = jetsink(folder, &[&["verify", "--key-file", "nowhere"][..], &MESSAGE].concat(), BODY);
    assert_eq!(missing.code, 78, "{missing:?}");
}

#[test]
fn the_signed_bytes_can_be_seen() {
    let (folder, _) = keys();
    let arguments = [
        &[
            "verify",
            "--key-file",
            "k1.pub",
            "--show-signed-bytes",
            "--format",
            "json",
            "-H",
            "Nats-Msg-Id: ü",
        ][..],
        &MESSAGE,
    ];
    let said = jetsink(folder.path(), &arguments.concat(), "");
    let answer: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(said.code, 1);
    assert_eq!(answer["authenticity"]["reason"], "algorithm_header_missing");
    assert_eq!(
        answer["signed_bytes"],
        r#"{"algorithm":"ed25519","key_id":"k1","metadata":{"message_id":"ü","subject":"orders.new"},"payload_sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","schema":"nats_sinks.message_authenticity.v1","version":1}"#
    );
}

/// A rig whose daemon asks for signatures by the snippet of `keygen`, and its configuration in a file.
async fn signed_rig(folder: &Path, snippet: &Table) -> (Rig, Settings, PathBuf) {
    let rig = Rig::start().await;
    let mut settings = rig.settings();
    let mut section = snippet["message_authenticity"].as_table().unwrap().clone();
    section["rules"][0]["key_file"] = folder.join("k1.pub").to_str().unwrap().into();
    for (key, value) in section {
        settings.set(&format!("message_authenticity.{key}"), value);
    }
    let file = folder.join("jetsink.toml");
    fs::write(&file, settings.text()).unwrap();
    (rig, settings, file)
}

/// The shell lines of docs/signing.md.
fn publish_with(nats: &Path, folder: &Path, server: &str) {
    let script = r#"set -eu
        headers=$("$JETSINK" sign -c jetsink.toml --key-id k1 --key-file k1.key --subject src.new -H 'Nats-Msg-Id: order-17' --payload body)
        eval "\"$NATS\" --server $SERVER pub src.new --no-templates --force-stdin -H 'Nats-Msg-Id: order-17' $headers" <body
        "$JETSINK" sign -c jetsink.toml --key-id k1 --key-file k1.key --subject src.new --payload body |
            xargs "$NATS" --server "$SERVER" pub src.new --no-templates "$(cat body)""#;
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script])
        .env("JETSINK", env!("CARGO_BIN_EXE_jetsink"))
        .env("NATS", nats)
        .env("SERVER", server)
        .env("XDG_CONFIG_HOME", folder);
    let said = run(shell, folder, "");
    assert_eq!(said.code, 0, "{said:?}");
}

/// The same two messages, published by the tests' own client.
async fn publish_without_nats(rig: &Rig, folder: &Path) {
    eprintln!("target/tools/nats is missing, so the shell lines of docs/signing.md are not tried");
    let arguments =
        ["sign", "-c", "jetsink.toml", "--key-id", "k1", "--key-file", "k1.key", "--format", "json"];
    for id in [&["-H", "Nats-Msg-Id: order-17"][..], &[]] {
        let signed = good(folder, &[&arguments[..], &["--subject", "src.new"], id].concat(), BODY);
        let signed: serde_json::Map<String, Value> = serde_json::from_str(&signed).unwrap();
        let mut headers = async_nats::HeaderMap::new();
        for (name, value) in &signed {
            headers.insert(name.as_str(), value.as_str().unwrap());
        }
        if !id.is_empty() {
            headers.insert("Nats-Msg-Id", "order-17");
        }
        rig.client.publish_with("src.new", headers, BODY).await;
    }
}

#[tokio::test]
async fn the_nats_command_publishes_what_sign_signed_and_the_daemon_takes_it() {
    let (keys, snippet) = keys();
    let folder = keys.path();
    let (rig, settings, file) = signed_rig(folder, &snippet).await;
    let file = file.to_str().unwrap();
    fs::write(folder.join("body"), BODY).unwrap();
    match nats() {
        Some(nats) => publish_with(&nats, folder, &rig.server.url()),
        None => publish_without_nats(&rig, folder).await,
    }
    // One that nobody signed.
    rig.client.publish("src.new", BODY).await;
    let daemon = Daemon::start(&settings, &[]);
    rig.sink_holds(&[1, 2], SOON).await;
    eventually(SOON, "the third message is a dead letter", async || match rig.dead_letters().await {
        found if found == [3] => Ok(()),
        found => Err(format!("{found:?}")),
    })
    .await;
    daemon.stop().await;

    let stored =
        |sequence| jetsink(folder, &["verify", "-c", file, "--stream", "SRC", "--sequence", sequence], "");
    assert_eq!(stored("1").code, 0, "{:?}", stored("1"));
    let unsigned = stored("3");
    assert!(unsigned.code == 1 && unsigned.out.contains("algorithm_header_missing"), "{unsigned:?}");
    assert_eq!(stored("99").code, 69, "{:?}", stored("99"));
    let letter =
        jetsink(folder, &["verify", "-c", file, "--dead-letter-stream", "DLQ", "--sequence", "1"], "");
    assert!(letter.code == 1 && letter.out.contains("algorithm_header_missing"), "{letter:?}");
    let record = rig.client.message("DLQ", 1).await.unwrap().payload;
    fs::write(folder.join("letter.json"), record).unwrap();
    let letter = jetsink(folder, &["verify", "-c", file, "--dead-letter", "letter.json"], "");
    assert!(letter.code == 1 && letter.out.contains("algorithm_header_missing"), "{letter:?}");
}

#[test]
fn the_example_of_cases_passes_without_keys() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let arguments = ["test", "-c", "config/signed.toml", "config/signed-cases.toml", "--without-keys"];
    let said = jetsink(folder, &arguments, "");
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.out.ends_with("8 cases: 8 passed, 0 failed; 6 without the authenticity check\n"),
        "{said:?}"
    );
    let json = jetsink(folder, &[&arguments[..], &["--format", "json"]].concat(), "");
    assert_eq!(serde_json::from_str::<Value>(&json.out).unwrap()["failed"], 0);
    // Its keys are not here, and that is no silent pass.
    assert_eq!(jetsink(folder, &arguments[..4], "").code, 78);
}

/// A configuration with a signed and an open subject, beside the keys.
fn configuration(folder: &Path) {
    let text = r#"
        [nats]
        servers = ["nats://127.0.0.1:4222"]
        [consumer]
        stream = "ORDERS"
        durable = "sink"
        [dead_letter]
        subject = "dlq.orders"
        stream = "ORDERS_DLQ"
        [[message_metadata.rules]]
        subject = "orders.>"
        priority = "routine"
        [message_authenticity]
        enabled = true
        [[message_authenticity.rules]]
        subject = "orders.open"
        enabled = false
        [[message_authenticity.rules]]
        subject = "orders.*"
        algorithm = "ed25519"
        key_id = "k1"
        key_file = "@KEY@"
        [pre_sink_policy]
        enabled = true
        [[pre_sink_policy.rules]]
        require_priority = true
        [[pre_sink_policy.rules]]
        subject = "orders.*"
        required_labels = ["audit"]
        [sink]
        type = "stdout"
    "#;
    let key = folder.join("k1.pub");
    fs::write(folder.join("jetsink.toml"), text.replace("@KEY@", key.to_str().unwrap())).unwrap();
}

#[test]
fn cases_are_signed_and_judged_and_failures_are_told() {
    let (folder, _) = keys();
    let folder = folder.path();
    configuration(folder);
    let judge = |cases: &str| {
        fs::write(folder.join("cases.toml"), cases).unwrap();
        jetsink(folder, &["test", "-c", "jetsink.toml", "cases.toml"], "")
    };
    let signed = r#"
        [[case]]
        name = "signed"
        subject = "orders.new"
        headers = ["Nats-Sinks-Labels: audit"]
        payload = "x"
        sign = { key_file = "k1.key", key_id = "k1" }
        expect = "pass"
        metadata = { priority = "routine", classification = "", labels = ["audit"] }
    "#;
    assert_eq!(judge(signed).out, "ok    signed\n1 case: 1 passed, 0 failed\n");
    let wrong = signed.replace("\"pass\"", "\"signature_invalid\"").replace("\"routine\"", "\"urgent\"");
    let said = judge(&wrong);
    assert_eq!(said.code, 1);
    assert_eq!(
        said.out,
        "FAIL  signed\n        expected signature_invalid\n        found    passes\n        \
         metadata.priority: expected \"urgent\", found \"routine\"\n1 case: 0 passed, 1 failed\n"
    );
    let unknown = judge(&signed.replace("payload =", "body ="));
    assert_eq!(unknown.code, 65);
    assert!(unknown.error.starts_with("cases.toml:6: unknown field `body`"), "{unknown:?}");
    let reason = judge(&signed.replace("\"pass\"", "\"passes\""));
    assert!(reason.error.starts_with("cases.toml:8: expect is neither"), "{reason:?}");
    assert_eq!(judge("").code, 65);
}

#[test]
fn explain_says_which_rule_and_why() {
    let (folder, _) = keys();
    let folder = folder.path();
    configuration(folder);
    let explain = |subject: &str, more: &[&str]| {
        let arguments =
            ["explain", "-c", "jetsink.toml", "--stored-at", "2026-12-01T00:00:00Z", "--subject", subject];
        good(folder, &[&arguments[..], more].concat(), "")
    };
    assert_eq!(explain("orders.open", &[]), EXPLAINED);
    let report: Value = serde_json::from_str(&explain("orders.new", &["--format", "json"])).unwrap();
    assert_eq!(report["authenticity"]["rules"][0]["rule"], "message_authenticity.rules[1]");
    assert_eq!(report["verdict"]["reason"], "algorithm_header_missing");
    assert_eq!(report["policy"]["reason"], "required_label_missing");
    assert_eq!(report["policy"]["rules"][0]["result"], "passes");
    fs::remove_file(folder.join("k1.pub")).unwrap();
    let report: Value = serde_json::from_str(&explain("orders.new", &["--format", "json"])).unwrap();
    assert_eq!(report["authenticity"]["result"], "cannot_judge");
    assert_eq!(report["policy"]["reason"], "required_label_missing");
    assert_eq!(
        report["metadata"][1],
        json!({"name": "priority", "value": "routine", "from": "message_metadata.rules[0]"})
    );
    // An exemption needs no key.
    assert_eq!(explain("orders.open", &[]), EXPLAINED);
}

const EXPLAINED: &str = include_str!("explained.txt");

#[test]
fn a_message_signed_by_python_verifies() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/signing.md")).unwrap();
    let program = page.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("there is no python3: the example of docs/signing.md is not tried");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    good(folder, &["keygen", "--algorithm", "hmac-sha256", "--key-id", "k1", "--out", "shared.key"], "");
    fs::write(folder.join("sign.py"), program).unwrap();
    let mut python = Command::new("python3");
    python.args(["sign.py", "shared.key", "k1", "orders.ü", "order \"17\""]);
    let said = run(python, folder, BODY);
    assert_eq!(said.code, 0, "{said:?}");
    let mut arguments =
        vec!["verify", "--algorithm", "hmac-sha256", "--key-file", "shared.key", "--key-id", "k1"];
    arguments.extend(["--subject", "orders.ü", "-H", "Nats-Msg-Id: order \"17\""]);
    for line in said.out.lines() {
        arguments.extend(["-H", line]);
    }
    assert_eq!(good(folder, &arguments, BODY).lines().next(), Some("valid"));
}
