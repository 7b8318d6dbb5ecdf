//! Reading dead letters back: total, whatever somebody published to the dead-letter stream.

#![no_main]

use bytes::Bytes;
use jetsink::dead_letter::{Part, parse};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut pieces = data.split(|byte| *byte == 0xff);
    let lines = String::from_utf8_lossy(pieces.next().unwrap_or_default()).into_owned();
    let headers = lines.lines().filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>();
    let parts =
        pieces.take(2).map(|body| Part { headers: headers.clone(), body: Bytes::copy_from_slice(body) });
    let parts = parts.collect::<Vec<_>>();
    drop(parse(&parts));
});
