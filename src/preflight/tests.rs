//! One test for each finding, on the facts that it is about.

use std::time::Duration;

use super::*;

fn stream() -> StreamFacts {
    StreamFacts {
        config: StreamConfig {
            name: "S".into(),
            subjects: vec!["s.>".into()],
            retention: "limits".into(),
            discard: "old".into(),
            num_replicas: 1,
            ..StreamConfig::default()
        },
        state: StreamState {
            messages: 10,
            bytes: 1000,
            first_seq: 1,
            last_seq: 10,
            consumer_count: 1,
            ..StreamState::default()
        },
        ..StreamFacts::default()
    }
}

fn durable(name: &str) -> ConsumerFacts {
    ConsumerFacts {
        name: name.into(),
        created: "2026-01-01T00:00:00Z".into(),
        config: ConsumerConfig {
            ack_policy: "explicit".into(),
            ack_wait: 30_000_000_000,
            max_deliver: -1,
            max_ack_pending: 1000,
            max_waiting: 512,
            ..ConsumerConfig::default()
        },
        num_waiting: 1,
        ..ConsumerFacts::default()
    }
}

fn letters() -> StreamFacts {
    let mut letters = stream();
    letters.config.name = "DLQ".into();
    letters.config.subjects = vec!["dlq.>".into()];
    letters.config.duplicate_window = 120_000_000_000;
    letters
}

fn plan() -> Plan {
    Plan {
        stream: "S".into(),
        durable: "w".into(),
        in_hand: 40,
        batch_size: 10,
        batches: 4,
        batch_bytes: 8 << 20,
        pull_messages: 20,
        expires: Duration::from_secs(5),
        in_progress: true,
        write_timeout: Duration::from_secs(60),
        max_attempts: 5,
        crash_limit: 10,
        dead_letters: Some(LetterPlan {
            pattern: "dlq.s".into(),
            subjects: vec!["dlq.s".into()],
            stream: None,
            advisories: Some(("ADV".into(), "jetsink-S-w".into())),
        }),
        api: "$JS.API".into(),
        inbox: "_INBOX".into(),
        ..Plan::default()
    }
}

fn facts() -> Facts {
    Facts {
        server: ServerFacts { version: "2.15.1".into(), max_payload: 1 << 20 },
        stream: Seen::Found(stream()),
        durable: Seen::Found(durable("w")),
        consumers: Seen::Found(vec![durable("w")]),
        dead_letters: DeadLetterFacts {
            capturing: Seen::Found(vec!["DLQ".into()]),
            stream: Seen::Found(letters()),
        },
        advisory_streams: Seen::Found(Vec::new()),
        now: 1_796_078_187_000_000_000,
        ..Facts::default()
    }
}

/// The findings after a change of the healthy facts.
fn after(change: impl FnOnce(&mut Plan, &mut StreamFacts, &mut ConsumerFacts, &mut Facts)) -> Vec<Finding> {
    let (mut plan, mut facts, mut stream, mut durable) = (plan(), facts(), stream(), durable("w"));
    change(&mut plan, &mut stream, &mut durable, &mut facts);
    let alone = facts.consumers.found().is_some_and(|consumers| consumers.len() == 1);
    if alone {
        facts.consumers = Seen::Found(vec![durable.clone()]);
    }
    (facts.stream, facts.durable) = (Seen::Found(stream), Seen::Found(durable));
    inspect(&plan, &facts)
}

#[track_caller]
fn says(findings: &[Finding], code: Code, level: Level, words: &[&str]) {
    let fits = |finding: &&Finding| finding.code == code && finding.level == level;
    let found =
        findings.iter().find(fits).unwrap_or_else(|| panic!("no {level:?} {code:?} in {findings:#?}"));
    for word in words {
        assert!(found.text().contains(word), "{word} is missing in {}", found.text());
    }
}

#[test]
fn what_is_healthy_has_no_warning() {
    let findings = after(|_, _, _, _| {});
    assert!(findings.iter().all(|finding| finding.level == Level::Info), "{findings:#?}");
    says(&findings, Code::StreamState, Level::Info, &["limits", "10 messages", "1 to 10"]);
    says(&findings, Code::DeadLetterStream, Level::Info, &["DLQ"]);
}

