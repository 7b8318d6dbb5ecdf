//! A few threads that sync files side by side.
//!
//! Data and index of a batch must both be durable before it counts, and a sync is mostly waiting. Threads of our own, not
//! the runtime's blocking pool: a blocking task that waited for others of the same full pool would wait for ever.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::fault::FileFailure;

/// Something to do for one file.
pub(super) type Job = Box<dyn FnOnce() -> Result<(), FileFailure> + Send>;

type Answer = (usize, Result<(), FileFailure>);

/// The threads. They end when the crew is dropped.
#[derive(Debug)]
pub(super) struct Crew {
    jobs: SyncSender<(usize, Job)>,
    answers: Receiver<Answer>,
}

impl Crew {
    /// Starts `threads` ≥ 1 threads.
    pub(super) fn start(threads: usize) -> Result<Self, FileFailure> {
        let (jobs, queue) = sync_channel::<(usize, Job)>(threads);
        // Answers never block a thread: one job in work and one in the queue for each thread, and the queue's reader.
        let (sender, answers) = sync_channel(threads * 2 + 2);
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..threads {
            let (queue, sender) = (Arc::clone(&queue), sender.clone());
            std::thread::Builder::new()
                .name("jetsink-sync".into())
                .spawn(move || work(&queue, &sender))
                .map_err(|cause| FileFailure::new("start a thread for", Path::new("the file sink"), cause))?;
        }
        Ok(Self { jobs, answers })
    }

    /// Does all the jobs, the calling thread among the crew, and gives their results in order.
    pub(super) fn run(&mut self, jobs: Vec<Job>) -> Vec<Result<(), FileFailure>> {
        let mut results: Vec<_> = jobs.iter().map(|_| Err(lost())).collect();
        let mut jobs = jobs.into_iter().enumerate();
        let own = jobs.next();
        let mut outstanding = 0;
        for job in jobs {
            match self.jobs.try_send(job) {
                Ok(()) => outstanding += 1,
                Err(TrySendError::Full((index, job)) | TrySendError::Disconnected((index, job))) => {
                    keep(&mut results, (index, perform(job)));
                    // Make room for answers while the queue is full.
                    while let Ok(answer) = self.answers.try_recv() {
                        outstanding -= 1;
                        keep(&mut results, answer);
                    }
                }
            }
        }
        if let Some((index, job)) = own {
            keep(&mut results, (index, perform(job)));
        }
        for _ in 0..outstanding {
            if let Ok(answer) = self.answers.recv() {
                keep(&mut results, answer);
            }
        }
        results
    }
}

fn keep(results: &mut [Result<(), FileFailure>], (index, result): Answer) {
    if let Some(slot) = results.get_mut(index) {
        *slot = result;
    }
}

fn work(queue: &Mutex<Receiver<(usize, Job)>>, answers: &SyncSender<Answer>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((index, job)) = next else { return };
        if answers.send((index, perform(job))).is_err() {
            return;
        }
    }
}

fn perform(job: Job) -> Result<(), FileFailure> {
    catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|_| Err(lost()))
}

fn lost() -> FileFailure {
    FileFailure::new(
        "finish a write to",
        Path::new("the file sink"),
        io::Error::other("a sync thread failed"),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_job_is_done_and_answers_keep_their_places() {
        let mut crew = Crew::start(3).unwrap();
        for count in [0, 1, 2, 7, 100] {
            let done = Arc::new(AtomicUsize::new(0));
            let jobs: Vec<Job> = (0..count)
                .map(|number| {
                    let done = Arc::clone(&done);
                    let job: Job = Box::new(move || {
                        done.fetch_add(1, Ordering::SeqCst);
                        assert!(number % 5 != 3, "a broken job");
                        if number % 5 == 4 { Err(lost()) } else { Ok(()) }
                    });
                    job
                })
                .collect();
            let results = crew.run(jobs);
            assert_eq!(done.load(Ordering::SeqCst), count);
            let expected: Vec<_> = (0..count).map(|number| number % 5 < 3).collect();
            assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), expected);
        }
    }
}
