//! Three servers that form one cluster.

use std::time::Duration;

use async_nats::ConnectOptions;
use serde_json::Value;

use crate::harness::{Client, Server, ServerKind, ServerPlan, eventually, free_port};

const FORMED: Duration = Duration::from_secs(60);

/// The cluster; its nodes keep their ports over restarts.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Server>,
}

impl Cluster {
    /// Starts three nodes and waits until they have a leader for JetStream.
    pub(crate) async fn start() -> (Self, Client) {
        let ports = [free_port(), free_port(), free_port()];
        let routes = ports.map(|port| format!("\"nats://127.0.0.1:{port}\"")).join(", ");
        let mut nodes = Vec::new();
        for (number, port) in ports.iter().enumerate() {
            // Clients are not told of the other nodes: which ones a daemon can reach is for the test to say.
            let extra = format!(
                "max_payload: 65536\nserver_name: node{number}\ncluster {{ name: three, no_advertise: true, \
                 listen: \"127.0.0.1:{port}\", routes: [{routes}] }}"
            );
            nodes.push(Server::start(&ServerPlan { kind: ServerKind::New, extra }).await);
        }
        let cluster = Self { nodes };
        let client = Client::connect_to(cluster.urls(), ConnectOptions::new()).await;
        eventually(FORMED, "three nodes form a cluster", async || {
            let stats = client.try_api("INFO", &Value::Null).await?;
            if stats["api"]["errors"].is_u64() { Ok(()) } else { Err(stats.to_string()) }
        })
        .await;
        (cluster, client)
    }

    /// Where clients connect.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Server::url).collect()
    }
}

impl Client {
    /// Waits until every replica of this stream has everything.
    pub(crate) async fn all_replicas_current(&self, stream: &str) {
        eventually(FORMED, "every replica is there and has everything", async || {
            let info = self.try_api(&format!("STREAM.INFO.{stream}"), &Value::Null).await?;
            let replicas = info["cluster"]["replicas"].as_array().ok_or_else(|| info.to_string())?;
            let current = replicas.iter().all(|one| one["current"] == true && one["offline"] != true);
            if current && replicas.len() == 2 { Ok(()) } else { Err(info["cluster"].to_string()) }
        })
        .await;
    }
}
