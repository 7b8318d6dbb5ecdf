//! Binding: nothing that exists is rewritten, and little is needed.

use std::time::Duration;

use jetsink::delivery::{Acker as _, Confirm, Settled};
use jetsink::nats::{BindMode, NatsAcker, NatsError, SignIn};
use jetsink::secret::{Secret, SecretSource};
use serde_json::Value;
use tokio::time::Instant;

use crate::harness::{Rig, RigPlan, ServerKind, small};
use crate::nats_wire::{bind_with, connect, connection_settings, consumer_settings, pull_until, source};

const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn two_that_create_at_once_never_rewrite_each_other() {
    let rig = Rig::start().await;
    let (one, other) = (connection_settings(&rig.server), connection_settings(&rig.server));
    let (one, other) = (connect(&one).await, connect(&other).await);
    let mut seconds_7 = consumer_settings(BindMode::CreateIfMissing);
    seconds_7.ack_wait = Some(Duration::from_secs(7));
    let mut seconds_9 = seconds_7.clone();
    seconds_9.ack_wait = Some(Duration::from_secs(9));
    for _ in 0..20 {
        rig.client.api("CONSUMER.DELETE.SRC.w", &Value::Null).await;
        let (first, second) = tokio::join!(bind_with(&one, &seconds_7), bind_with(&other, &seconds_9));
        let (winner, loser) = match (first, second) {
            (Ok(winner), Err(loser)) | (Err(loser), Ok(winner)) => (winner, loser),
            (first, second) => panic!("{first:?}, {second:?}"),
        };
        assert!(matches!(loser, NatsError::Drift { .. }), "{loser}");
        let stored = rig.client.consumer_info("SRC", "w").await["config"]["ack_wait"].as_u64().unwrap();
        assert_eq!(u128::from(stored), winner.ack_wait.as_nanos());
    }
}

#[tokio::test]
async fn an_old_server_that_knows_no_list_of_filters_gets_no_durable_without_them() {
    let mut plan = RigPlan::default();
    plan.server.kind = ServerKind::Old;
    let rig = plan.start().await;
    rig.client.api("CONSUMER.DELETE.SRC.w", &Value::Null).await;
    let connection = connect(&connection_settings(&rig.server)).await;
    let mut settings = consumer_settings(BindMode::CreateIfMissing);
    settings.filter_subjects = vec!["src.a".into(), "src.b".into()];
    let error = bind_with(&connection, &settings).await.unwrap_err();
    assert!(error.is_configuration() && error.to_string().contains("2.10"), "{error}");
    assert_eq!(rig.client.api("CONSUMER.NAMES.SRC", &Value::Null).await["total"], 0);
    settings.filter_subjects.truncate(1);
    let bound = bind_with(&connection, &settings).await.unwrap();
    assert!(bound.created_now);
    assert_eq!(bound.filter_subjects, ["src.a"]);
    assert_eq!((bound.max_deliver, bound.max_ack_pending), (None, Some(1000)));
}

#[tokio::test]
async fn a_user_who_may_do_only_what_is_needed_can_work_and_leave() {
    let permissions = "publish: [\"$JS.API.CONSUMER.MSG.NEXT.SRC.w\", \"$JS.API.CONSUMER.INFO.SRC.w\", \
                       \"$JS.ACK.SRC.w.>\"], subscribe: [\"_INBOX_run.>\"]";
    let users = format!(
        "authorization {{ users: [ {{ user: \"admin\", password: \"admin\" }}, \
         {{ user: \"run\", password: \"run\", permissions: {{ {permissions} }} }} ] }}"
    );
    let mut plan = RigPlan::default().server(&users);
    plan.login = Some(("admin", "admin"));
    let rig = plan.start().await;
    rig.client.publish_many("src.a", small(10)).await;
    let mut settings = connection_settings(&rig.server);
    settings.sign_in = SignIn::UserPassword {
        user: "run".into(),
        password: SecretSource::Inline(Secret::new("run".into())),
    };
    settings.inbox_prefix = Some("_INBOX_run".into());
    settings.request_timeout = Duration::from_secs(2);
    let connection = connect(&settings).await;
    let bound = bind_with(&connection, &consumer_settings(BindMode::Bind)).await.unwrap();
    assert_eq!(bound.stream, None, "the stream may not be looked at");
    assert!(bound.warnings.iter().any(|warning| warning.contains("cannot be looked at")));
    let (received, _) = pull_until(&mut source(&bound, 10, 1 << 20).await, 10, SOON).await;
    let naks = received.into_iter().map(|one| one.release(Some(Duration::from_secs(60)))).collect();
    let settled = NatsAcker::new(&bound).settle(naks, Confirm::Every).await;
    assert!(matches!(settled, Settled::Done), "{settled:?}");
    let began = Instant::now();
    connection.close(SOON).await;
    assert!(began.elapsed() < Duration::from_secs(1), "closing needs no permission that is not there");
}
