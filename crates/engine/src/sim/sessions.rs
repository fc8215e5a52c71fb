//! Sessions of a simulated server: `/login` begins a session, and every other request needs the
//! cookie and the token of the same session.

use std::collections::BTreeMap;

use dyno_wire::h2::server as h2;

/// Sessions of a simulated server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sessions {
    /// Responses do not depend on earlier ones.
    None,
    /// The response to `/login` has a cookie `sid=N`, a token `tN` in JSON, and no token in every
    /// `lacks`th session. Other requests need the cookie, and a path that ends with the token.
    Required { lacks: u64 },
}

/// What requests of sessions had, as the server knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionTruth {
    /// Sessions that were begun.
    pub begun: u64,
    /// Sessions that were begun with the cookie of an earlier session.
    pub begun_with_cookie: u64,
    /// Requests with the cookie and the token of one session, by the number of the session.
    pub accepted: BTreeMap<u64, u64>,
    pub refused: u64,
}

/// The response to a request of a session.
#[derive(Debug)]
pub(super) struct SessionResponse {
    status: (&'static str, &'static str),
    cookie: Option<String>,
    body: String,
}

impl Sessions {
    /// Responds to a request. `None`: the server has no sessions.
    pub(super) fn respond<'a>(
        self,
        path: &[u8],
        mut fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        truth: &mut SessionTruth,
    ) -> Option<SessionResponse> {
        let Sessions::Required { lacks } = self else { return None };
        let cookie = fields.find(|(name, _)| name.eq_ignore_ascii_case(b"cookie"));
        if path == b"/login" {
            truth.begun += 1;
            truth.begun_with_cookie += u64::from(cookie.is_some());
            let number = truth.begun;
            let has_token = !number.is_multiple_of(lacks);
            let key = if has_token { "token" } else { "none" };
            return Some(SessionResponse {
                status: ("200", "OK"),
                cookie: Some(format!("sid={number}; Path=/; HttpOnly")),
                body: format!("{{\"{key}\":\"t{number}\"}}"),
            });
        }
        let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
        let of_cookie = cookie.and_then(|(_, value)| number(value.strip_prefix(b"sid=")?));
        let token = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let of_token = token.strip_prefix(b"t").and_then(number);
        let is_accepted = of_cookie.is_some() && of_cookie == of_token;
        match of_cookie.filter(|_| is_accepted) {
            Some(session) => *truth.accepted.entry(session).or_default() += 1,
            None => truth.refused += 1,
        }
        let status = if is_accepted { ("200", "OK") } else { ("401", "No") };
        Some(SessionResponse { status, cookie: None, body: "ok".into() })
    }
}

impl SessionResponse {
    /// Returns the response as an HTTP/1.1 message.
    pub(super) fn message(&self) -> Vec<u8> {
        let (status, reason) = self.status;
        let cookie = self.cookie.as_ref();
        let cookie = cookie.map_or(String::new(), |cookie| format!("Set-Cookie: {cookie}\r\n"));
        let (length, body) = (self.body.len(), &self.body);
        format!("HTTP/1.1 {status} {reason}\r\n{cookie}Content-Length: {length}\r\n\r\n{body}")
            .into_bytes()
    }

    /// Returns the response as an HTTP/2 stream.
    pub(super) fn stream(&self) -> h2::EncodedResponse {
        let length = self.body.len().to_string();
        let mut fields = vec![(":status", self.status.0), ("content-length", &length)];
        fields.extend(self.cookie.as_deref().map(|cookie| ("set-cookie", cookie)));
        h2::EncodedResponse::new(&fields, self.body.as_bytes(), h2::FrameLayout::Two)
    }
}
