//! Denied permissions, each named.

use serde_json::json;

use super::bench::Bench;
use super::granted::restricted;
use crate::harness::ServerKind;

#[tokio::test]
async fn each_denied_subject_is_a_finding_that_names_it() {
    for kind in [ServerKind::New, ServerKind::Old] {
        let mut bench = Bench::start(kind).await;
        bench.stream("A", json!({})).await;
        bench.durable("A", "w", json!({})).await;
        let mut settings = bench.settings("A");
        settings.set("dead_letter.stream", "DLQ");
        let denied = [
            ("$JS.API.CONSUMER.MSG.NEXT.A.w", "refusal"),
            ("$JS.ACK.A.w.>", "refusal"),
            ("$JS.ACK.*.*.A.w.>", "refusal"),
            ("dlq.w", "refusal"),
            ("$JS.API.STREAM.MSG.GET.A", "warning"),
            ("$JS.API.CONSUMER.LIST.A", "warning"),
            ("$JS.API.STREAM.INFO.DLQ", "warning"),
        ];
        let list: Vec<_> = denied.iter().map(|(subject, _)| format!("\"{subject}\"")).collect();
        let block = format!("permissions {{ publish {{ deny: [{}] }} }}", list.join(", "));
        restricted(&mut bench, &mut settings, &block).await;
        let checked = bench.check(&settings).await;
        for (subject, level) in denied {
            checked.says("permission_missing", level, &[subject]);
        }
        assert_eq!(checked.code, Some(78));
        assert_eq!(checked.count("permission_missing"), denied.len(), "{checked:#?}");
        // What is permitted was looked at all the same.
        checked.says("stream_state", "info", &["stream A"]);
        checked.says("durable_state", "info", &["durable w"]);
        assert_eq!(bench.client.stream_info("DLQ").await["state"]["messages"], 0);
    }
}

#[tokio::test]
async fn a_user_who_may_do_nothing_hears_everything_at_once() {
    for kind in [ServerKind::New, ServerKind::Old] {
        let mut bench = Bench::start(kind).await;
        bench.stream("A", json!({})).await;
        let mut settings = bench.settings("A");
        settings.set("consumer.mode", "create_if_missing");
        let nothing = "permissions { publish { deny: \">\" }, subscribe { deny: \">\" } }";
        restricted(&mut bench, &mut settings, nothing).await;
        let checked = bench.check(&settings).await;
        for subject in [
            "$JS.API.CONSUMER.INFO.A.w",
            "$JS.API.CONSUMER.DURABLE.CREATE.A.w",
            "$JS.API.STREAM.INFO.A",
            "dlq.w",
            "_INBOX.>",
        ] {
            checked.says(
                "permission_missing",
                if subject.contains("STREAM") { "warning" } else { "refusal" },
                &[subject],
            );
        }
        assert_eq!(checked.code, Some(78));
    }
}

#[tokio::test]
async fn a_wrong_inbox_prefix_is_the_only_thing_named() {
    let mut bench = Bench::start(ServerKind::New).await;
    bench.stream("A", json!({})).await;
    bench.durable("A", "w", json!({})).await;
    let mut settings = bench.settings("A");
    let other = "permissions { subscribe { allow: [\"_INBOX_other.>\"] } }";
    restricted(&mut bench, &mut settings, other).await;
    let checked = bench.check(&settings).await;
    checked.says("permission_missing", "refusal", &["subscribe _INBOX.>"]);
    assert_eq!(checked.count("permission_missing"), 1, "{checked:#?}");
}
