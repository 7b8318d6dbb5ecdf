//! Field case 7: what the server gives up on, and what somebody else terminates, is learnt from advisories and dead-lettered.

use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::harness::{Daemon, Rig, RigPlan, ServerKind, Settings, Stored, eventually};

const SOON: Duration = Duration::from_secs(40);
const EXHAUSTED: &str = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.SRC.w";
const TERMINATED: &str = "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.SRC.w";
const DURABLE: &str = "jetsink-SRC-w";
const BOTH: [ServerKind; 2] = [ServerKind::New, ServerKind::Old];

/// Makes the stream of the advisories with its durable, as `jetsink dlq init` does.
pub(crate) async fn make_advisories(rig: &Rig) {
    let stream = json!({ "name": "ADV", "subjects": [EXHAUSTED, TERMINATED], "retention": "limits", "storage": "file" });
    rig.client.create_stream(&stream).await;
    let durable = json!({ "durable_name": DURABLE, "ack_policy": "explicit", "deliver_policy": "all", "max_deliver": -1,
        "replay_policy": "instant", "filter_subject": "$JS.EVENT.ADVISORY.CONSUMER.*.SRC.w", "ack_wait": 2_000_000_000_u64 });
    rig.client.create_consumer("ADV", &durable).await;
}

async fn start(plan: RigPlan, kind: ServerKind) -> Rig {
    let mut plan = plan;
    plan.server.kind = kind;
    let rig = plan.start().await;
    make_advisories(&rig).await;
    rig
}

/// A stop waits for open pulls.
fn settings(rig: &Rig) -> Settings {
    let mut settings = rig.settings();
    settings.set("consumer.expires", "1s");
    settings
}

fn daemon(rig: &Rig) -> Daemon {
    Daemon::start(&settings(rig), &[])
}

/// One pull of one message by somebody who is no jetsink; gives its reply subject.
async fn take(rig: &Rig) -> String {
    let client = rig.client.core();
    let inbox = client.new_inbox();
    let mut taken = client.subscribe(inbox.clone()).await.unwrap();
    let pull = r#"{"batch":1,"expires":10000000000}"#;
    client.publish_with_reply("$JS.API.CONSUMER.MSG.NEXT.SRC.w", inbox, pull.into()).await.unwrap();
    let delivery = timeout(SOON, taken.next()).await.expect("a delivery").unwrap();
    delivery.reply.unwrap().to_string()
}

async fn answer(rig: &Rig, reply: &str, word: &'static str) {
    rig.client.core().request(reply.to_owned(), word.into()).await.unwrap();
}

/// Takes a message and gives it back so often that the server gives up on it, which it does when somebody pulls.
async fn exhaust(rig: &Rig, times: usize) {
    for _ in 0..times {
        let reply = take(rig).await;
        answer(rig, &reply, "-NAK").await;
    }
}

async fn advisories(rig: &Rig) -> u64 {
    rig.client.stream_info("ADV").await["state"]["messages"].as_u64().unwrap()
}

/// Every advisory was read and acknowledged.
pub(crate) async fn advisories_done(rig: &Rig) {
    eventually(SOON, "every advisory is acknowledged", async || {
        let info = rig.client.consumer_info("ADV", DURABLE).await;
        let left = info["num_pending"].as_u64().unwrap() + info["num_ack_pending"].as_u64().unwrap();
        if left == 0 { Ok(()) } else { Err(info.to_string()) }
    })
    .await;
}

/// Waits for the dead letters of exactly these, and gives them.
async fn letters(rig: &Rig, expected: &[u64]) -> Vec<Stored> {
    eventually(SOON, "the dead letters are there", async || {
        let found = rig.dead_letters().await;
        if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    rig.client.messages("DLQ").await
}

fn letter(letters: &[Stored], sequence: u64) -> Value {
    let sequence = sequence.to_string();
    let own = letters.iter().find(|own| own.header("Jetsink-Stream-Sequence") == Some(&*sequence));
    own.unwrap_or_else(|| panic!("{sequence} has a letter")).json()
}

fn verdict(letter: &Value) -> Value {
    json!([letter["stage"], letter["error_type"], letter["reason"]])
}

/// Given up on and terminated while no daemon runs.
async fn while_nobody_looked(kind: ServerKind, retention: &str) {
    let rig = start(RigPlan::default().source("retention", retention).durable("max_deliver", 2), kind).await;
    rig.client.publish("src.a", "given up").await;
    exhaust(&rig, 2).await;
    rig.client.publish("src.a", "terminated").await;
    // This pull is what lets the server give up on the first.
    let reply = take(&rig).await;
    let word = if kind == ServerKind::New { "+TERM not my order" } else { "+TERM" };
    answer(&rig, &reply, word).await;
    rig.client.publish("src.a", "{}").await;
    eventually(SOON, "both advisories are stored", async || {
        let stored = advisories(&rig).await;
        if stored == 2 { Ok(()) } else { Err(stored.to_string()) }
    })
    .await;
    let mut daemon = daemon(&rig);
    let letters = letters(&rig, &[1, 2]).await;
    let given_up = letter(&letters, 1);
    assert_eq!(verdict(&given_up), json!(["delivery", "AttemptsExhaustedError", "deliveries_exhausted"]));
    assert_eq!(given_up["payload_base64"], "Z2l2ZW4gdXA=");
    assert_eq!((&given_up["delivery_count"], &given_up["subject"]), (&json!(2), &json!("src.a")));
    let terminated = letter(&letters, 2);
    if retention == "workqueue" {
        // A term removes the message: its body is gone.
        assert_eq!(verdict(&terminated), json!(["delivery", "UndeliverableMessageError", "message_lost"]));
    } else {
        assert_eq!(
            verdict(&terminated),
            json!(["delivery", "UndeliverableMessageError", "terminated_elsewhere"])
        );
    }
    if kind == ServerKind::New {
        assert!(terminated["error"].as_str().unwrap().contains("not my order"), "{terminated}");
    }
    rig.drained(SOON).await;
    rig.sink_holds(&[3], SOON).await;
    advisories_done(&rig).await;
    daemon.ready().await;
    if retention == "workqueue" {
        assert_eq!(rig.client.stream_info("SRC").await["state"]["messages"], 0, "the queue is empty");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn what_happened_while_no_daemon_ran_is_dead_lettered_at_its_start() {
    for kind in BOTH {
        tokio::join!(while_nobody_looked(kind, "limits"), while_nobody_looked(kind, "workqueue"));
    }
}
