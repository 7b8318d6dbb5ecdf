//! The admin listener: `/metrics`, `/livez`, `/readyz`. One request a connection, few connections, short lives, so that no
//! peer can hold it up for long.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

use super::health::Health;
use super::metrics::Metrics;

/// `/livez` answers 503 when the loop has not turned for this long.
pub const LIVENESS_WINDOW: Duration = Duration::from_secs(30);
/// Connections at once; further ones wait in the listen queue.
const MAX_CONNECTIONS: usize = 32;
/// From accept to close, whatever the peer does.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(10);

/// Why the listener could not start.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The address cannot be listened on.
    #[error("cannot listen on {listen} (admin.listen)")]
    Bind {
        /// The address.
        listen: SocketAddr,
        /// Why not.
        source: io::Error,
    },
}

/// The running listener.
#[derive(Debug)]
pub struct Admin {
    address: SocketAddr,
    task: JoinHandle<io::Result<()>>,
}

impl Admin {
    /// Where it listens; tells the port when port 0 was asked for.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns when the listener has ended, at most ten seconds after its shutdown was asked for.
    pub async fn closed(self) {
        match self.task.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the admin listener ended with an error"),
            Err(error) => tracing::warn!(%error, "the admin listener broke down"),
        }
    }
}

#[derive(Clone, Debug)]
struct Shown {
    metrics: Arc<Metrics>,
    health: Health,
}

/// Starts the listener; it ends when `shutdown` is cancelled.
///
/// # Errors
/// See [`AdminError`].
pub async fn serve(
    listen: SocketAddr,
    metrics: Arc<Metrics>,
    health: Health,
    shutdown: CancellationToken,
) -> Result<Admin, AdminError> {
    let bind_error = |source| AdminError::Bind { listen, source };
    let tcp = TcpListener::bind(listen).await.map_err(bind_error)?;
    let address = tcp.local_addr().map_err(bind_error)?;
    let listener = Narrow { tcp, permits: Arc::new(Semaphore::new(MAX_CONNECTIONS)) };
    let routes = Router::new()
        .route("/metrics", get(show_metrics))
        .route("/livez", get(show_liveness))
        .route("/readyz", get(show_readiness))
        .layer(map_response(close_after))
        .with_state(Shown { metrics, health });
    let serving = axum::serve(listener, routes).with_graceful_shutdown(shutdown.cancelled_owned());
    let task = tokio::spawn(serving.into_future());
    tracing::info!(%address, "admin listener started");
    Ok(Admin { address, task })
}

async fn show_metrics(State(shown): State<Shown>) -> Response {
    match shown.metrics.encode(&shown.health) {
        Ok(text) => answer(StatusCode::OK, prometheus::TEXT_FORMAT, text),
        Err(error) => {
            tracing::error!(%error, "the metrics cannot be shown");
            plain(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be shown\n")
        }
    }
}

async fn show_liveness(State(shown): State<Shown>) -> Response {
    if shown.health.alive(LIVENESS_WINDOW) {
        plain(StatusCode::OK, "alive\n")
    } else {
        plain(StatusCode::SERVICE_UNAVAILABLE, "the loop has not turned for 30 seconds\n")
    }
}

async fn show_readiness(State(shown): State<Shown>) -> Response {
    let reasons = shown.health.reasons();
    if reasons.is_empty() {
        return plain(StatusCode::OK, "ready\n");
    }
    let mut text = String::new();
    for (reason, detail) in reasons {
        text.push_str(reason.as_str());
        if !detail.is_empty() {
            text.push_str(": ");
            text.extend(detail.chars().map(|own| if own.is_control() { ' ' } else { own }));
        }
        text.push('\n');
    }
    plain(StatusCode::SERVICE_UNAVAILABLE, text)
}

/// One request a connection, also for requests that no route answers.
async fn close_after(mut response: Response) -> Response {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn plain(status: StatusCode, text: impl Into<String>) -> Response {
    answer(status, "text/plain; charset=utf-8", text.into())
}

fn answer(status: StatusCode, content_type: &'static str, text: String) -> Response {
    let headers = [(CONTENT_TYPE, content_type), (CACHE_CONTROL, "no-store")];
    (status, headers, text).into_response()
}

/// A listener with few connections, each with a short life.
#[derive(Debug)]
struct Narrow {
    tcp: TcpListener,
    permits: Arc<Semaphore>,
}

impl Listener for Narrow {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        // The semaphore is never closed, so there always is a permit in the end.
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        let (stream, peer) = Listener::accept(&mut self.tcp).await;
        let end = Box::pin(tokio::time::sleep(CONNECTION_LIFETIME));
        (Connection { stream, end, _permit: permit }, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// A connection that fails when its time is over.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Connection {
    fn poll_end(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_end(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_end(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_end(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_end(context)?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::health::NotReady;
    use super::*;

    async fn started() -> (Admin, Health, CancellationToken) {
        let health = Health::new();
        let shutdown = CancellationToken::new();
        let metrics = Arc::new(Metrics::new().unwrap());
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let admin = serve(listen, metrics, health.clone(), shutdown.clone()).await.unwrap();
        (admin, health, shutdown)
    }

    async fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    async fn get_path(address: SocketAddr, path: &str) -> String {
        ask(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await
    }

    #[tokio::test]
    async fn readiness_tells_its_reasons_line_by_line() {
        let (admin, health, shutdown) = started().await;
        health.not_ready(NotReady::SinkDown, "disk\r\nfull");
        let answer = get_path(admin.address(), "/readyz").await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.ends_with("\r\n\r\nstarting\nsink_down: disk  full\n"), "{answer}");
        health.clear(NotReady::Starting);
        health.clear(NotReady::SinkDown);
        let answer = get_path(admin.address(), "/readyz").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.ends_with("\r\n\r\nready\n"), "{answer}");
        shutdown.cancel();
        admin.closed().await;
    }

    #[tokio::test]
    async fn metrics_and_liveness_are_shown_and_nothing_else() {
        let (admin, _health, shutdown) = started().await;
        let answer = get_path(admin.address(), "/metrics").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.contains("content-type: text/plain; version=0.0.4"), "{answer}");
        assert!(answer.contains("\njetsink_messages_committed_total 0\n"), "{answer}");
        assert!(get_path(admin.address(), "/livez").await.ends_with("\r\n\r\nalive\n"));
        assert!(get_path(admin.address(), "/other").await.starts_with("HTTP/1.1 404 "));
        let post = "POST /readyz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
        assert!(ask(admin.address(), post).await.starts_with("HTTP/1.1 405 "));
        shutdown.cancel();
        admin.closed().await;
    }

    #[tokio::test]
    async fn an_address_in_use_is_named() {
        let (admin, _health, shutdown) = started().await;
        let metrics = Arc::new(Metrics::new().unwrap());
        let error =
            serve(admin.address(), metrics, Health::new(), CancellationToken::new()).await.unwrap_err();
        assert!(error.to_string().contains(&admin.address().to_string()), "{error}");
        shutdown.cancel();
        admin.closed().await;
    }
}
