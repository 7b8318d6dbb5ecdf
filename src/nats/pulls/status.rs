//! Status lines about pulls, by meaning. Every one the servers send has a reaction here; the client's own pull helpers
//! swallow some of them and then ask again without end (nats facts §1.3).

/// What a status line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PullStatusClass {
    /// 100: idle heartbeat.
    IdleHeartbeat,
    /// 404: nothing there.
    NoMessages,
    /// 408: the pull has expired.
    Expired,
    /// 409: bytes of the pull are used up.
    BatchCompleted,
    /// 409: the consumer has a new leader.
    LeadershipChange,
    /// 409: the server stops.
    ServerShutdown,
    /// 409: consumer or stream are deleted.
    ConsumerDeleted,
    /// 409: a push consumer.
    PushBased,
    /// 409: more than the consumer allows.
    LimitExceeded,
    /// 409: too many pulls wait.
    TooManyWaiting,
    /// 409: the next message is above the bytes asked for.
    MessageTooLarge,
    /// 400.
    BadRequest,
    /// 423: another client has the pin.
    PinMismatch,
    /// 503: nobody answers.
    NoResponders,
    /// Unknown.
    Other,
}

impl PullStatusClass {
    /// Reads code and description.
    #[must_use]
    pub fn of(code: u16, description: &str) -> Self {
        match code {
            100 => Self::IdleHeartbeat,
            400 => Self::BadRequest,
            404 => Self::NoMessages,
            408 => Self::Expired,
            423 => Self::PinMismatch,
            503 => Self::NoResponders,
            409 => Self::of_conflict(&description.to_ascii_lowercase()),
            _ => Self::Other,
        }
    }

    fn of_conflict(description: &str) -> Self {
        const TEXTS: [(&str, PullStatusClass); 8] = [
            ("batch completed", PullStatusClass::BatchCompleted),
            ("leadership change", PullStatusClass::LeadershipChange),
            ("server shutdown", PullStatusClass::ServerShutdown),
            ("consumer deleted", PullStatusClass::ConsumerDeleted),
            ("push based", PullStatusClass::PushBased),
            ("maxwaiting", PullStatusClass::TooManyWaiting),
            ("exceeded maxrequest", PullStatusClass::LimitExceeded),
            ("message size exceeds maxbytes", PullStatusClass::MessageTooLarge),
        ];
        TEXTS.iter().find(|(text, _)| description.contains(text)).map_or(Self::Other, |(_, class)| *class)
    }

    /// Whether the pull it names has ended.
    #[must_use]
    pub const fn ends_pull(self) -> bool {
        !matches!(self, Self::IdleHeartbeat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_of_the_servers_is_known() {
        for (code, description, class) in [
            (100, "Idle Heartbeat", PullStatusClass::IdleHeartbeat),
            (408, "Request Timeout", PullStatusClass::Expired),
            (409, "Batch Completed", PullStatusClass::BatchCompleted),
            (409, "Leadership Change", PullStatusClass::LeadershipChange),
            (409, "Server Shutdown", PullStatusClass::ServerShutdown),
            (409, "Consumer Deleted", PullStatusClass::ConsumerDeleted),
            (409, "Exceeded MaxRequestBatch of 5", PullStatusClass::LimitExceeded),
            (409, "Exceeded MaxRequestExpires of 2s", PullStatusClass::LimitExceeded),
            (409, "Exceeded MaxRequestMaxBytes of 1000", PullStatusClass::LimitExceeded),
            (409, "Consumer is push based", PullStatusClass::PushBased),
            (409, "Exceeded MaxWaiting", PullStatusClass::TooManyWaiting),
            (409, "Message Size Exceeds MaxBytes", PullStatusClass::MessageTooLarge),
            (400, "Bad Request - heartbeat value too large", PullStatusClass::BadRequest),
            (423, "Nats-Pin-Id mismatch", PullStatusClass::PinMismatch),
            (503, "", PullStatusClass::NoResponders),
            (409, "something new", PullStatusClass::Other),
        ] {
            assert_eq!(PullStatusClass::of(code, description), class, "{code} {description}");
        }
    }
}
