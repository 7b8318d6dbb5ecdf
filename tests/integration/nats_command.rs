//! The commands of docs/dlq-operations.md, each run as it stands there by the real `nats` command, where that is installed.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use async_nats::ConnectOptions;
use jetsink::dead_letter::Format;
use jetsink::reason::{ReasonCode, Stage};
use jetsink::testing::builders::envelope;
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;

use crate::harness::{Client, RigPlan, Server, ServerPlan, dlq, eventually, letter};

const SOON: Duration = Duration::from_secs(40);

/// What each command must show, by how it begins.
const SHOWS: [(&str, &str); 16] = [
    ("nats sub dlq.orders", "Jetsink-Reason: payload_too_large"),
    ("nats sub --stream ORDERS_DLQ --all", "seq: 3"),
    ("nats sub --stream ORDERS_DLQ --since", "Jetsink-Stage: size"),
    ("nats sub --stream ORDERS_DLQ --start-sequence", "seq: 2"),
    ("nats stream view ORDERS_DLQ 25", "jetsink.dead_letter.v1"),
    ("nats stream view ORDERS_DLQ", "jetsink.dead_letter.v1"),
    ("nats stream get ORDERS_DLQ 1 --json | jq -r .hdrs", "Jetsink-Stream-Sequence: 1"),
    (
        "nats stream get ORDERS_DLQ 1 --json | jq -r .data | base64 -d | jq '{",
        "\"reason\": \"payload_too_large\"",
    ),
    (
        "nats stream get ORDERS_DLQ 1 --json | jq -r .data | base64 -d | jq -r .payload_base64",
        "{\"order\":1}",
    ),
    ("nats stream get ORDERS_DLQ 1", "Jetsink-Reason: payload_too_large"),
    ("nats stream get ORDERS_DLQ --last-for", "Item: ORDERS_DLQ#"),
    ("nats stream info ORDERS_DLQ", "Messages:"),
    ("nats stream subjects ORDERS_DLQ", "dlq.orders"),
    ("nats consumer info ORDERS sink", "Outstanding Acks"),
    ("nats consumer report ORDERS", "sink"),
    ("nats stream rmm ORDERS_DLQ 1", ""),
];

/// The folder of the `nats` command, if there is one.
pub(crate) fn folder_of_nats() -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools");
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(own).chain(std::env::split_paths(&path)).find(|folder| folder.join("nats").is_file())
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

async fn shell(server: &Server, folder: &Path, line: &str) -> Output {
    let path = std::env::var("PATH").unwrap_or_default();
    let running = Command::new("sh")
        .args(["-c", line])
        .env("PATH", format!("{}:{path}", folder.display()))
        .env("NATS_URL", server.url())
        .env("TERM", "xterm")
        .env_remove("NATS_CONTEXT")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    timeout(SOON, running).await.unwrap_or_else(|_| panic!("{line} does not end")).unwrap()
}

/// The lines of the page that begin with `nats `.
fn commands() -> Vec<&'static str> {
    let page = include_str!("../../docs/dlq-operations.md");
    let (_, own) = page.split_once("\n## With the nats command\n").unwrap();
    own.lines().filter(|line| line.starts_with("nats ")).collect()
}

#[tokio::test]
async fn every_command_of_the_page_shows_what_it_promises() {
    let Some(folder) = folder_of_nats() else {
        println!("skipped: the nats command is not installed (tests/tools.sh brings it)");
        return;
    };
    let server = Server::start(&ServerPlan::default()).await;
    let client = Client::connect(&server, ConnectOptions::new()).await;
    let stream = json!({ "name": "ORDERS", "subjects": ["orders.>"], "retention": "limits", "storage": "file",
                         "num_replicas": 1, "discard": "old" });
    client.create_stream(&stream).await;
    client.create_consumer("ORDERS", &json!({ "durable_name": "sink", "ack_policy": "explicit" })).await;
    dlq(&server, &["init", "--stream", "ORDERS_DLQ", "--subject", "dlq.orders"]).await.fine();
    let own = |number: u64| {
        let body = format!("{{\"order\":{number}}}");
        let own = envelope(number).subject("orders.new").payload(body).build();
        letter(&own, (Stage::Size, ReasonCode::PayloadTooLarge), Format::Json, 65_536)
    };
    client.store_parts("dlq.orders", (1..=3).flat_map(own).collect()).await;
    let mut number = 3;
    for line in commands() {
        let (_, expected) =
            SHOWS.iter().find(|(begins, _)| line.starts_with(begins)).unwrap_or_else(|| panic!("{line}"));
        if line.contains("| jq") && !is_installed("jq") {
            println!("skipped, jq is not installed: {line}");
            continue;
        }
        let output = if line == "nats sub dlq.orders" {
            let line = format!("{line} --count 1");
            let watching = shell(&server, &folder, &line);
            let publishing = eventually(SOON, "somebody listens", async || {
                number += 1;
                client.store_parts("dlq.orders", own(number)).await;
                Err::<(), _>(String::new())
            });
            tokio::select! {
                output = watching => output,
                () = publishing => panic!("{line} saw nothing"),
            }
        } else if line.starts_with("nats stream view") {
            // It pages on a terminal only.
            if !is_installed("script") {
                println!("skipped, script is not installed: {line}");
                continue;
            }
            shell(&server, &folder, &format!("script --quiet --return --command '{line}' /dev/null")).await
        } else {
            shell(&server, &folder, line).await
        };
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(output.status.success(), "{line}: {text}");
        assert!(text.contains(expected), "{line} does not show {expected}: {text}");
    }
    assert!(client.message("ORDERS_DLQ", 1).await.is_none(), "rmm has removed it");
}

