//! What the daemon's admin listener says.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

const ANSWER: Duration = Duration::from_secs(5);

/// The answer of `/readyz`.
#[derive(Clone, Debug)]
pub(crate) struct Readiness {
    pub(crate) ready: bool,
    /// The reasons, when it is not.
    pub(crate) body: String,
}

/// One reading of `/metrics`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    lines: Vec<(String, f64)>,
}

impl Metrics {
    fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            Some((series.to_owned(), value.parse().ok()?))
        });
        Self { lines: lines.collect() }
    }

    /// The sum over all series of a metric that carry every one of these labels, such as `reason="sink_refused"`.
    pub(crate) fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let fits = |series: &str| {
            let (own, rest) = series.split_once('{').unwrap_or((series, ""));
            own == name && labels.iter().all(|label| rest.contains(label))
        };
        self.lines.iter().filter(|(series, _)| fits(series)).map(|(_, value)| value).sum()
    }
}

/// GET; gives the status and the body.
async fn get(port: u16, path: &str) -> Result<(u16, String), String> {
    let request = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = timeout(ANSWER, request).await.map_err(|_| format!("{path}: no answer in {ANSWER:?}"))?;
    let answer = answer.map_err(|error| format!("{path}: {error}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| format!("{path}: {answer:?}"))?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or_else(|| head.to_owned())?, body.to_owned()))
}

/// Asks `/readyz`.
pub(super) async fn readiness(port: u16) -> Result<Readiness, String> {
    let (status, body) = get(port, "/readyz").await?;
    Ok(Readiness { ready: status == 200, body })
}

/// Asks `/livez`.
pub(super) async fn alive(port: u16) -> Result<bool, String> {
    Ok(get(port, "/livez").await?.0 == 200)
}

/// Asks `/metrics`.
pub(super) async fn metrics(port: u16) -> Result<Metrics, String> {
    metrics_text(port).await.map(|text| Metrics::parse(&text))
}

/// Asks `/metrics`; gives the page.
pub(super) async fn metrics_text(port: u16) -> Result<String, String> {
    let (status, body) = get(port, "/metrics").await?;
    if status == 200 { Ok(body) } else { Err(format!("/metrics answered {status}")) }
}
