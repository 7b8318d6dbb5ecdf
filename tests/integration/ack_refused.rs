//! Field case 6: the user may pull and may not acknowledge.

use std::fs;
use std::time::Duration;

use crate::harness::{Daemon, Rig, RigPlan, eventually, sequences, stays};

const USERS: &str = r#"
authorization {
    users: [
        { user: admin, password: secret-of-admin }
        { user: daemon, password: secret-of-daemon, permissions: { publish: { deny: ["$JS.ACK.>"] } } }
    ]
}"#;

async fn rig_where_acks_are_denied() -> (Rig, Daemon) {
    let mut plan = RigPlan::default().server(USERS);
    plan.login = Some(("admin", "secret-of-admin"));
    let rig = plan.start().await;
    let password = rig.folder().join("password");
    fs::write(&password, "secret-of-daemon\n").unwrap();
    let mut settings = rig.settings();
    settings.set("nats.user", "daemon").set("nats.password_file", password.to_str().unwrap());
    let daemon = Daemon::start(&settings, &[]);
    (rig, daemon)
}

#[tokio::test]
async fn refused_acks_stop_the_pulls_and_name_the_missing_permission() {
    let (rig, mut daemon) = rig_where_acks_are_denied().await;
    rig.client.publish("src.a", "{}").await;
    eventually(Duration::from_secs(20), "the daemon says that acks do not arrive", async || {
        let seen = daemon.readiness().await?;
        let said = ["acks_unconfirmed", "permission_denied"].iter().any(|reason| seen.body.contains(reason));
        if !seen.ready && said { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
    rig.client.publish("src.a", "{}").await;
    stays(Duration::from_secs(10), "not ready, and the sink holds no copies", async || {
        let (seen, found) = (daemon.readiness().await?, sequences(&rig.sink()));
        let once = found.windows(2).all(|pair| pair[0] != pair[1]);
        if !seen.ready && once && found.contains(&1) { Ok(()) } else { Err(format!("{seen:?} {found:?}")) }
    })
    .await;
    assert!(daemon.metrics().await.unwrap().sum("jetsink_permission_violations_total", &[]) >= 1.0);
    let log = daemon.log();
    assert!(log.contains("$JS.ACK"), "the log names the subject that the user may not publish to:\n{log}");
    assert!(!log.contains("secret-of-daemon"));
    let info = rig.client.consumer_info("SRC", "w").await;
    assert_eq!(info["ack_floor"]["stream_seq"], 0, "nothing was acknowledged: {info}");
}

#[tokio::test]
async fn once_the_permission_is_there_everything_is_acknowledged() {
    let (rig, mut daemon) = rig_where_acks_are_denied().await;
    let expected = rig.client.publish_many("src.a", vec![b"{}".to_vec(); 3]).await;
    eventually(Duration::from_secs(20), "the daemon is not ready", async || {
        let seen = daemon.readiness().await?;
        if seen.ready || seen.body.contains("starting") { Err(format!("{seen:?}")) } else { Ok(()) }
    })
    .await;
    let allowed = USERS.replace(", permissions: { publish: { deny: [\"$JS.ACK.>\"] } }", "");
    rig.server.configure(&format!("max_payload: 65536\n{allowed}"));
    rig.server.reload();
    rig.drained(Duration::from_secs(60)).await;
    daemon.ready().await;
    rig.sink_holds(&expected, Duration::from_secs(5)).await;
    assert_eq!(rig.dead_letters().await, [0_u64; 0]);
    daemon.stop().await;
}
