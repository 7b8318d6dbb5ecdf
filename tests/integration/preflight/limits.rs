//! Limits of the stream.

use serde_json::json;

use super::bench::Bench;
use crate::harness::{ServerKind, small};

#[tokio::test]
async fn limits_that_refuse_or_remove_and_what_is_missing() {
    for kind in [ServerKind::New, ServerKind::Old] {
        let bench = Bench::start(kind).await;
        for (name, change) in [
            ("F", json!({ "max_msgs": 10, "discard": "new" })),
            ("O", json!({ "max_msgs": 10, "discard": "old" })),
            ("P", json!({ "max_msgs_per_subject": 1 })),
            ("G", json!({})),
        ] {
            bench.stream(name, change).await;
            bench.durable(name, "w", json!({})).await;
            bench.client.publish_many(&format!("{}.x", name.to_lowercase()), small(9)).await;
        }
        let full = bench.check(&bench.settings("F")).await;
        full.says("limit_nearly_full", "warning", &["90 % full", "9 of max_msgs 10", "refused"]);
        let old = bench.check(&bench.settings("O")).await;
        old.says("unread_at_risk", "warning", &["max_msgs 10", "9 messages are not read"]);
        bench.pull("O", "w", Some("+ACK")).await;
        bench.check(&bench.settings("O")).await.is_healthy();
        let subject = bench.check(&bench.settings("P")).await;
        subject.says("unread_at_risk", "warning", &["1 messages of a subject"]);
        bench.client.delete_many("G", &[3, 4]).await;
        let gaps = bench.check(&bench.settings("G")).await;
        gaps.says("deleted_gaps", "info", &["7 of the 9", "2 were deleted"]);
        gaps.is_healthy();
    }
}
