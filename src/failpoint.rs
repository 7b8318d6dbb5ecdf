//! Named crash points, for the crash tests only: no release build has the feature.
//!
//! `JETSINK_FAILPOINT=name` ends the process at once at the first pass through that point, `name:3` at the third.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

struct Armed {
    name: String,
    left: AtomicU64,
}

static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

/// Passes the point `name`; does not return if its time has come.
pub fn hit(name: &str) {
    let armed = ARMED.get_or_init(|| parse(&std::env::var("JETSINK_FAILPOINT").ok()?));
    if let Some(armed) = armed.as_ref().filter(|armed| armed.name == name)
        && armed.left.fetch_sub(1, Ordering::SeqCst) == 1
    {
        std::process::abort();
    }
}

fn parse(text: &str) -> Option<Armed> {
    let (name, count) = match text.split_once(':') {
        Some((name, count)) => (name, count.parse().ok().filter(|count| *count > 0)?),
        None => (text, 1),
    };
    Some(Armed { name: name.into(), left: AtomicU64::new(count) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_named_with_or_without_a_count() {
        let armed = parse("file.before_write:3").unwrap();
        assert_eq!((armed.name.as_str(), armed.left.into_inner()), ("file.before_write", 3));
        assert_eq!(parse("file.before_write").unwrap().left.into_inner(), 1);
        assert!(parse("file.before_write:0").is_none());
    }
}
