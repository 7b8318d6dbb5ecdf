//! The advisory stream itself: forged advisories, sequences that are used again, a stream that goes and comes, permissions.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::given_up::{
    DURABLE, EXHAUSTED, TERMINATED, advisories_done, answer, exhaust, make_advisories, take,
};
use crate::harness::{Daemon, RawClient, Rig, RigPlan, Settings, dlq, eventually, stays};

const SOON: Duration = Duration::from_secs(40);

fn settings(rig: &Rig) -> Settings {
    let mut settings = rig.settings();
    settings.set("consumer.expires", "1s");
    settings
}

fn forged(sequence: u64) -> Value {
    json!({ "type": "io.nats.jetstream.advisory.v1.max_deliver", "id": "x", "timestamp": "2026-11-30T22:37:18.187951344Z",
        "stream": "SRC", "consumer": "w", "stream_seq": sequence, "deliveries": 4 })
}

async fn outcomes(daemon: &Daemon, outcome: &str) -> f64 {
    let metrics = daemon.metrics().await.unwrap();
    metrics.sum("jetsink_advisories_total", &[&format!("outcome=\"{outcome}\"")])
}

async fn is_bound(daemon: &Daemon, bound: f64) {
    eventually(SOON, "the advisory stream is bound, or not", async || {
        let now = daemon.metrics().await?.sum("jetsink_advisory_stream_bound", &[]);
        if now == bound { Ok(()) } else { Err(now.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn forged_advisories_stop_nothing_and_take_no_good_message_along() {
    let rig = Rig::start().await;
    make_advisories(&rig).await;
    let mut daemon = Daemon::start(&settings(&rig), &[]);
    let mut good = rig.client.publish_many("src.a", vec![b"{}".to_vec(); 5]).await;
    rig.sink_holds(&good, SOON).await;
    rig.drained(SOON).await;
    is_bound(&daemon, 1.0).await;
    let forge = async |subject: &str, body: String| rig.client.publish(subject, body).await;
    let malformed = ["", "{", "[]", "null", "\u{0}", "{\"stream_seq\":1e999}"].map(str::to_owned);
    let wrong =
        [("stream", json!("OTHER")), ("consumer", json!("x")), ("type", json!(7)), ("stream_seq", json!(0))];
    let wrong = wrong.map(|(field, value)| {
        let mut body = forged(1);
        body[field] = value;
        body.to_string()
    });
    let mut count = 0;
    for body in malformed.into_iter().chain(wrong) {
        forge(EXHAUSTED, body).await;
        count += 1;
    }
    forge(TERMINATED, forged(1).to_string()).await;
    // Bytes that end a client.
    let mut raw = RawClient::connect(&rig.server).await;
    raw.publish_with_block(EXHAUSTED, b"NATS/1.0\r\nX: \xff\xfe\r\n\r\n", b"{}").await;
    raw.publish_with_block(EXHAUSTED, b"NATS/1.0\r\nX: a\rb\r\n\r\n", b"{}").await;
    count += 3;
    // Never delivered, and settled here.
    forge(EXHAUSTED, forged(1000).to_string()).await;
    forge(EXHAUSTED, forged(u64::MAX).to_string()).await;
    advisories_done(&rig).await;
    daemon.ready().await;
    eventually(SOON, "all malformed ones are counted", async || {
        let (malformed, not_believed) =
            (outcomes(&daemon, "malformed").await, outcomes(&daemon, "not_believed").await);
        if malformed >= f64::from(count) && not_believed == 2.0 {
            Ok(())
        } else {
            Err(format!("{malformed} {not_believed}"))
        }
    })
    .await;
    assert!(daemon.log().contains("who may publish to $JS.EVENT.>?"));
    good.extend(rig.client.publish_many("src.a", vec![b"{}".to_vec(); 5]).await);
    rig.sink_holds(&good, SOON).await;
    assert_eq!(rig.dead_letters().await, [0_u64; 0]);
    daemon.stop().await;
}

#[tokio::test]
async fn a_forged_advisory_about_a_message_in_hand_or_settled_leads_to_nothing() {
    let rig = Rig::start().await;
    make_advisories(&rig).await;
    let mut settings = settings(&rig);
    // The batch waits for more, with the message in hand.
    settings.set("delivery.linger", "4s");
    let daemon = Daemon::start(&settings, &[]);
    is_bound(&daemon, 1.0).await;
    let sequence = rig.client.publish("src.a", "{}").await;
    eventually(SOON, "the message is in hand", async || {
        let held = daemon.metrics().await?.sum("jetsink_in_hand_messages", &[]);
        if held == 1.0 { Ok(()) } else { Err(held.to_string()) }
    })
    .await;
    rig.client.publish(EXHAUSTED, forged(sequence).to_string()).await;
    eventually(SOON, "it waits for the outcome", async || {
        let metrics = daemon.metrics().await?;
        let copies = metrics.sum("jetsink_second_deliveries_total", &[]);
        if copies == 1.0 { Ok(()) } else { Err(copies.to_string()) }
    })
    .await;
    rig.sink_holds(&[sequence], SOON).await;
    advisories_done(&rig).await;
    // Settled by this daemon.
    rig.client.publish(EXHAUSTED, forged(sequence).to_string()).await;
    advisories_done(&rig).await;
    assert_eq!(outcomes(&daemon, "settled").await, 1.0);
    daemon.stop().await;
    // Settled by an earlier one, whose sink remembers.
    rig.client.publish(EXHAUSTED, forged(sequence).to_string()).await;
    let daemon = Daemon::start(&settings, &[]);
    advisories_done(&rig).await;
    assert_eq!(rig.dead_letters().await, [0_u64; 0]);
    rig.sink_holds(&[sequence], SOON).await;
    daemon.stop().await;
}

#[tokio::test]
async fn an_advisory_of_an_earlier_stream_is_a_loss_and_never_the_new_messages_letter() {
    let plan = RigPlan::default().durable("max_deliver", 1);
    let rig = plan.clone().start().await;
    make_advisories(&rig).await;
    rig.client.publish("src.a", "old").await;
    take(&rig).await;
    eventually(SOON, "the server gives up", async || {
        let stored = rig.client.stream_info("ADV").await["state"]["messages"].clone();
        if stored == 1 { Ok(()) } else { Err(stored.to_string()) }
    })
    .await;
    rig.client.api("STREAM.DELETE.SRC", &Value::Null).await;
    rig.client.create_stream(&plan.source).await;
    rig.client.create_consumer("SRC", &plan.durable).await;
    let new = rig.client.publish("src.a", "new").await;
    assert_eq!(new, 1, "the sequence is used again");
    let daemon = Daemon::start(&settings(&rig), &[]);
    rig.sink_holds(&[1], SOON).await;
    advisories_done(&rig).await;
    let letters = rig.client.messages("DLQ").await;
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].json()["reason"], "message_lost");
    assert_eq!(rig.client.consumer_info("SRC", "w").await["ack_floor"]["stream_seq"], 1);
    daemon.stop().await;
}

#[tokio::test]
async fn an_advisory_of_an_earlier_durable_leads_to_nothing_where_the_new_one_delivers_the_message() {
    let plan = RigPlan::default().source("retention", "workqueue").durable("max_deliver", 1);
    let rig = plan.clone().start().await;
    make_advisories(&rig).await;
    rig.client.publish("src.a", "{}").await;
    take(&rig).await;
    eventually(SOON, "the server gives up", async || {
        let stored = rig.client.stream_info("ADV").await["state"]["messages"].clone();
        if stored == 1 { Ok(()) } else { Err(stored.to_string()) }
    })
    .await;
    rig.client.api("CONSUMER.DELETE.SRC.w", &Value::Null).await;
    rig.client.create_consumer("SRC", &plan.durable).await;
    let daemon = Daemon::start(&settings(&rig), &[]);
    rig.sink_holds(&[1], SOON).await;
    advisories_done(&rig).await;
    assert_eq!(rig.dead_letters().await, [0_u64; 0]);
    daemon.stop().await;
}

#[tokio::test]
async fn the_advisory_stream_may_go_and_come_back_while_the_daemon_runs() {
    let rig = RigPlan::default().durable("max_deliver", 1).start().await;
    make_advisories(&rig).await;
    let mut daemon = Daemon::start(&settings(&rig), &[]);
    is_bound(&daemon, 1.0).await;
    rig.client.api("STREAM.DELETE.ADV", &Value::Null).await;
    is_bound(&daemon, 0.0).await;
    daemon.ready().await;
    let good = rig.client.publish("src.a", "{}").await;
    rig.sink_holds(&[good], SOON).await;
    make_advisories(&rig).await;
    is_bound(&daemon, 1.0).await;
    // Stands for one that was given up on: terminated by somebody else while the daemon does not look.
    daemon.stop().await;
    let sequence = rig.client.publish("src.a", "{}").await;
    let reply = take(&rig).await;
    daemon = Daemon::start(&settings(&rig), &[]);
    is_bound(&daemon, 1.0).await;
    answer(&rig, &reply, "+TERM").await;
    eventually(SOON, "the letter is there", async || {
        let found = rig.dead_letters().await;
        if found == [sequence] { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    // Its durable goes, and comes back.
    rig.client.api(&format!("CONSUMER.DELETE.ADV.{DURABLE}"), &Value::Null).await;
    is_bound(&daemon, 0.0).await;
    daemon.ready().await;
    rig.client.api("STREAM.DELETE.ADV", &Value::Null).await;
    make_advisories(&rig).await;
    is_bound(&daemon, 1.0).await;
    daemon.stop().await;
}

#[tokio::test]
async fn without_the_stream_a_finite_limit_is_a_warning_and_no_limit_is_none() {
    for (limit, level) in [(4, "WARN"), (-1, "INFO")] {
        let rig = RigPlan::default().durable("max_deliver", limit).start().await;
        let mut daemon = Daemon::start(&settings(&rig), &[]);
        daemon.ready().await;
        let line = eventually(SOON, "it is said", async || {
            let log = daemon.log();
            let line = log.lines().find(|line| line.contains("jetsink dlq init")).map(str::to_owned);
            line.ok_or(log)
        })
        .await;
        assert!(line.contains(level), "{line}");
        daemon.stop().await;
    }
}

#[tokio::test]
async fn dlq_init_makes_what_the_daemon_finds() {
    let rig = RigPlan::default().source("retention", "workqueue").durable("max_deliver", 2).start().await;
    rig.client.api("STREAM.DELETE.DLQ", &Value::Null).await;
    let file = rig.folder().join("jetsink.toml");
    fs::write(&file, rig.settings().text()).unwrap();
    let words = ["init", "-c", file.to_str().unwrap()];
    let made = dlq(&rig.server, &words).await.fine().text();
    assert!(
        made.contains("made stream DLQ for") && made.contains("made stream DLQ_ADVISORIES for"),
        "{made}"
    );
    assert!(made.contains("made durable jetsink-SRC-w on DLQ_ADVISORIES"), "{made}");
    let again = dlq(&rig.server, &words).await.fine().text();
    assert!(
        again.contains("exists and captures") && again.contains("durable jetsink-SRC-w exists"),
        "{again}"
    );
    rig.client.publish("src.a", "{}").await;
    exhaust(&rig, 2).await;
    let daemon = Daemon::start(&settings(&rig), &[]);
    eventually(SOON, "the letter is there", async || {
        let found = rig.dead_letters().await;
        if found == [1] { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    daemon.stop().await;
}

#[tokio::test]
async fn the_daemon_makes_the_durable_where_it_may_make_durables() {
    let rig = RigPlan::default().durable("max_deliver", 1).start().await;
    make_advisories(&rig).await;
    rig.client.api(&format!("CONSUMER.DELETE.ADV.{DURABLE}"), &Value::Null).await;
    let mut daemon = Daemon::start(&settings(&rig), &[]);
    daemon.ready().await;
    is_bound(&daemon, 0.0).await;
    daemon.stop().await;
    rig.client.publish("src.a", "{}").await;
    take(&rig).await;
    let mut settings = settings(&rig);
    settings.set("consumer.mode", "create_if_missing");
    let daemon = Daemon::start(&settings, &[]);
    is_bound(&daemon, 1.0).await;
    eventually(SOON, "the letter is there", async || {
        let found = rig.dead_letters().await;
        if found == [1] { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    daemon.stop().await;
}

const USERS: &str = r#"
authorization {
    users: [
        { user: admin, password: secret-of-admin }
        { user: daemon, password: secret-of-daemon, permissions: { publish: { deny: ["$JS.API.*.*.ADV.>", "$JS.API.*.*.*.ADV.>",
            "$JS.API.*.ADV", "$JS.ACK.ADV.>"] } } }
    ]
}"#;

#[tokio::test]
async fn without_permissions_it_warns_and_goes_on() {
    let mut plan = RigPlan::default().server(USERS);
    plan.login = Some(("admin", "secret-of-admin"));
    let rig = plan.start().await;
    make_advisories(&rig).await;
    let password = rig.folder().join("password");
    fs::write(&password, "secret-of-daemon\n").unwrap();
    let mut settings = settings(&rig);
    settings.set("nats.user", "daemon").set("nats.password_file", password.to_str().unwrap());
    settings.set("nats.request_timeout", "1s");
    let mut daemon = Daemon::start(&settings, &[]);
    daemon.ready().await;
    eventually(SOON, "it is said", async || {
        let log = daemon.log();
        let line = log.lines().find(|line| line.contains("advisories cannot be read now")).map(str::to_owned);
        line.ok_or(log)
    })
    .await;
    let sequence = rig.client.publish("src.a", "{}").await;
    rig.sink_holds(&[sequence], SOON).await;
    stays(Duration::from_secs(3), "it is ready", async || {
        let seen = daemon.readiness().await?;
        if seen.ready { Ok(()) } else { Err(seen.body) }
    })
    .await;
    daemon.stop().await;
}

/// The stream drops a message while it is in hand. The server calls that terminated; the sink has it all the same.
#[tokio::test]
async fn a_message_that_is_removed_while_it_is_in_hand_is_not_lost() {
    let rig = Rig::start().await;
    make_advisories(&rig).await;
    let mut settings = settings(&rig);
    settings.set("delivery.linger", "4s");
    let daemon = Daemon::start(&settings, &[]);
    is_bound(&daemon, 1.0).await;
    let sequence = rig.client.publish("src.a", "{}").await;
    eventually(SOON, "the message is in hand", async || {
        let held = daemon.metrics().await?.sum("jetsink_in_hand_messages", &[]);
        if held == 1.0 { Ok(()) } else { Err(held.to_string()) }
    })
    .await;
    rig.client.delete_many("SRC", &[sequence]).await;
    eventually(SOON, "its advisory is put off", async || {
        let postponed = outcomes(&daemon, "postponed").await;
        if postponed >= 1.0 { Ok(()) } else { Err(postponed.to_string()) }
    })
    .await;
    rig.sink_holds(&[sequence], SOON).await;
    advisories_done(&rig).await;
    assert_eq!(outcomes(&daemon, "settled").await, 1.0);
    assert_eq!(rig.dead_letters().await, [0_u64; 0]);
    daemon.stop().await;
}

/// The durable was made anew behind a message that the earlier one gave up on: a dead letter, and nothing is settled.
#[tokio::test]
async fn what_a_durable_gave_up_on_before_it_was_made_anew_is_dead_lettered() {
    let plan = RigPlan::default().durable("max_deliver", 1);
    let rig = plan.clone().start().await;
    make_advisories(&rig).await;
    rig.client.publish("src.a", "{}").await;
    take(&rig).await;
    eventually(SOON, "the server gives up", async || {
        let stored = rig.client.stream_info("ADV").await["state"]["messages"].clone();
        if stored == 1 { Ok(()) } else { Err(stored.to_string()) }
    })
    .await;
    rig.client.api("CONSUMER.DELETE.SRC.w", &Value::Null).await;
    rig.client.create_consumer("SRC", &plan.durable("deliver_policy", "new").durable).await;
    let daemon = Daemon::start(&settings(&rig), &[]);
    eventually(SOON, "the letter is there", async || {
        let found = rig.dead_letters().await;
        if found == [1] { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    advisories_done(&rig).await;
    let good = rig.client.publish("src.a", "{}").await;
    rig.sink_holds(&[good], SOON).await;
    daemon.stop().await;
}
