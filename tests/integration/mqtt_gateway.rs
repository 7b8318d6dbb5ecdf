//! Messages that come through the server's MQTT gateway: what docs/mqtt.md says, at the real gateway.

use std::time::Duration;

use async_nats::HeaderMap;
use jetsink::envelope::topic_to_subject;
use serde_json::{Value, json};

use crate::harness::{
    Client, Daemon, MqttClient, MqttPublish, Rig, RigPlan, Server, ServerPlan, eventually, whole_records,
};

const SOON: Duration = Duration::from_secs(40);

/// Topics that are no plain words between slashes.
const TOPICS: [&str; 19] = [
    "src/a/b",
    "x//y",
    "x///y",
    "/x",
    "x/",
    "/",
    "//",
    "x.y",
    "x/.",
    ".",
    "./x",
    "x./",
    "a/b/c.d.e//f",
    "x/>",
    "x/*/y",
    "größe/7/€",
    "a/\u{1}/b",
    "src/$SYS/x",
    "$a/b",
];
/// Subjects that hold all of them.
const SUBJECTS: [&str; 10] = ["src.>", "x.>", "/.>", "x//y", "//", "//.>", "x//.>", "a.>", "größe.>", "$a.>"];

async fn start(plan: RigPlan) -> (Rig, u16) {
    let mut plan = plan;
    let port = plan.server.open_mqtt_gateway();
    (plan.start().await, port)
}

/// Runs the daemon until nothing is left; gives the records in the order of the stream.
async fn recorded(rig: &Rig) -> Vec<Value> {
    let mut daemon = rig.daemon();
    daemon.ready().await;
    rig.drained(SOON).await;
    daemon.stop().await;
    let mut records = whole_records(&rig.sink());
    records.sort_by_key(|record| record.sequence());
    records.into_iter().map(|record| record.json).collect()
}

#[tokio::test]
async fn records_show_the_topic_and_the_quality_of_service_that_were_sent() {
    let (rig, port) = start(RigPlan::default().source("subjects", SUBJECTS.to_vec())).await;
    let mut device = MqttClient::connect(port, "device").await;
    let mut expected = Vec::new();
    for topic in TOPICS {
        for qos in 0..=2 {
            let body = json!({ "topic": topic, "qos": qos });
            device.publish(&MqttPublish::new(topic, qos, body.to_string().as_bytes())).await;
            expected.push((json!({ "qos": qos, "topic": topic }), body));
        }
    }
    let records = recorded(&rig).await;
    assert_eq!(records.len(), expected.len());
    for (record, (mqtt, body)) in records.iter().zip(expected) {
        assert_eq!((&record["mqtt"], &record["payload"]), (&mqtt, &body), "{record}");
        assert_eq!(record["headers"]["Nmqtt-Pub"], mqtt["qos"].to_string());
    }
    assert_eq!(rig.dead_letters().await, [0_u64; 0]);
}

#[tokio::test]
async fn the_gateway_makes_the_subjects_that_we_say_it_makes() {
    let (rig, port) = start(RigPlan::default()).await;
    let mut device = MqttClient::connect(port, "device").await;
    let mut seed = 7_u64;
    let mut draw = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ["/", ".", "a", "é", ">", "*", "$", "//", ".."][usize::try_from((seed >> 33) % 9).unwrap()]
    };
    let topics: Vec<String> = (0..300)
        .map(|length| format!("src/{}", (0..=length % 9).map(|_| draw()).collect::<String>()))
        .collect();
    for topic in &topics {
        device.publish(&MqttPublish::new(topic, 1, b"")).await;
    }
    let stored = rig.client.messages("SRC").await;
    assert_eq!(stored.len(), topics.len());
    for (message, topic) in stored.iter().zip(&topics) {
        assert_eq!(Ok(&message.subject), topic_to_subject(topic).as_ref(), "{topic}");
    }
}

#[tokio::test]
async fn what_is_no_topic_of_ours_is_none_of_the_gateways() {
    let (_rig, port) = start(RigPlan::default()).await;
    for (index, topic) in
        ["", "src/+", "src/#", "src/a b", "src/\t", "src/\n", "src/\r", "src/\u{c}", "src/\u{7f}", "src/\0"]
            .into_iter()
            .enumerate()
    {
        assert!(topic_to_subject(topic).is_err(), "{topic:?}");
        let device = MqttClient::connect(port, &format!("device-{index}")).await;
        assert!(device.cut_off_by(&MqttPublish::new(topic, 1, b"")).await, "{topic:?}");
    }
}

