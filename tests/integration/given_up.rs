//! Field case 7: what the server gives up on, and what somebody else terminates, is learnt from advisories and dead-lettered.

use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::harness::{Daemon, Rig, RigPlan, ServerKind, Settings, Stored, eventually, oversized, stays};

const SOON: Duration = Duration::from_secs(40);
pub(crate) const EXHAUSTED: &str = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.SRC.w";
pub(crate) const TERMINATED: &str = "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.SRC.w";
pub(crate) const DURABLE: &str = "jetsink-SRC-w";
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
pub(crate) async fn take(rig: &Rig) -> String {
    let client = rig.client.core();
    let inbox = client.new_inbox();
    let mut taken = client.subscribe(inbox.clone()).await.unwrap();
    let pull = r#"{"batch":1,"expires":10000000000}"#;
    client.publish_with_reply("$JS.API.CONSUMER.MSG.NEXT.SRC.w", inbox, pull.into()).await.unwrap();
    let delivery = timeout(SOON, taken.next()).await.expect("a delivery").unwrap();
    delivery.reply.unwrap().to_string()
}

pub(crate) async fn answer(rig: &Rig, reply: &str, word: &'static str) {
    rig.client.core().request(reply.to_owned(), word.into()).await.unwrap();
}

/// Takes a message and gives it back so often that the server gives up on it, which it does when somebody pulls.
pub(crate) async fn exhaust(rig: &Rig, times: usize) {
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

/// A record that fails for ever while the sink works for others: a folder stands where its file should be.
async fn blocked(rig: &Rig, settings: &mut Settings) -> u64 {
    settings.set("sink.file.layout", "one_file_per_message").set("delivery.retry.max", "300ms");
    let sequence = rig.client.publish("src.a", "blocked").await;
    let answer = rig.client.api("STREAM.MSG.GET.SRC", &json!({ "seq": sequence })).await;
    let stored_at: jiff::Timestamp = answer["message"]["time"].as_str().unwrap().parse().unwrap();
    let name = format!("SRC-{sequence:020}-{}.json", stored_at.as_nanosecond());
    std::fs::create_dir_all(rig.sink().join(name).join("in-the-way")).unwrap();
    sequence
}

#[tokio::test]
async fn the_daemons_own_limit_acts_before_the_servers() {
    for kind in BOTH {
        let rig = start(RigPlan::default().durable("max_deliver", 3), kind).await;
        let mut settings = settings(&rig);
        let sequence = blocked(&rig, &mut settings).await;
        rig.client.publish_many("src.a", vec![b"{}".to_vec(); 10]).await;
        let daemon = Daemon::start(&settings, &[]);
        let letters = letters(&rig, &[sequence]).await;
        let expected = json!(["delivery", "AttemptsExhaustedError", "attempts_exhausted"]);
        assert_eq!(verdict(&letter(&letters, sequence)), expected);
        rig.drained(SOON).await;
        assert_eq!(advisories(&rig).await, 0);
        daemon.stop().await;
    }
}

/// Field case 7 (c): the daemon is killed while it has the last delivery in hand.
async fn killed_during_the_last_delivery(kind: ServerKind, retention: &str) {
    let plan = RigPlan::default().source("retention", retention).durable("max_deliver", 1);
    let rig = start(plan, kind).await;
    let mut settings = settings(&rig);
    settings.set("delivery.max_attempts", 1000);
    let sequence = blocked(&rig, &mut settings).await;
    let mut daemon = Daemon::start(&settings, &[]);
    let retries = async |daemon: &Daemon| {
        daemon.metrics().await.map(|metrics| metrics.sum("jetsink_retries_total", &[]))
    };
    eventually(SOON, "the message is in hand and tried again", async || {
        let retries = retries(&daemon).await?;
        if retries >= 1.0 { Ok(()) } else { Err(retries.to_string()) }
    })
    .await;
    daemon.kill();
    let daemon = Daemon::start(&settings, &[]);
    let letters = letters(&rig, &[sequence]).await;
    let expected = json!(["delivery", "AttemptsExhaustedError", "deliveries_exhausted"]);
    assert_eq!(verdict(&letter(&letters, sequence)), expected);
    advisories_done(&rig).await;
    if retention == "workqueue" {
        assert_eq!(rig.client.stream_info("SRC").await["state"]["messages"], 0);
    }
    daemon.stop().await;
}

#[tokio::test]
async fn a_daemon_that_is_killed_during_the_last_delivery_finds_it_after_its_start() {
    for kind in BOTH {
        tokio::join!(
            killed_during_the_last_delivery(kind, "limits"),
            killed_during_the_last_delivery(kind, "workqueue")
        );
    }
}

/// Field case 7 (b): delivered twice, then the limit is lowered to one. Servers before the fix say nothing about it.
#[tokio::test]
async fn a_lowered_limit_is_dead_lettered_where_the_server_tells() {
    let rig = start(RigPlan::default(), ServerKind::New).await;
    let sequence = rig.client.publish("src.a", "{}").await;
    exhaust(&rig, 2).await;
    let plan = RigPlan::default().durable("max_deliver", 1);
    rig.client.create_consumer("SRC", &plan.durable).await;
    let mut settings = settings(&rig);
    settings.set("delivery.crash_limit", 10);
    let daemon = Daemon::start(&settings, &[]);
    letters(&rig, &[sequence]).await;
    advisories_done(&rig).await;
    daemon.stop().await;
}

#[tokio::test]
async fn two_daemons_share_the_advisories_and_each_letter_is_there_once() {
    let plan = RigPlan::default().source("retention", "workqueue").durable("max_deliver", 1);
    let rig = start(plan, ServerKind::New).await;
    let count = 60;
    rig.client.publish_many("src.a", vec![b"{}".to_vec(); count]).await;
    for _ in 0..count {
        take(&rig).await;
    }
    let mut second = settings(&rig);
    second.set("sink.file.directory", rig.folder().join("other").to_str().unwrap());
    let daemons = [Daemon::start(&settings(&rig), &[]), Daemon::start(&second, &[])];
    let all = (1..=60).collect::<Vec<_>>();
    letters(&rig, &all).await;
    advisories_done(&rig).await;
    assert_eq!(rig.client.stream_info("SRC").await["state"]["messages"], 0);
    let mut handed_over = Vec::new();
    for daemon in daemons {
        let metrics = daemon.metrics().await.unwrap();
        assert_eq!(metrics.sum("jetsink_dead_letters_duplicate_total", &[]), 0.0);
        handed_over.push(metrics.sum("jetsink_advisories_total", &["outcome=\"handed_over\""]));
        daemon.stop().await;
    }
    assert_eq!(handed_over.iter().sum::<f64>(), 60.0, "{handed_over:?}");
    assert_eq!(rig.dead_letters().await, all);
}

/// Terms after a confirmed dead letter raise advisories as well.
async fn own_terms(kind: ServerKind) {
    let rig = start(RigPlan::default(), kind).await;
    let mut settings = rig.settings_for_small();
    settings.set("consumer.expires", "1s").set("dead_letter.ack_term_after_publish", true);
    let daemon = Daemon::start(&settings, &[]);
    let sequences = rig.client.publish_many("src.a", oversized(20)).await;
    letters(&rig, &sequences).await;
    eventually(SOON, "each term raises an advisory", async || {
        let stored = advisories(&rig).await;
        if stored == 20 { Ok(()) } else { Err(stored.to_string()) }
    })
    .await;
    rig.drained(SOON).await;
    advisories_done(&rig).await;
    assert_eq!(rig.dead_letters().await, sequences, "no second letter");
    let metrics = daemon.metrics().await.unwrap();
    assert_eq!(metrics.sum("jetsink_dead_letters_published_total", &[]), 20.0);
    let advisory = rig.client.message("ADV", 1).await.unwrap().json();
    if kind == ServerKind::New {
        assert_eq!(advisory["reason"], "jetsink:payload_too_large");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn a_term_of_our_own_leads_to_no_second_letter() {
    for kind in BOTH {
        own_terms(kind).await;
    }
}

async fn body_gone(kind: ServerKind) {
    let plan = RigPlan::default().durable("max_deliver", 1).durable("filter_subject", "src.a");
    let rig = start(plan, kind).await;
    rig.client.publish_many("src.a", vec![b"gone".to_vec(); 2]).await;
    take(&rig).await;
    eventually(SOON, "the server gives up", async || {
        // An old server does so when somebody pulls.
        let stored = advisories(&rig).await;
        if stored >= 1 {
            return Ok(());
        }
        let client = rig.client.core();
        let ask = client.publish_with_reply(
            "$JS.API.CONSUMER.MSG.NEXT.SRC.w",
            client.new_inbox(),
            r#"{"batch":1,"no_wait":true}"#.into(),
        );
        ask.await.unwrap();
        Err(stored.to_string())
    })
    .await;
    rig.client.delete_many("SRC", &[1]).await;
    let daemon = daemon(&rig);
    let letter = eventually(SOON, "the loss is recorded", async || {
        let letters = rig.client.messages("DLQ").await;
        let own = letters.iter().find(|own| own.header("Jetsink-Stream-Sequence") == Some("1"));
        own.map(Stored::json).ok_or_else(|| format!("{} letters", letters.len()))
    })
    .await;
    assert_eq!(verdict(&letter), json!(["delivery", "UndeliverableMessageError", "message_lost"]));
    assert_eq!(
        (&letter["subject"], &letter["payload_unavailable_reason"]),
        (&json!("src.a"), &json!("message_lost"))
    );
    assert_eq!((&letter["timestamp"], &letter["payload_base64"]), (&Value::Null, &Value::Null));
    assert_eq!(letter["payload"]["present"], false);
    advisories_done(&rig).await;
    let metrics = daemon.metrics().await.unwrap();
    assert_eq!(metrics.sum("jetsink_messages_lost_total", &[]), 1.0);
    assert!(daemon.log().contains("a message is lost: its body is gone"), "{}", daemon.log());
    daemon.stop().await;
}

#[tokio::test]
async fn a_body_that_is_gone_is_recorded_as_a_loss() {
    for kind in BOTH {
        body_gone(kind).await;
    }
}

#[tokio::test]
async fn what_must_not_be_removed_stays_in_its_queue_and_has_its_letter() {
    let plan = RigPlan::default().source("retention", "workqueue").durable("max_deliver", 1);
    let rig = start(plan, ServerKind::New).await;
    rig.client.publish("src.a", "{}").await;
    take(&rig).await;
    let mut settings = settings(&rig);
    settings.set("dead_letter.remove_exhausted", false);
    let daemon = Daemon::start(&settings, &[]);
    letters(&rig, &[1]).await;
    advisories_done(&rig).await;
    assert_eq!(rig.client.stream_info("SRC").await["state"]["messages"], 1);
    daemon.stop().await;
}

/// What was given up on before anything captured advisories: counted, and swept where nothing is unsettled.
async fn swept(kind: ServerKind, filter: Option<&str>) {
    let mut plan = RigPlan::default().source("retention", "workqueue").durable("max_deliver", 1);
    if let Some(filter) = filter {
        plan = plan.durable("filter_subject", filter);
    }
    plan.server.kind = kind;
    let rig = plan.start().await;
    rig.client.publish_many("src.a", vec![b"{}".to_vec(); 3]).await;
    for _ in 0..3 {
        take(&rig).await;
    }
    let mut settings = settings(&rig);
    settings.set("delivery.watch_interval", "1s").set("dead_letter.remove_exhausted", false);
    let daemon = Daemon::start(&settings, &[]);
    let sequence = rig.client.publish("src.a", "{}").await;
    rig.sink_holds(&[sequence], SOON).await;
    eventually(SOON, "they are counted", async || {
        let count = daemon.metrics().await?.sum("jetsink_exhausted_messages", &[]);
        if count == 3.0 { Ok(()) } else { Err(count.to_string()) }
    })
    .await;
    assert!(daemon.log().contains("the work queue keeps messages"), "{}", daemon.log());
    stays(Duration::from_secs(3), "nothing is dead-lettered", async || {
        let found = rig.dead_letters().await;
        if found.is_empty() { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    daemon.stop().await;
    settings.unset("dead_letter.remove_exhausted");
    let daemon = Daemon::start(&settings, &[]);
    let letters = letters(&rig, &[1, 2, 3]).await;
    let expected = json!(["delivery", "AttemptsExhaustedError", "deliveries_exhausted"]);
    assert_eq!(verdict(&letter(&letters, 2)), expected);
    eventually(SOON, "the queue is empty, and none is counted", async || {
        let stored = rig.client.stream_info("SRC").await["state"]["messages"].clone();
        let count = daemon.metrics().await?.sum("jetsink_exhausted_messages", &[]);
        if stored == 0 && count == 0.0 { Ok(()) } else { Err(format!("{stored} {count}")) }
    })
    .await;
    daemon.stop().await;
}

#[tokio::test]
async fn what_a_work_queue_keeps_for_nobody_is_counted_and_swept() {
    tokio::join!(
        swept(ServerKind::New, None),
        swept(ServerKind::New, Some("src.*")),
        swept(ServerKind::Old, None)
    );
}

/// Killed again and again while it works off what was given up on: nothing is forgotten and nothing is there twice.
async fn killed_in_the_middle(retention: &str) {
    let plan = RigPlan::default().source("retention", retention).durable("max_deliver", 1);
    let rig = start(plan, ServerKind::New).await;
    rig.client.publish_many("src.a", vec![b"{}".to_vec(); 200]).await;
    for _ in 0..200 {
        take(&rig).await;
    }
    let all = (1..=200).collect::<Vec<_>>();
    for step in 1..=8 {
        let mut daemon = daemon(&rig);
        eventually(SOON, "some are there", async || {
            let found = rig.client.stream_info("DLQ").await["state"]["messages"].as_u64().unwrap();
            if found >= step * 20 { Ok(()) } else { Err(found.to_string()) }
        })
        .await;
        daemon.kill();
    }
    let daemon = daemon(&rig);
    letters(&rig, &all).await;
    advisories_done(&rig).await;
    assert_eq!(rig.dead_letters().await, all);
    let left = if retention == "workqueue" { 0 } else { 200 };
    assert_eq!(rig.client.stream_info("SRC").await["state"]["messages"], left);
    daemon.stop().await;
}

#[tokio::test]
async fn kills_in_the_middle_cost_nothing_and_repeat_nothing() {
    tokio::join!(killed_in_the_middle("limits"), killed_in_the_middle("workqueue"));
}

/// While the dead-letter stream is gone the messages are parked, their advisories are kept, and nothing is settled.
#[tokio::test]
async fn without_a_dead_letter_stream_they_wait_and_the_good_ones_flow() {
    let plan = RigPlan::default().source("retention", "workqueue").durable("max_deliver", 1);
    let rig = start(plan.clone(), ServerKind::New).await;
    rig.client.publish_many("src.a", vec![b"{}".to_vec(); 30]).await;
    for _ in 0..30 {
        take(&rig).await;
    }
    let mut daemon = daemon(&rig);
    daemon.ready().await;
    rig.client.api("STREAM.DELETE.DLQ", &Value::Null).await;
    let already = 30 - rig.client.stream_info("SRC").await["state"]["messages"].as_u64().unwrap();
    let good = rig.client.publish_many("src.a", vec![b"{}".to_vec(); 5]).await;
    rig.sink_holds(&good, SOON).await;
    // Longer than three ack waits of the advisories.
    stays(Duration::from_secs(7), "nothing is settled", async || {
        let stored = rig.client.stream_info("SRC").await["state"]["messages"].as_u64().unwrap();
        if stored >= 30 - already { Ok(()) } else { Err(stored.to_string()) }
    })
    .await;
    rig.client.create_stream(&plan.dead_letters).await;
    eventually(SOON, "the queue is empty", async || {
        let stored = rig.client.stream_info("SRC").await["state"]["messages"].clone();
        if stored == 0 { Ok(()) } else { Err(stored.to_string()) }
    })
    .await;
    advisories_done(&rig).await;
    let found = rig.dead_letters().await;
    let mut once = found.clone();
    once.dedup();
    assert_eq!(found, once, "each is there once");
    assert!(found.len() as u64 >= 30 - already);
    daemon.ready().await;
    daemon.stop().await;
}
