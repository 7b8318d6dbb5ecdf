//! Server addresses. User and password are taken out of the URL: the client ignores them there, and nothing may print them.

use std::net::Ipv6Addr;

use crate::secret::Secret;

/// A server, and the sign-in that stood in its URL.
pub(super) struct Server {
    /// `host`, `host:port`, `nats://…` or `tls://…`, without user and password.
    pub(super) address: String,
    /// What stood before the `@`.
    pub(super) user_info: Option<UserInfo>,
}

/// A sign-in that stood in a URL, percent-decoded.
#[derive(PartialEq, Eq)]
pub(super) enum UserInfo {
    /// `token@`
    Token(Secret),
    /// `user:password@`
    UserPassword(String, Secret),
}

/// What is wrong with a server. It does not quote the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ServerError {
    #[error("WebSocket addresses are not supported")]
    WebSocket,
    #[error("the scheme is neither nats nor tls")]
    Scheme,
    #[error("the scheme is not followed by two slashes")]
    Slashes,
    #[error("the host is missing, or holds what no host name holds")]
    Host,
    #[error("the port is not a number from 1 to 65535")]
    Port,
    #[error("there is a path, query or fragment after the port")]
    Trailing,
    #[error("user or password is empty")]
    EmptyUserInfo,
    #[error("the user or password is not valid percent-encoded UTF-8")]
    Encoding,
}

/// Reads a server.
///
/// # Errors
/// See [`ServerError`].
pub(super) fn parse(text: &str) -> Result<Server, ServerError> {
    let (scheme, rest) = split_scheme(text);
    match scheme {
        // Else the scheme would count as a user, and what follows as a password that begins with a slash.
        None if text.split_once(':').is_some_and(|(_, rest)| rest.starts_with('/')) => {
            return Err(ServerError::Slashes);
        }
        None | Some("nats" | "tls") => {}
        Some("ws" | "wss") => return Err(ServerError::WebSocket),
        Some(_) => return Err(ServerError::Scheme),
    }
    let (user_info, authority) = match rest.rsplit_once('@') {
        Some((user_info, authority)) => (Some(read_user_info(user_info)?), authority),
        None => (None, rest),
    };
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    check_authority(authority)?;
    let address = scheme.map_or_else(|| authority.to_owned(), |scheme| format!("{scheme}://{authority}"));
    Ok(Server { address, user_info })
}

/// The server as it may be shown.
pub(super) fn redact(text: &str) -> String {
    match parse(text) {
        Ok(Server { address, user_info: None }) => address,
        Ok(Server { address, user_info: Some(_) }) => match split_scheme(&address) {
            (Some(scheme), authority) => format!("{scheme}://[redacted]@{authority}"),
            (None, authority) => format!("[redacted]@{authority}"),
        },
        Err(_) => "[redacted]".into(),
    }
}

fn split_scheme(text: &str) -> (Option<&str>, &str) {
    text.split_once("://").map_or((None, text), |(scheme, rest)| (Some(scheme), rest))
}

fn read_user_info(text: &str) -> Result<UserInfo, ServerError> {
    let not_empty = |part: String| if part.is_empty() { Err(ServerError::EmptyUserInfo) } else { Ok(part) };
    match text.split_once(':') {
        None => Ok(UserInfo::Token(Secret::new(not_empty(decode(text)?)?))),
        Some((user, password)) => {
            Ok(UserInfo::UserPassword(not_empty(decode(user)?)?, Secret::new(not_empty(decode(password)?)?)))
        }
    }
}

fn check_authority(text: &str) -> Result<(), ServerError> {
    if text.contains(['/', '?', '#']) {
        return Err(ServerError::Trailing);
    }
    let port = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or(ServerError::Host)?;
        host.parse::<Ipv6Addr>().map_err(|_| ServerError::Host)?;
        if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or(ServerError::Port)?) }
    } else {
        let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
        let plain = |other: char| other.is_alphanumeric() || "-._".contains(other);
        if host.is_empty() || !host.chars().all(plain) {
            return Err(ServerError::Host);
        }
        port
    };
    match port {
        Some(port) if !port.bytes().all(|digit| digit.is_ascii_digit()) => Err(ServerError::Port),
        Some(port) => match port.parse::<u16>() {
            Ok(1..) => Ok(()),
            Ok(0) | Err(_) => Err(ServerError::Port),
        },
        None => Ok(()),
    }
}

/// Strict percent-decoding.
fn decode(text: &str) -> Result<String, ServerError> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let digit =
            |byte: Option<u8>| char::from(byte?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let (Some(high), Some(low)) = (digit(bytes.next()), digit(bytes.next())) else {
            return Err(ServerError::Encoding);
        };
        decoded.push(high << 4 | low);
    }
    String::from_utf8(decoded).map_err(|_| ServerError::Encoding)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::*;

    #[test]
    fn addresses_are_kept_without_their_sign_in() {
        for (text, address) in [
            ("nats.example.org", "nats.example.org"),
            ("127.0.0.1:4222", "127.0.0.1:4222"),
            ("nats://h:4222/", "nats://h:4222"),
            ("tls://[::1]:4222", "tls://[::1]:4222"),
            ("[::1]", "[::1]"),
            ("nats://u:p@h:1", "nats://h:1"),
            ("u:p@h", "h"),
        ] {
            assert_eq!(parse(text).ok().map(|server| server.address).as_deref(), Some(address), "{text}");
        }
    }

    #[test]
    fn sign_in_is_percent_decoded() {
        let info = |text| parse(text).ok().and_then(|server| server.user_info).unwrap();
        let expected = UserInfo::UserPassword("a@b".into(), Secret::new("p:ä/".into()));
        assert!(info("nats://a%40b:p:%C3%A4%2F@h") == expected);
        assert!(info("nats://s3cr%65t@h") == UserInfo::Token(Secret::new("s3cret".into())));
    }

    #[test]
    fn what_is_not_a_server_is_refused_with_its_reason() {
        for (text, error) in [
            ("ws://h", ServerError::WebSocket),
            ("http://h", ServerError::Scheme),
            ("nats:/h", ServerError::Slashes),
            ("nats:/u:p@h", ServerError::Slashes),
            ("nats:/h:4222", ServerError::Slashes),
            ("nats://", ServerError::Host),
            ("nats://h h", ServerError::Host),
            ("a,b", ServerError::Host),
            ("::1", ServerError::Host),
            ("[::x]:1", ServerError::Host),
            ("h:0", ServerError::Port),
            ("h:", ServerError::Port),
            ("h:+1", ServerError::Port),
            ("h:65536", ServerError::Port),
            ("h:1/path", ServerError::Trailing),
            ("u:@h", ServerError::EmptyUserInfo),
            ("@h", ServerError::EmptyUserInfo),
            ("u:%4@h", ServerError::Encoding),
            ("u:%+1@h", ServerError::Encoding),
            ("u:%ff@h", ServerError::Encoding),
        ] {
            assert_eq!(parse(text).err(), Some(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn reading_is_total(text in any::<String>()) {
            if let Ok(server) = parse(&text) {
                prop_assert!(!server.address.contains('@'));
            }
        }

        #[test]
        fn nothing_of_the_sign_in_is_shown(password in "[!-~]{1,20}") {
            let shown = redact(&format!("nats://user:CANARY{password}@host:4222"));
            prop_assert!(!shown.contains("CANARY"), "{}", shown);
        }
    }
}