#[tokio::test]
async fn what_nats_clients_publish_has_no_mqtt_facts_unless_they_forge_them() {
    let (rig, _port) = start(RigPlan::default()).await;
    rig.client.publish("src.plain", "{}").await;
    for (subject, name, value) in [
        ("src.forged", "Nmqtt-Pub", "2"),
        ("src.a/b", "Nmqtt-Pub", "1"),
        ("src.case", "nmqtt-pub", "1"),
        ("src.value", "Nmqtt-Pub", "many"),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(name, value);
        rig.client.publish_with(subject, headers, "{}").await;
    }
    let records = recorded(&rig).await;
    let facts: Vec<_> = records.iter().map(|record| record.get("mqtt").cloned()).collect();
    let forged = json!({ "qos": 2, "topic": "src/forged" });
    let without_topic = json!({ "qos": 1, "topic": null });
    assert_eq!(facts, [None, Some(forged), Some(without_topic), None, None]);
}

#[tokio::test]
async fn retain_dup_and_will_in_a_stream() {
    let (rig, port) = start(RigPlan::default()).await;
    let mut device = MqttClient::connect(port, "device").await;
    let publish = |topic, qos, body| MqttPublish::new(topic, qos, body);
    device.publish(&MqttPublish { retain: true, ..publish("src/retained", 1, b"1") }).await;
    device.publish(&MqttPublish { retain: true, ..publish("src/retained", 0, b"") }).await;
    for again in [false, true] {
        device.publish(&MqttPublish { again, packet: 7, ..publish("src/once", 1, b"2") }).await;
    }
    // Quality of service 2: sent twice, stored when it is released, once.
    for again in [false, true] {
        device.publish_unreleased(&MqttPublish { again, packet: 8, ..publish("src/twice", 2, b"3") }).await;
    }
    assert_eq!(rig.client.stream_info("SRC").await["state"]["messages"], 4);
    device.release(8).await;
    let will = ("src/will", 1, &b"4"[..]);
    MqttClient::connect_with_will(port, "mortal", will).await.break_off();
    eventually(SOON, "the will is published", async || {
        let state = rig.client.stream_info("SRC").await["state"].clone();
        if state["messages"] == 6 { Ok(()) } else { Err(state.to_string()) }
    })
    .await;

    let stored = rig.client.messages("SRC").await;
    for message in &stored {
        let lines: Vec<_> = message.headers.lines().filter(|line| line.contains(':')).collect();
        assert!(
            matches!(lines[..], [only] if only.starts_with("Nmqtt-Pub:")),
            "{lines:?}: nothing of RETAIN or DUP"
        );
    }
    let records = recorded(&rig).await;
    let facts: Vec<_> = records
        .iter()
        .map(|record| (record["mqtt"]["topic"].as_str().unwrap(), record["mqtt"]["qos"].as_u64().unwrap()))
        .collect();
    assert_eq!(
        facts,
        [
            ("src/retained", 1),
            ("src/retained", 0),
            ("src/once", 1),
            ("src/once", 1),
            ("src/twice", 2),
            ("src/will", 1)
        ]
    );
    assert_eq!(
        records[1]["payload"]["_nats_sinks"]["size_bytes"], 0,
        "a retained message is cleared by an empty body"
    );
    assert!(records.iter().all(|record| record["message_id"].is_null()), "the gateway gives no message id");
}

#[tokio::test]
async fn a_puback_says_nothing_about_the_stream() {
    let plan = RigPlan::default().source("max_msgs", 1).source("discard", "new");
    let (rig, port) = start(plan).await;
    let mut device = MqttClient::connect(port, "device").await;
    device.publish(&MqttPublish::new("src/a", 1, b"1")).await;
    // Both are confirmed to the device, although the stream is full.
    device.publish(&MqttPublish::new("src/a", 1, b"2")).await;
    device.publish(&MqttPublish::new("src/a", 2, b"3")).await;
    let answer = rig.client.core().request("src.a", "4".into()).await.unwrap();
    let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
    assert_eq!(answer["error"]["err_code"], 10_077, "a NATS publisher is told: {answer}");
    let stored = rig.client.messages("SRC").await;
    assert_eq!(stored.iter().map(|message| message.payload.as_slice()).collect::<Vec<_>>(), [b"1"]);
}

