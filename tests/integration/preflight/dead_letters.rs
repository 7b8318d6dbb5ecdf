//! The dead-letter stream.

use serde_json::json;

use super::bench::Bench;
use crate::harness::ServerKind;

#[tokio::test]
async fn a_stream_that_forgets_repeats_or_is_not_there() {
    for kind in [ServerKind::New, ServerKind::Old] {
        let bench = Bench::start(kind).await;
        bench.stream("A", json!({})).await;
        bench.durable("A", "w", json!({})).await;
        bench
            .stream("D", json!({ "duplicate_window": 5_000_000_000_u64, "discard": "old", "max_msgs": 100 }))
            .await;
        let mut settings = bench.settings("A");
        settings.set("dead_letter.subject", "d.letters");
        let checked = bench.check(&settings).await;
        checked.says("dead_letter_duplicate_window", "warning", &["5s", "50s"]);
        checked.says("dead_letter_discarded", "warning", &["max_msgs 100"]);
        settings.set("dead_letter.subject", "nowhere.letters");
        let checked = bench.check(&settings).await;
        checked.says("dead_letter_stream_missing", "refusal", &["nowhere.letters"]);
        assert_eq!(checked.code, Some(78));
        bench.stream("I", json!({ "retention": "interest" })).await;
        settings.set("dead_letter.subject", "i.letters");
        bench.check(&settings).await.says("dead_letter_stream_refused", "refusal", &["interest"]);
    }
}

#[tokio::test]
async fn a_server_that_is_not_there() {
    let mut bench = Bench::start(ServerKind::New).await;
    bench.server.stop().await;
    let ran = bench.run(&bench.settings("A"), &["check", "--connect"]).await;
    assert_eq!((ran.code, ran.text().as_str()), (Some(69), ""), "{ran:?}");
}
