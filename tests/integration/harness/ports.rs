//! Loopback ports that stay ours while a server is down.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the range that the kernel gives to outgoing connections: a client that reconnects to a dead server's port can
/// then neither take the port nor connect to itself.
const FIRST: u16 = 11_000;
const SPAN: u16 = 19_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port nobody listens on. Test processes start at different places, so that they seldom try the same one.
pub(crate) fn free_port() -> u16 {
    let start = u16::try_from(std::process::id() % u32::from(SPAN)).unwrap();
    for _ in 0..SPAN {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let offset = (u32::from(start) * 7 + u32::from(step)) % u32::from(SPAN);
        let port = FIRST + u16::try_from(offset).unwrap();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no free loopback port between {FIRST} and {}", FIRST + SPAN);
}