#[test]
fn interest_streams() {
    let alone = after(|_, stream, _, _| stream.config.retention = "interest".into());
    says(&alone, Code::InterestSoleConsumer, Level::Info, &["vanish"]);
    let without = after(|_, stream, _, _| {
        stream.config.retention = "interest".into();
        stream.state.consumer_count = 0;
    });
    says(&without, Code::InterestWithoutConsumer, Level::Warning, &["publishes succeed and vanish"]);
    let new = after(|_, stream, _, facts| {
        stream.config.retention = "interest".into();
        facts.created_now = true;
    });
    says(&new, Code::InterestNewDurable, Level::Warning, &["earlier data is gone"]);
    let filtered = after(|_, stream, durable, _| {
        stream.config.retention = "interest".into();
        durable.config.filter_subject = "s.a".into();
    });
    says(&filtered, Code::InterestSubjectUnwanted, Level::Warning, &["s.>", "s.a"]);
}

#[test]
fn a_stalled_consumer_is_named() {
    let findings = after(|_, stream, own, facts| {
        stream.config.retention = "interest".into();
        own.ack_floor.stream_seq = 10;
        let mut other = durable("lazy");
        (other.num_waiting, other.num_pending, other.num_ack_pending, other.ack_floor.stream_seq) =
            (0, 7, 1, 2);
        facts.consumers = Seen::Found(vec![own.clone(), other]);
    });
    says(
        &findings,
        Code::StalledConsumer,
        Level::Warning,
        &["lazy", "ack floor is 2", "7 pending", "nobody pulls"],
    );
}

#[test]
fn work_queues() {
    let findings = after(|_, stream, durable, facts| {
        stream.config.retention = "workqueue".into();
        durable.config.max_deliver = 3;
        facts.exhausted = vec![2, 5];
    });
    says(&findings, Code::WorkQueueMaxDeliver, Level::Warning, &["max_deliver = 3", "for ever"]);
    says(&findings, Code::WorkQueueExhausted, Level::Warning, &["10 messages", "sequences 2, 5"]);
    says(&findings, Code::MaxDeliverUnwatched, Level::Warning, &["MAX_DELIVERIES.S.w"]);
    says(&findings, Code::MaxDeliverTooSmall, Level::Warning, &["crash_limit 10"]);
    let overlap = after(|_, stream, own, facts| {
        stream.config.retention = "workqueue".into();
        facts.consumers = Seen::Found(vec![own.clone(), durable("other")]);
    });
    says(&overlap, Code::WorkQueueOverlap, Level::Refusal, &["other"]);
    let unwanted = after(|_, stream, durable, _| {
        stream.config.retention = "workqueue".into();
        durable.config.filter_subject = "s.a".into();
    });
    says(&unwanted, Code::WorkQueueSubjectUnwanted, Level::Warning, &["s.>"]);
}

#[test]
fn limits_of_the_stream() {
    let full = after(|_, stream, _, _| {
        (stream.config.discard, stream.config.max_msgs) = ("new".into(), 12);
    });
    says(&full, Code::LimitNearlyFull, Level::Warning, &["83 %", "max_msgs 12"]);
    let risk = after(|_, stream, durable, _| {
        stream.config.max_bytes = 1500;
        durable.num_pending = 9;
    });
    says(&risk, Code::UnreadAtRisk, Level::Warning, &["max_bytes 1500", "9 messages"]);
    let read = after(|_, stream, _, _| stream.config.max_bytes = 1500);
    assert!(read.iter().all(|finding| finding.code != Code::UnreadAtRisk));
    let subject = after(|_, stream, _, _| stream.config.max_msgs_per_subject = 1);
    says(&subject, Code::UnreadAtRisk, Level::Warning, &["max_msgs_per_subject"]);
    let gaps = after(|_, stream, _, _| stream.state.messages = 7);
    says(&gaps, Code::DeletedGaps, Level::Info, &["7 of the 10", "3 were deleted"]);
    let sealed = after(|_, stream, _, _| stream.config.sealed = true);
    says(&sealed, Code::StreamSealed, Level::Warning, &["sealed"]);
}

