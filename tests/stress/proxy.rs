//! A TCP proxy in front of a server, whose network can be cut.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::harness::free_port;

/// What becomes of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    /// They go through.
    Open,
    /// They stay where they are, and every connection stays open: a dead route.
    Silent,
    /// Every connection is closed, and so is every new one.
    Refused,
}

/// One listener in front of one server.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    network: Arc<watch::Sender<Network>>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// In front of the server on this loopback port.
    pub(crate) async fn start(target: u16) -> Self {
        let port = free_port();
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let network = Arc::new(watch::Sender::new(Network::Open));
        let accepting = tokio::spawn(accept(listener, target, Arc::clone(&network)));
        Self { port, network, accepting }
    }

    /// Where clients connect.
    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Nothing comes through any more, and nobody is told.
    pub(crate) fn silence(&self) {
        self.network.send_replace(Network::Silent);
    }

    /// Closes every connection, and every new one at once.
    pub(crate) fn refuse(&self) {
        self.network.send_replace(Network::Refused);
    }

    /// Everything comes through again.
    pub(crate) fn open(&self) {
        self.network.send_replace(Network::Open);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.network.send_replace(Network::Refused);
    }
}

async fn accept(listener: TcpListener, target: u16, network: Arc<watch::Sender<Network>>) {
    loop {
        let Ok((near, _)) = listener.accept().await else { continue };
        if *network.borrow() == Network::Refused {
            continue;
        }
        let Ok(far) = TcpStream::connect(("127.0.0.1", target)).await else { continue };
        let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
        tokio::spawn(carry(near_read, far_write, network.subscribe()));
        tokio::spawn(carry(far_read, near_write, network.subscribe()));
    }
}

/// One direction of one connection, until either side or the network ends it.
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut network: watch::Receiver<Network>) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let now = *network.borrow_and_update();
        let goes_on = match now {
            Network::Refused => false,
            Network::Silent => network.changed().await.is_ok(),
            Network::Open => tokio::select! {
                read = from.read(&mut bytes) => match read {
                    // Bytes that were read while the network goes silent are on the wire: they may arrive.
                    Ok(count) if count > 0 => to.write_all(&bytes[..count]).await.is_ok(),
                    _ended => false,
                },
                changed = network.changed() => changed.is_ok(),
            },
        };
        if !goes_on {
            return;
        }
    }
}