#[tokio::test]
async fn a_body_that_the_stream_does_not_take_is_confirmed_as_well() {
    let (rig, port) = start(RigPlan::default().source("max_msg_size", 1000)).await;
    let mut device = MqttClient::connect(port, "device").await;
    device.publish(&MqttPublish::new("src/a", 1, &[b'x'; 2000])).await;
    device.publish(&MqttPublish::new("src/a", 1, b"small")).await;
    let stored = rig.client.messages("SRC").await;
    assert_eq!(stored.iter().map(|message| message.payload.as_slice()).collect::<Vec<_>>(), [b"small"]);
}

#[tokio::test]
async fn dead_letters_tell_topic_and_quality_of_service() {
    for format in ["json", "original"] {
        let (rig, port) = start(RigPlan::default()).await;
        let mut device = MqttClient::connect(port, "device").await;
        device.publish(&MqttPublish::new("src//größe.7", 2, &[b'x'; 2000])).await;
        rig.client.publish("src.plain", vec![b'x'; 2000]).await;
        let mut settings = rig.settings_for_small();
        settings.set("dead_letter.format", format);
        let mut daemon = Daemon::start(&settings, &[]);
        daemon.ready().await;
        rig.drained(SOON).await;
        daemon.stop().await;
        let letters = rig.client.messages("DLQ").await;
        let facts: Vec<_> = letters
            .iter()
            .map(|letter| {
                match format {
                "json" => letter.json().get("mqtt").cloned(),
                _original => letter.header("Jetsink-Mqtt-Qos").map(|qos| {
                    json!({ "qos": qos.parse::<u8>().unwrap(), "topic": letter.header("Jetsink-Mqtt-Topic") })
                }),
            }
            })
            .collect();
        assert_eq!(facts, [Some(json!({ "qos": 2, "topic": "src//größe.7" })), None], "{format}");
        assert!(
            letters.iter().all(|letter| letter.header("Nmqtt-Pub").is_none()),
            "a header of the gateway's"
        );
    }
}

/// A topic that fits into no header block: its letter is JSON whatever the format.
#[tokio::test]
async fn a_topic_of_tens_of_kilobytes_is_written_and_dead_lettered() {
    for format in ["json", "original"] {
        let mut plan = RigPlan::default();
        plan.server.extra = String::new();
        let (rig, port) = start(plan).await;
        let mut device = MqttClient::connect(port, "device").await;
        let topic = format!("src/{}", "x".repeat(60_000));
        device.publish(&MqttPublish::new(&topic, 1, b"{}")).await;
        device.publish(&MqttPublish::new(&topic, 1, &[b'x'; 2000])).await;
        let mut settings = rig.settings_for_small();
        settings.set("dead_letter.format", format);
        let mut daemon = Daemon::start(&settings, &[]);
        daemon.ready().await;
        rig.drained(SOON).await;
        daemon.stop().await;
        let records = whole_records(&rig.sink());
        assert_eq!(records.iter().map(|record| &record.json["mqtt"]["topic"]).collect::<Vec<_>>(), [&topic]);
        let letters = rig.client.messages("DLQ").await;
        let subjects: Vec<_> = letters.iter().map(|letter| letter.json()["subject"].clone()).collect();
        assert_eq!(subjects, [topic.replace('/', ".")], "{format}");
    }
}

#[tokio::test]
async fn a_stream_of_the_gateway_is_not_bound() {
    let (rig, port) = start(RigPlan::default()).await;
    let _device = MqttClient::connect(port, "device").await;
    let mut settings = rig.settings();
    settings.set("consumer.stream", "$MQTT_msgs").set("consumer.mode", "create_if_missing");
    let log = Daemon::start(&settings, &[]).refuses().await;
    assert!(log.contains("consumer.stream") && log.contains("MQTT gateway"), "{log}");
    let consumers = rig.client.stream_info("$MQTT_msgs").await["state"]["consumer_count"].clone();
    assert_eq!(consumers, 0);
}

#[tokio::test]
async fn a_stream_on_everything_keeps_mqtt_clients_out() {
    let mut plan = ServerPlan::default();
    let port = plan.open_mqtt_gateway();
    let server = Server::start(&plan).await;
    let client = Client::connect(&server, async_nats::ConnectOptions::new()).await;
    client.create_stream(&json!({ "name": "ALL", "subjects": [">"], "no_ack": true })).await;
    assert!(MqttClient::open(port, "device", None).await.is_none());
    client.update_stream(&json!({ "name": "ALL", "subjects": ["src.>"], "no_ack": true })).await;
    assert!(MqttClient::open(port, "device", None).await.is_some());
}