#[test]
fn where_messages_come_from() {
    let mirror =
        after(|_, stream, _, _| stream.config.mirror = Some(Feed { name: "O".into(), ..Feed::default() }));
    says(&mirror, Code::StreamIsMirror, Level::Info, &["mirror of O", "idempotency key"]);
    let fed =
        after(|_, stream, _, _| stream.config.sources = vec![Feed { name: "O".into(), ..Feed::default() }]);
    says(&fed, Code::StreamHasSources, Level::Info, &["from O"]);
    let rewritten =
        after(|_, stream, _, _| stream.config.subject_transform = Some(serde_json::json!({ "src": ">" })));
    says(&rewritten, Code::SubjectTransform, Level::Info, &["rewrites"]);
    let mqtt = after(|_, stream, _, _| {
        stream.config.sources = vec![Feed { name: "$MQTT_msgs".into(), ..Feed::default() }];
    });
    says(&mqtt, Code::MqttStream, Level::Refusal, &["$MQTT_msgs"]);
}

#[test]
fn waits_and_limits_of_the_durable() {
    let backoff = after(|_, _, durable, _| durable.config.backoff = vec![1_000_000_000, 5_000_000_000]);
    says(&backoff, Code::BackoffReplacesAckWait, Level::Warning, &["[1s, 5s]"]);
    let slow = after(|plan, _, _, _| plan.in_progress = false);
    says(&slow, Code::AckWaitTooShort, Level::Refusal, &["60s", "30s"]);
    let queued =
        after(|plan, _, _, _| (plan.in_progress, plan.write_timeout) = (false, Duration::from_secs(10)));
    says(&queued, Code::AckWaitTooShort, Level::Warning, &["4 batches"]);
    let short = after(|_, _, durable, _| durable.config.ack_wait = 500_000_000);
    says(&short, Code::AckWaitTooShort, Level::Warning, &["500ms"]);
    let small =
        after(|_, _, durable, _| (durable.config.max_ack_pending, durable.num_ack_pending) = (30, 30));
    says(&small, Code::MaxAckPendingTooSmall, Level::Warning, &["is 30", "need 40"]);
    says(&small, Code::AckPendingAtLimit, Level::Warning, &["30"]);
    let pulls = after(|_, _, durable, _| {
        let config = &mut durable.config;
        (config.max_bytes, config.max_batch, config.max_waiting, config.max_expires) =
            (1000, 5, 1, 2_000_000_000);
    });
    let count = pulls.iter().filter(|finding| finding.code == Code::PullLimit).count();
    assert_eq!(count, 4, "{pulls:#?}");
    let bytes = after(|plan, _, _, _| plan.batch_bytes = 1000);
    says(&bytes, Code::BatchBytesTooSmall, Level::Refusal, &["1000 bytes"]);
}

#[test]
fn shape_of_the_durable() {
    let findings = after(|_, _, durable, _| {
        let config = &mut durable.config;
        (config.headers_only, config.inactive_threshold) = (true, 60_000_000_000);
        config.filter_subject = "t.>".into();
        durable.paused = true;
    });
    says(&findings, Code::HeadersOnly, Level::Info, &["bodies"]);
    says(&findings, Code::InactiveThreshold, Level::Warning, &["60s"]);
    says(&findings, Code::FilterOutsideStream, Level::Warning, &["t.>", "s.>"]);
    says(&findings, Code::DurablePaused, Level::Warning, &["paused"]);
    let different =
        after(|_, _, _, facts| facts.differences = vec!["headers_only: the server leaves bodies out".into()]);
    says(&different, Code::DurableDiffers, Level::Refusal, &["bodies"]);
}

#[test]
fn what_is_not_there() {
    let (mut plan, mut facts) = (plan(), facts());
    facts.durable = Seen::Missing;
    says(&inspect(&plan, &facts), Code::DurableMissing, Level::Refusal, &["w"]);
    plan.may_create = true;
    says(&inspect(&plan, &facts), Code::DurableToBeCreated, Level::Info, &["w"]);
    facts.stream = Seen::Missing;
    says(&inspect(&plan, &facts), Code::StreamMissing, Level::Refusal, &["S"]);
    facts.stream = Seen::Unseen("denied".into());
    facts.durable = Seen::Unseen("denied".into());
    says(&inspect(&plan, &facts), Code::NotSeen, Level::Warning, &["denied"]);
}

