//! Field case 33, seen from the kernel: write, then sync, then ack.

use std::time::Duration;

use crate::harness::{Daemon, Rig, RigPlan, Trace};

const SOON: Duration = Duration::from_secs(60);

/// The place of the first call that fits, counted where it ended.
fn place(calls: &[String], what: &str, fits: impl Fn(&str) -> bool) -> usize {
    calls
        .iter()
        .position(|call| fits(call))
        .unwrap_or_else(|| panic!("{what} is not there:\n{}", calls.join("\n")))
}

#[tokio::test]
async fn a_record_is_written_then_synced_then_acknowledged() {
    let rig = Rig::start().await;
    let trace = Trace::of("write,writev,pwrite64,pwritev,fsync,fdatasync,sendto,sendmsg");
    let mut daemon = Daemon::start_under(trace.launcher(), &rig.settings(), &[]);
    daemon.ready().await;
    rig.client.publish("src.a", "{\"marker\":\"of-the-order\"}").await;
    rig.drained(SOON).await;
    daemon.stop().await;
    let calls = trace.calls();
    let to_segment = |call: &str| call.contains(".ndjson") && !call.contains(".jetsink");
    let written = place(&calls, "the write", |call| to_segment(call) && call.contains("of-the-order"));
    let begun = place(&calls, "the sync", |call| to_segment(call) && call.contains("fdatasync("));
    // A call that others interrupt in the log ends on a line of its own thread.
    let thread = calls[begun].split_whitespace().next().unwrap();
    let synced = if calls[begun].contains("unfinished") {
        begun
            + place(&calls[begun..], "the end of the sync", |call| {
                call.starts_with(thread) && call.contains("fdatasync resumed") && call.contains("= 0")
            })
    } else {
        assert!(calls[begun].contains("= 0"), "{}", calls[begun]);
        begun
    };
    let acknowledged = place(&calls, "the ack", |call| call.contains("$JS.ACK.SRC.w.1.1."));
    assert!(written < synced && synced < acknowledged, "write {written}, sync {synced}, ack {acknowledged}");
    let index = calls.iter().take(acknowledged).filter(|call| call.contains(".jetsink")).collect::<Vec<_>>();
    assert!(index.iter().any(|call| call.contains("sync")), "the index is synced before the ack: {index:?}");
}

#[tokio::test]
async fn a_failed_sync_is_never_counted_as_delivered() {
    let rig = RigPlan::default().durable("ack_wait", 10_000_000_000_u64).start().await;
    let expected = rig.client.publish_many("src.a", crate::harness::small(30)).await;
    // From the third on two in a row fail, then all is well again.
    let trace = Trace::injecting("fdatasync:error=EIO:when=3..4");
    let daemon = Daemon::start_under(trace.launcher(), &rig.settings(), &[]);
    rig.drained(SOON).await;
    rig.sink_holds(&expected, SOON).await;
    assert_eq!(rig.dead_letters().await, [0_u64; 0]);
    daemon.stop().await;
    assert!(trace.calls().iter().any(|call| call.contains("EIO")), "the fault was there");
    assert_eq!(crate::harness::whole_records(&rig.sink()).len(), 30);
}