#[tokio::test]
async fn the_printed_command_makes_the_stream_that_init_makes() {
    let Some(folder) = folder_of_nats() else {
        println!("skipped: the nats command is not installed (tests/tools.sh brings it)");
        return;
    };
    let server = Server::start(&ServerPlan::default()).await;
    let client = Client::connect(&server, ConnectOptions::new()).await;
    for flags in [&[][..], &["--max-age", "36h", "--max-bytes", "1 GiB", "--duplicate-window", "90s"]] {
        let made = |print: &'static [&'static str]| {
            [&["init", "--stream", "D", "--subject", "d.orders", "--subject", "d.x"], flags, print].concat()
        };
        dlq(&server, &made(&[])).await.fine();
        let by_init = client.stream_info("D").await["config"].clone();
        client.api("STREAM.DELETE.D", &serde_json::Value::Null).await;
        let printed = dlq(&server, &made(&["--print"])).await.fine().text();
        let output = shell(&server, &folder, &printed).await;
        assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
        let mut by_command = client.stream_info("D").await["config"].clone();
        // What the command sends besides says the same as nothing.
        by_command["metadata"] = by_init["metadata"].clone();
        assert_eq!(by_command, by_init, "{printed}");
        client.api("STREAM.DELETE.D", &serde_json::Value::Null).await;
    }
}

#[tokio::test]
async fn the_printed_commands_make_the_stream_and_durable_of_advisories_that_init_makes() {
    let Some(folder) = folder_of_nats() else {
        println!("skipped: the nats command is not installed (tests/tools.sh brings it)");
        return;
    };
    let rig = RigPlan::default().start().await;
    let file = rig.folder().join("jetsink.toml");
    std::fs::write(&file, rig.settings().text()).unwrap();
    let words = ["init", "-c", file.to_str().unwrap()];
    // R0's own dead-letter stream differs from what init would make; the advisories are seen to all the same.
    let made = dlq(&rig.server, &words).await;
    assert_eq!(made.code, Some(1), "{}", made.err);
    assert!(made.text().contains("made stream DLQ_ADVISORIES"), "{}", made.text());
    let look = async || {
        let mut stream = rig.client.stream_info("DLQ_ADVISORIES").await["config"].clone();
        let mut durable = rig.client.consumer_info("DLQ_ADVISORIES", "jetsink-SRC-w").await["config"].clone();
        // What the command sends besides says the same as nothing.
        for field in ["metadata", "pause_until"] {
            stream.as_object_mut().unwrap().remove(field);
            durable.as_object_mut().unwrap().remove(field);
        }
        (stream, durable)
    };
    let by_init = look().await;
    rig.client.api("STREAM.DELETE.DLQ_ADVISORIES", &serde_json::Value::Null).await;
    let printed = dlq(&rig.server, &[&words[..], &["--print"]].concat()).await.fine().text();
    let lines = printed.lines().collect::<Vec<_>>();
    assert_eq!(lines.len(), 3, "{printed}");
    for line in lines.iter().skip(1) {
        let output = shell(&rig.server, &folder, line).await;
        assert!(output.status.success(), "{line}{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(look().await, by_init, "{printed}");
    let without =
        dlq(&rig.server, &[&words[..], &["--print", "--without-advisories"]].concat()).await.fine().text();
    assert_eq!(without.lines().count(), 1, "{without}");
}