#[test]
fn dead_letter_streams() {
    let change = |change: fn(&mut StreamFacts)| {
        let mut stream = letters();
        change(&mut stream);
        let mut facts = facts();
        facts.dead_letters.stream = Seen::Found(stream);
        inspect(&plan(), &facts)
    };
    for broken in [
        (|stream| stream.config.no_ack = true) as fn(&mut StreamFacts),
        |stream| stream.config.sealed = true,
        |stream| stream.config.retention = "interest".into(),
        |stream| stream.config.subjects = vec!["dlq.other".into()],
        |stream| stream.config.name = "S".into(),
    ] {
        says(&change(broken), Code::DeadLetterStreamRefused, Level::Refusal, &[]);
    }
    says(
        &change(|stream| stream.config.max_msgs = 100),
        Code::DeadLetterDiscarded,
        Level::Warning,
        &["max_msgs 100"],
    );
    says(
        &change(|stream| stream.config.retention = "workqueue".into()),
        Code::DeadLetterWorkQueue,
        Level::Warning,
        &[],
    );
    says(
        &change(|stream| stream.config.max_msg_size = 1000),
        Code::DeadLetterTooLarge,
        Level::Warning,
        &["1000 bytes"],
    );
    let window = change(|stream| stream.config.duplicate_window = 1_000_000_000);
    says(&window, Code::DeadLetterDuplicateWindow, Level::Warning, &["1s", "90s"]);
    let full = change(|stream| (stream.config.max_msgs, stream.config.discard) = (11, "new".into()));
    says(&full, Code::DeadLetterNearlyFull, Level::Warning, &["90 %"]);
    let mut none = facts();
    none.dead_letters.capturing = Seen::Found(Vec::new());
    says(&inspect(&plan(), &none), Code::DeadLetterStreamMissing, Level::Refusal, &["dlq.s"]);
    let without = Plan { dead_letters: None, ..plan() };
    says(&inspect(&without, &facts()), Code::DeadLetterNotConfigured, Level::Info, &[]);
}

#[test]
fn servers_with_mistakes() {
    let findings = after(|_, stream, durable, facts| {
        facts.server.version = "2.12.4".into();
        (stream.config.retention, stream.config.num_replicas) = ("workqueue".into(), 3);
        stream.config.sources = vec![Feed::default()];
        durable.config.max_deliver = 20;
    });
    let count = findings.iter().filter(|finding| finding.code == Code::ServerRetentionBug).count();
    assert_eq!(count, 3, "{findings:#?}");
    let findings = after(|_, _, durable, facts| {
        facts.server.version = "2.9.10".into();
        durable.config.max_deliver = 20;
    });
    assert!(
        findings.iter().all(|finding| finding.code != Code::ServerRetentionBug),
        "limits streams are not concerned"
    );
}

#[test]
fn denied_permissions_are_named() {
    let mut facts = facts();
    facts.trials = needed(&plan(), For::Check)
        .into_iter()
        .map(|permission| Trial { permission, outcome: Outcome::Denied })
        .collect();
    let findings = inspect(&plan(), &facts);
    says(&findings, Code::PermissionMissing, Level::Refusal, &["$JS.API.CONSUMER.INFO.S.w"]);
    for subject in ["$JS.ACK.S.w.>", "$JS.ACK.*.*.S.w.>", "dlq.s", "_INBOX.>"] {
        assert!(
            findings.iter().any(|finding| finding.level == Level::Refusal && finding.seen.contains(subject)),
            "{subject}"
        );
    }
    let block = block(&needed(&plan(), For::Daemon));
    for subject in ["$JS.API.CONSUMER.MSG.NEXT.ADV.jetsink-S-w", "$JS.ACK.ADV.jetsink-S-w.>"] {
        assert!(block.contains(&format!("\"{subject}\"")), "{subject} is missing in {block}");
    }
    let optional = "$JS.API.STREAM.MSG.GET.S";
    assert!(
        findings.iter().any(|finding| finding.level == Level::Warning && finding.seen.contains(optional))
    );
}

#[test]
fn the_page_explains_every_code_and_no_other() {
    let page = include_str!("../../docs/preflight.md");
    let shown: Vec<_> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(code, _)| code))
        .collect();
    let codes: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(shown, codes);
}
