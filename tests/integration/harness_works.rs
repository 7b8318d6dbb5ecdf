//! The harness itself: servers start, restart and stand still; raw bytes arrive as they are.

use std::time::Duration;

use serde_json::json;

use crate::harness::{RawClient, Rig, RigPlan, ServerKind, ServerPlan, Tmpfs, Trace, eventually};

#[tokio::test]
async fn a_killed_server_comes_back_on_its_port_with_its_messages() {
    let mut rig = Rig::start().await;
    rig.client.publish_many("src.a", vec![b"{}".to_vec(); 700]).await;
    rig.server.kill();
    rig.server.restart().await;
    assert_eq!(rig.client.stream_info("SRC").await["state"]["messages"], 700);
    rig.server.pause();
    let answer = rig.client.core().request("$JS.API.INFO", "".into());
    let silent = tokio::time::timeout(Duration::from_millis(300), answer).await;
    rig.server.resume();
    assert!(silent.is_err(), "a paused server must not answer");
    rig.server.stop().await;
}

#[tokio::test]
async fn the_old_server_keeps_raw_header_bytes() {
    let plan = RigPlan {
        server: ServerPlan { kind: ServerKind::Old, ..ServerPlan::default() },
        ..RigPlan::default()
    };
    let rig = plan.start().await;
    let mut raw = RawClient::connect(&rig.server).await;
    raw.publish_with_block("src.a", b"NATS/1.0\r\nX-A: a\rb\r\n\r\n", b"body").await;
    raw.publish("src.b", b"plain").await;
    let stored = rig.client.messages("SRC").await;
    assert_eq!(stored[0].headers, "NATS/1.0\r\nX-A: a\rb\r\n\r\n");
    assert_eq!(stored[0].payload, b"body");
    assert_eq!((stored[1].sequence, stored[1].subject.as_str()), (2, "src.b"));
    assert_eq!(rig.client.consumer_info("SRC", "w").await["num_pending"], 2);
    let missing = rig.client.try_api("STREAM.INFO.NONE", &json!(null)).await;
    assert!(missing.unwrap_err().contains("10059"));
}

#[tokio::test]
async fn a_small_file_system_can_be_filled_freed_and_grown() {
    let mount = Tmpfs::mount("64k");
    let ballast = mount.fill();
    std::fs::write(mount.path().join("more"), [0; 8192]).unwrap_err();
    mount.resize("1m");
    std::fs::write(mount.path().join("more"), [0; 8192]).unwrap();
    std::fs::remove_file(ballast).unwrap();
}

#[tokio::test]
async fn tampered_calls_fail_and_are_noted() {
    let trace = Trace::injecting("fdatasync:error=EIO:when=1");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let words = trace.launcher().iter().map(String::as_str).chain(["sync", "-d", file.to_str().unwrap()]);
    std::fs::write(&file, "text").unwrap();
    let words = words.collect::<Vec<_>>();
    let status = std::process::Command::new(words[0]).args(&words[1..]).output().unwrap().status;
    assert!(!status.success(), "a failed sync is an error of the command");
    eventually(Duration::from_secs(10), "strace has noted the call", async || {
        let calls = trace.calls();
        let noted = calls.iter().any(|call| call.contains("fdatasync(") && call.contains("(INJECTED)"));
        if noted { Ok(()) } else { Err(calls.join("\n")) }
    })
    .await;
}
