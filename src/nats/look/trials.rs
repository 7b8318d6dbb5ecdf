//! Tries each permission with a request that the server refuses for another reason, so that nothing is changed.
//!
//! A denial is told only out of turn; so each request waits for its answer or for the denial, whichever comes first.

use std::time::Duration;

use async_nats::{HeaderMap, Request, RequestErrorKind};
use bytes::Bytes;
use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use super::denials::Denials;
use crate::nats::client::connect::Connection;
use crate::preflight::{Direction, Outcome, Permission, Plan, Trial};

/// Where answers cannot come, a denial of the request itself comes within this time.
const WITHOUT_ANSWERS: Duration = Duration::from_millis(500);
/// Subjects of dead letters that are tried from either end of their list.
const LETTERS: usize = 8;
/// No stream has this name, so that a stream which expects it stores nothing.
const NO_STREAM: &str = "jetsink-tries-a-permission";

/// One request.
struct Probe {
    subject: String,
    headers: Option<HeaderMap>,
    body: Bytes,
}

/// Tries every permission, all at once.
pub async fn try_permissions(
    connection: &Connection,
    denials: &Denials,
    plan: &Plan,
    permissions: Vec<Permission>,
    deadline: Duration,
) -> Vec<Trial> {
    let trials = join_all(permissions.into_iter().map(|permission| async {
        let mut outcome = Outcome::Granted;
        let probes = probes(plan, &permission);
        for next in
            join_all(probes.into_iter().map(|probe| send(connection, denials, plan, probe, deadline))).await
        {
            outcome = match (outcome, next) {
                (Outcome::Denied, _) | (_, Outcome::Denied) => Outcome::Denied,
                (Outcome::NoAnswer, _) | (_, Outcome::NoAnswer) => Outcome::NoAnswer,
                (Outcome::Granted, Outcome::Granted) => Outcome::Granted,
            };
        }
        Trial { permission, outcome }
    }));
    let mut trials = trials.await;
    for trial in &mut trials {
        if trial.permission.direction == Direction::Subscribe && denials.has("Subscription", &plan.inbox) {
            trial.outcome = Outcome::Denied;
        }
    }
    trials
}

async fn send(
    connection: &Connection,
    denials: &Denials,
    plan: &Plan,
    probe: Probe,
    deadline: Duration,
) -> Outcome {
    let Probe { subject, headers, body } = probe;
    let mut request = Request::new().payload(body).timeout(Some(deadline));
    if let Some(headers) = headers {
        request = request.headers(headers);
    }
    let answer = timeout(deadline, connection.client.send_request(subject.clone(), request));
    let without_answers = async {
        denials.of("Subscription", &plan.inbox).await;
        sleep(WITHOUT_ANSWERS).await;
    };
    let denied = format!("{subject}\"");
    tokio::select! {
        () = denials.of("Publish", &denied) => Outcome::Denied,
        // Nothing can come back, and the request itself was not denied.
        () = without_answers => Outcome::Granted,
        answer = answer => match answer {
            Ok(Ok(_)) => Outcome::Granted,
            Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => Outcome::Granted,
            Ok(Err(_)) | Err(_) => Outcome::NoAnswer,
        },
    }
}

/// The requests that try a permission: none for a subscription (answers tell), nor for a subject whose name is not known.
fn probes(plan: &Plan, permission: &Permission) -> Vec<Probe> {
    let Permission { subject, direction, .. } = permission;
    let plain = |subject: &str, body: &'static str| {
        vec![Probe { subject: subject.to_owned(), headers: None, body: Bytes::from_static(body.as_bytes()) }]
    };
    if *direction == Direction::Subscribe {
        return Vec::new();
    }
    if plan.dead_letters.as_ref().is_some_and(|letters| letters.pattern == *subject) {
        return letters(plan);
    }
    // What the server does not know as a settlement it answers and forgets.
    if let Some(start) = subject.strip_suffix(".>").filter(|start| start.starts_with("$JS.ACK.")) {
        return plain(&format!("{}.1.1.1.0.0", start.replacen("*.*", "_.jetsink", 1)), "+NOTHING");
    }
    if subject.contains('*') {
        return Vec::new();
    }
    // A body that cannot be read is refused before anything is done.
    let is_read = ["STREAM.INFO", "STREAM.NAMES", "CONSUMER.INFO", "CONSUMER.LIST"];
    let is_read = is_read.iter().any(|operation| subject.starts_with(&format!("{}.{operation}", plan.api)));
    plain(subject, if is_read { "" } else { "{" })
}

fn letters(plan: &Plan) -> Vec<Probe> {
    let Some(letters) = &plan.dead_letters else { return Vec::new() };
    let count = letters.subjects.len();
    let tried = letters.subjects.iter().enumerate();
    let tried = tried.filter(|(index, _)| *index < LETTERS || index + LETTERS >= count);
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Expected-Stream", NO_STREAM);
    tried
        .map(|(_, subject)| Probe {
            subject: subject.clone(),
            headers: Some(headers.clone()),
            body: Bytes::new(),
        })
        .collect()
}
