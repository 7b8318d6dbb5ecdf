//! The headers of a message: ordered, multi-valued, case kept.

use bytes::Bytes;

/// The headers of one message. NATS headers are a multimap with case kept (formats §1), so nothing is merged here.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers {
    lines: Vec<(String, Bytes)>,
    raw_block: Option<Box<Bytes>>,
}

impl Headers {
    /// No headers.
    #[must_use]
    pub const fn new() -> Self {
        Self { lines: Vec::new(), raw_block: None }
    }

    /// The header block of a message that no client can be handed: kept as it is and never taken apart, so there are no
    /// lines.
    #[must_use]
    pub fn unread(block: Bytes) -> Self {
        Self { lines: Vec::new(), raw_block: Some(Box::new(block)) }
    }

    /// The block of [`unread`](Self::unread) headers.
    #[must_use]
    pub fn raw_block(&self) -> Option<&Bytes> {
        self.raw_block.as_deref()
    }

    /// Appends one header line.
    pub fn append(&mut self, name: impl Into<String>, value: impl Into<Bytes>) {
        self.lines.push((name.into(), value.into()));
    }

    /// How many header lines there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is no header line.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The lines in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Bytes)> {
        self.lines.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The first value of the header with exactly this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Bytes> {
        self.lines.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// Every value of headers with this name in any case, in order.
    pub fn all_ignoring_case<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Bytes> {
        self.lines.iter().filter(move |(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Bytes of all names and values together (formats §3, `max_headers_bytes`), or of the unread block.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        let lines: usize = self.lines.iter().map(|(name, value)| name.len() + value.len()).sum();
        lines + self.raw_block().map_or(0, Bytes::len)
    }
}

/// Shows names only: values may be secrets and never reach a log.
impl std::fmt::Debug for Headers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.raw_block {
            Some(block) => write!(formatter, "{} unread bytes", block.len()),
            None => formatter.debug_list().entries(self.lines.iter().map(|(name, _)| name)).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_one_name_keep_their_order_and_case_is_kept() {
        let mut headers = Headers::new();
        headers.append("X-A", "1");
        headers.append("x-a", "2");
        headers.append("X-A", "3");
        assert_eq!(headers.get("X-A").map(AsRef::as_ref), Some(&b"1"[..]));
        let all: Vec<_> = headers.all_ignoring_case("X-a").cloned().collect();
        assert_eq!(all, ["1", "2", "3"]);
        assert_eq!(headers.total_bytes(), 12);
    }

    #[test]
    fn debug_shows_no_value() {
        let mut headers = Headers::new();
        headers.append("Authorization", "CANARY");
        assert!(!format!("{headers:?}").contains("CANARY"));
        let unread = Headers::unread(Bytes::from_static(b"CANARY"));
        assert_eq!(format!("{unread:?}"), "6 unread bytes");
        assert_eq!((unread.len(), unread.total_bytes()), (0, 6));
    }
}
