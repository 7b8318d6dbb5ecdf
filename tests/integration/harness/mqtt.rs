//! An MQTT 3.1.1 client that writes its packets itself, so that a test says exactly what is sent.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{ServerPlan, eventually, free_port};

const ANSWER: Duration = Duration::from_secs(20);

const CONNECT: u8 = 0x10;
const CONNACK: u8 = 0x20;
const PUBLISH: u8 = 0x30;
const PUBACK: u8 = 0x40;
const PUBREC: u8 = 0x50;
const PUBREL: u8 = 0x62;
const PUBCOMP: u8 = 0x70;
const PINGREQ: u8 = 0xc0;
const PINGRESP: u8 = 0xd0;

impl ServerPlan {
    /// Adds a listener of the MQTT gateway; gives its port.
    pub(crate) fn open_mqtt_gateway(&mut self) -> u16 {
        let port = free_port();
        self.extra = format!("{}\nserver_name: gateway\nmqtt {{ listen: \"127.0.0.1:{port}\" }}", self.extra);
        port
    }
}

/// One PUBLISH.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MqttPublish<'a> {
    pub(crate) topic: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) qos: u8,
    pub(crate) retain: bool,
    /// DUP: the sender says that it sends it again.
    pub(crate) again: bool,
    /// The packet identifier; not sent with quality of service 0.
    pub(crate) packet: u16,
}

impl<'a> MqttPublish<'a> {
    pub(crate) const fn new(topic: &'a str, qos: u8, body: &'a [u8]) -> Self {
        Self { topic, body, qos, retain: false, again: false, packet: 1 }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut content = text(self.topic.as_bytes());
        if self.qos > 0 {
            content.extend(self.packet.to_be_bytes());
        }
        content.extend(self.body);
        packet(PUBLISH | u8::from(self.again) << 3 | self.qos << 1 | u8::from(self.retain), &content)
    }
}

/// One connection to the gateway.
#[derive(Debug)]
pub(crate) struct MqttClient {
    stream: TcpStream,
}

impl MqttClient {
    /// Connects with a clean session.
    pub(crate) async fn connect(port: u16, id: &str) -> Self {
        Self::open(port, id, None).await.expect("the gateway closed the connection")
    }

    /// The same with a will, whose topic, quality of service and body this gives.
    pub(crate) async fn connect_with_will(port: u16, id: &str, will: (&str, u8, &[u8])) -> Self {
        Self::open(port, id, Some(will)).await.expect("the gateway closed the connection")
    }

    /// Connects; `None` when the gateway closes the connection instead of answering.
    pub(crate) async fn open(port: u16, id: &str, will: Option<(&str, u8, &[u8])>) -> Option<Self> {
        let stream = eventually(ANSWER, "the MQTT listener is open", async || {
            TcpStream::connect(("127.0.0.1", port)).await.map_err(|error| error.to_string())
        })
        .await;
        let clean_session = 0x02;
        let flags = will.map_or(clean_session, |(_, qos, _)| clean_session | 0x04 | qos << 3);
        let mut content = text(b"MQTT");
        content.extend([4, flags, 0, 60]);
        content.extend(text(id.as_bytes()));
        for part in will.iter().flat_map(|(topic, _, body)| [topic.as_bytes(), body]) {
            content.extend(text(part));
        }
        let mut client = Self { stream };
        client.write(&packet(CONNECT, &content)).await;
        let (kind, answer) = client.read().await?;
        assert_eq!((kind, answer.as_slice()), (CONNACK, &[0, 0][..]), "the gateway's answer to CONNECT");
        Some(client)
    }

    /// Publishes and awaits everything that the quality of service promises.
    pub(crate) async fn publish(&mut self, publish: &MqttPublish<'_>) {
        self.send(publish).await;
        match publish.qos {
            0 => self.settle().await,
            1 => self.answered(PUBACK, publish.packet).await,
            _ => {
                self.answered(PUBREC, publish.packet).await;
                self.release(publish.packet).await;
            }
        }
    }

    /// Publishes with quality of service 2 up to PUBREC: received, not released.
    pub(crate) async fn publish_unreleased(&mut self, publish: &MqttPublish<'_>) {
        self.send(publish).await;
        self.answered(PUBREC, publish.packet).await;
    }

    /// PUBREL and its PUBCOMP.
    pub(crate) async fn release(&mut self, packet_identifier: u16) {
        self.write(&packet(PUBREL, &packet_identifier.to_be_bytes())).await;
        self.answered(PUBCOMP, packet_identifier).await;
    }

    /// Whether the gateway closes the connection because of this.
    pub(crate) async fn cut_off_by(mut self, publish: &MqttPublish<'_>) -> bool {
        self.send(publish).await;
        self.read().await.is_none()
    }

    /// The connection breaks without a DISCONNECT.
    pub(crate) fn break_off(self) {
        drop(self.stream);
    }

    async fn send(&mut self, publish: &MqttPublish<'_>) {
        self.write(&publish.bytes()).await;
    }

    /// PINGREQ and its PINGRESP: the gateway has read everything before it.
    async fn settle(&mut self) {
        self.write(&packet(PINGREQ, &[])).await;
        let answer = self.read().await.expect("the gateway closed the connection");
        assert_eq!(answer.0, PINGRESP);
    }

    async fn answered(&mut self, kind: u8, packet_identifier: u16) {
        let answer = self.read().await.expect("the gateway closed the connection");
        assert_eq!(answer, (kind, packet_identifier.to_be_bytes().to_vec()));
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// One packet, its first byte and its content; `None` when the connection is closed.
    async fn read(&mut self) -> Option<(u8, Vec<u8>)> {
        timeout(ANSWER, self.read_packet()).await.expect("no answer of the gateway in time").ok()
    }

    async fn read_packet(&mut self) -> std::io::Result<(u8, Vec<u8>)> {
        let kind = self.stream.read_u8().await?;
        let (mut length, mut shift) = (0_usize, 0);
        loop {
            let byte = self.stream.read_u8().await?;
            length |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let mut content = vec![0; length];
        self.stream.read_exact(&mut content).await?;
        Ok((kind, content))
    }
}

fn packet(first: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    let mut left = content.len();
    loop {
        let seven = u8::try_from(left & 0x7f).unwrap();
        left >>= 7;
        bytes.push(if left > 0 { seven | 0x80 } else { seven });
        if left == 0 {
            break;
        }
    }
    bytes.extend(content);
    bytes
}

/// A text or data with its length in front.
fn text(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    [&length.to_be_bytes(), bytes].concat()
}
