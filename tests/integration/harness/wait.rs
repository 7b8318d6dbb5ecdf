//! Polling with deadlines.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};

const POLL_EVERY: Duration = Duration::from_millis(25);

/// Asks again and again until `look` answers `Ok`; fails the test at the deadline and says what was seen last.
pub(crate) async fn eventually<T>(
    deadline: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let end = Instant::now() + deadline;
    let mut tick = interval(POLL_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = "nothing yet".to_owned();
    loop {
        tick.tick().await;
        match timeout_at(end, look()).await {
            Ok(Ok(found)) => return found,
            Ok(Err(not_yet)) => seen = not_yet,
            Err(_elapsed) => panic!("not within {deadline:?}: {what}; seen last: {seen}"),
        }
        assert!(Instant::now() < end, "not within {deadline:?}: {what}; seen last: {seen}");
    }
}

/// Watches for the whole of `duration` that `look` never answers an error.
pub(crate) async fn stays(duration: Duration, what: &str, mut look: impl AsyncFnMut() -> Result<(), String>) {
    let end = Instant::now() + duration;
    let mut tick = interval(POLL_EVERY * 4);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while Instant::now() < end {
        tick.tick().await;
        if let Err(seen) = look().await {
            panic!("did not stay for {duration:?}: {what}; seen: {seen}");
        }
    }
}
