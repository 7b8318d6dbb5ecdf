//! A publisher that writes protocol bytes itself: good clients refuse what these tests must send.

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::Server;

/// One raw connection.
#[derive(Debug)]
pub(crate) struct RawClient {
    stream: BufReader<TcpStream>,
}

impl RawClient {
    pub(crate) async fn connect(server: &Server) -> Self {
        Self::connect_with(server, "").await
    }

    /// The same, signed in.
    pub(crate) async fn connect_as(server: &Server, user: &str, password: &str) -> Self {
        Self::connect_with(server, &format!(",\"user\":\"{user}\",\"pass\":\"{password}\"")).await
    }

    async fn connect_with(server: &Server, more: &str) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
        let mut client = Self { stream: BufReader::new(stream) };
        let options = format!("{{\"verbose\":false,\"pedantic\":false,\"headers\":true{more}}}");
        client.send(format!("CONNECT {options}\r\n").as_bytes()).await;
        client.settle().await;
        client
    }

    /// `PUB` with any body.
    pub(crate) async fn publish(&mut self, subject: &str, payload: &[u8]) {
        let mut bytes = format!("PUB {subject} {}\r\n", payload.len()).into_bytes();
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(b"\r\n");
        self.send(&bytes).await;
        self.settle().await;
    }

    /// `HPUB` with any header block, its closing empty line included.
    pub(crate) async fn publish_with_block(&mut self, subject: &str, block: &[u8], payload: &[u8]) {
        let total = block.len() + payload.len();
        let mut bytes = format!("HPUB {subject} {} {total}\r\n", block.len()).into_bytes();
        bytes.extend_from_slice(block);
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(b"\r\n");
        self.send(&bytes).await;
        self.settle().await;
    }

    /// `PUB` or `HPUB` with any subject that the protocol can carry.
    pub(crate) async fn publish_bytes(&mut self, subject: &[u8], block: Option<&[u8]>, payload: &[u8]) {
        let head = block.unwrap_or_default();
        let sizes = match block {
            Some(_) => format!(" {} {}\r\n", head.len(), head.len() + payload.len()),
            None => format!(" {}\r\n", payload.len()),
        };
        let verb: &[u8] = if block.is_some() { b"HPUB " } else { b"PUB " };
        self.send(&[verb, subject, sizes.as_bytes(), head, payload, b"\r\n"].concat()).await;
        self.settle().await;
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).await.unwrap();
    }

    /// PING and its PONG: the server has read everything before it.
    async fn settle(&mut self) {
        self.send(b"PING\r\n").await;
        loop {
            let mut line = String::new();
            assert_ne!(
                self.stream.read_line(&mut line).await.unwrap(),
                0,
                "the server closed the connection"
            );
            match line.trim_end() {
                "PONG" => return,
                "PING" => self.send(b"PONG\r\n").await,
                refusal if refusal.starts_with("-ERR") => panic!("the server refused: {refusal}"),
                _info => {}
            }
        }
    }
}
