//! The stdout sink: one line a record, for pipes and trials.
//!
//! A record counts when its line was written and flushed to the pipe; what the reader does with it, nobody knows.

mod settings;

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

pub use settings::StdoutSettings;
use tokio::sync::{Mutex, oneshot};

use crate::delivery::{BoxFuture, Guarantee, Sink, SinkLimits, Turn, WriteBatch, WriteReport};
use crate::disposition::Fault;
use crate::sinks::record::RecordEncoder;

/// Other tasks get a chance after so many bytes.
const BYTES_PER_TURN: usize = 256 << 10;

/// Writes lines to standard output.
pub struct StdoutSink {
    settings: StdoutSettings,
    output: Arc<Mutex<Output>>,
}

struct Output {
    pipe: Box<dyn Write + Send>,
    /// A write ended within a line: before anything else the line must be ended, or the next one would be spliced to it.
    torn: bool,
}

impl StdoutSink {
    /// A sink on this process's standard output, around the buffer that the standard library keeps: what that holds back
    /// after a failed write would come out later.
    ///
    /// # Errors
    /// Standard output is closed, or there are too many open files.
    pub fn new(settings: StdoutSettings) -> io::Result<Self> {
        let output = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(Self::with_output(settings, Box::new(File::from(output))))
    }

    fn with_output(settings: StdoutSettings, pipe: Box<dyn Write + Send>) -> Self {
        Self { settings, output: Arc::new(Mutex::new(Output { pipe, torn: false })) }
    }

    /// Writes on the blocking pool: a reader that does not read would hold a runtime thread for ever.
    async fn print(&self, lines: Vec<u8>) -> Result<(), Fault> {
        let mut output = Arc::clone(&self.output).lock_owned().await;
        let (sender, receiver) = oneshot::channel();
        let _writing = tokio::task::spawn_blocking(move || {
            // Nobody may be waiting any more.
            drop(sender.send(output.print(&lines)));
        });
        match receiver.await {
            Ok(result) => result.map_err(|error| fault(&error)),
            Err(_) => Err(Fault::transient("the stdout sink's writer broke off")),
        }
    }
}

impl Output {
    fn print(&mut self, lines: &[u8]) -> io::Result<()> {
        if std::mem::replace(&mut self.torn, true) {
            self.pipe.write_all(b"\n")?;
        }
        self.pipe.write_all(lines)?;
        self.pipe.flush()?;
        self.torn = false;
        Ok(())
    }
}

fn fault(error: &io::Error) -> Fault {
    let kind = error.kind();
    if kind == io::ErrorKind::BrokenPipe {
        Fault::sink_down("standard output is closed: its reader has gone")
    } else if matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        Fault::sink_down(format!("cannot write to standard output: {error}"))
    } else {
        Fault::transient(format!("cannot write to standard output: {error}"))
    }
}

impl Sink for StdoutSink {
    fn name(&self) -> &'static str {
        "stdout"
    }

    fn limits(&self) -> SinkLimits {
        SinkLimits { max_records: 10_000, max_bytes: 256 << 20 }
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::AtLeastOnce
    }

    fn write<'a>(&'a self, batch: &'a WriteBatch, turn: Turn) -> BoxFuture<'a, WriteReport> {
        Box::pin(async move {
            let mut report = WriteReport::new(batch);
            let mut encoder = RecordEncoder::new(self.settings.record, self.settings.payload_mode);
            let mut lines = Vec::new();
            let mut written = Vec::with_capacity(batch.len());
            let mut since = 0;
            for (index, envelope) in batch.envelopes().enumerate() {
                match encoder.write_line(envelope, &mut lines) {
                    Ok(()) => written.push(index),
                    Err(refusal) => report.refuse(index, refusal),
                }
                since += envelope.weight();
                if since >= BYTES_PER_TURN {
                    since = 0;
                    tokio::task::yield_now().await;
                }
            }
            turn.wait().await;
            let printed = if lines.is_empty() { Ok(()) } else { self.print(lines).await };
            for index in written {
                match &printed {
                    Ok(()) => report.commit(index),
                    Err(fault) => report.fail(index, fault.clone()),
                }
            }
            report
        })
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), Fault>> {
        // After a failure the line it may have torn is to be ended anyway: whether that works is the answer.
        Box::pin(async move { self.print(Vec::new()).await })
    }

    fn close(&self, _deadline: Duration) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move { self.print(Vec::new()).await })
    }
}

impl fmt::Debug for StdoutSink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StdoutSink").field("settings", &self.settings).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as StdMutex;

    use super::*;
    use crate::sinks::conformance::{self, Rig, messages, write_now};
    use crate::sinks::{PayloadMode, Record};

    /// A pipe that takes `room` bytes and then breaks, until it is mended.
    #[derive(Clone)]
    struct Pipe(Arc<StdMutex<(Vec<u8>, usize)>>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut pipe = self.0.lock().unwrap();
            if pipe.1 == 0 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let taken = bytes.len().min(pipe.1);
            pipe.1 -= taken;
            pipe.0.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn pipe(room: usize) -> Pipe {
        Pipe(Arc::new(StdMutex::new((Vec::new(), room))))
    }

    fn text(pipe: &Pipe) -> String {
        String::from_utf8(pipe.0.lock().unwrap().0.clone()).unwrap()
    }

    #[tokio::test]
    async fn stdout_conforms() {
        conformance::run(|| {
            let pipe = pipe(usize::MAX);
            let settings = StdoutSettings { record: Record::Full, payload_mode: PayloadMode::JsonOnly };
            let sequences = |text: String| {
                let sequence = |line| {
                    serde_json::from_str::<serde_json::Value>(line).unwrap()["stream_sequence"].as_u64()
                };
                text.lines().map(|line| sequence(line).unwrap()).collect()
            };
            Rig {
                sink: Arc::new(StdoutSink::with_output(settings, Box::new(pipe.clone()))),
                stored: Box::new(move || sequences(text(&pipe))),
                ordered: true,
            }
        })
        .await;
    }

    #[tokio::test]
    async fn a_closed_pipe_is_a_sink_that_is_down_and_a_torn_line_is_ended() {
        let pipe = pipe(20);
        let settings = StdoutSettings { record: Record::Payload, ..StdoutSettings::default() };
        let sink = StdoutSink::with_output(settings, Box::new(pipe.clone()));
        let failed = write_now(&sink, messages(1..=5)).await;
        assert_eq!(failed.len(), 5);
        assert!(failed.iter().all(|(_, fault)| matches!(fault, Fault::SinkDown { .. })));
        assert!(matches!(sink.probe().await, Err(Fault::SinkDown { .. })));
        pipe.0.lock().unwrap().1 = usize::MAX;
        assert_eq!(sink.probe().await, Ok(()));
        assert_eq!(write_now(&sink, messages(1..=5)).await, []);
        let text = text(&pipe);
        assert!(text.ends_with("\n{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n{\"n\":4}\n{\"n\":5}\n"), "{text}");
    }
}
