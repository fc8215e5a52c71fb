//! The state that the requests of one visitor share: extracted values and cookies.

use std::sync::Arc;

use crate::Instant;
use crate::cookie_date::seconds_since_epoch;
use crate::cookies::{CookieJar, CookieScope, CookieTransport};
use crate::draw::Draw;

/// The state of one visitor.
#[derive(Debug)]
pub(crate) struct VisitorSession {
    /// Extracted values, by index.
    values: Vec<Vec<u8>>,
    jar: CookieJar,
    transport: CookieTransport,
    /// Host of the current request.
    host: Arc<[u8]>,
    /// Path of the current request, without query.
    path: Vec<u8>,
    /// When the current request is rendered.
    now: Instant,
    /// Index of the current request in its sequence.
    request: u16,
    /// Random draw of the visit, which all its requests share.
    draw: Draw,
}

impl VisitorSession {
    /// Creates the state of a new visitor. `values`: number of values that will be extracted.
    pub(crate) fn new(values: usize, transport: CookieTransport) -> VisitorSession {
        VisitorSession {
            values: vec![Vec::new(); values],
            jar: CookieJar::default(),
            transport,
            host: Arc::from([]),
            path: Vec::new(),
            now: Instant::default(),
            request: 0,
            draw: Draw::NONE,
        }
    }

    /// Forgets everything, for the next visitor.
    pub(crate) fn clear(&mut self) {
        self.values.iter_mut().for_each(Vec::clear);
        self.jar.clear();
        self.draw = Draw::NONE;
    }

    /// Returns the draw of the visit.
    pub(crate) fn draw(&mut self) -> &mut Draw {
        &mut self.draw
    }

    /// Returns a number that differs between the requests of a visit, so that each has its own
    /// random values.
    pub(crate) fn salt(&self) -> u64 {
        u64::from(self.request).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    pub(crate) fn store_value(&mut self, index: u16, value: Vec<u8>) {
        self.values[usize::from(index)] = value;
    }

    pub(crate) fn value(&self, index: u16) -> &[u8] {
        &self.values[usize::from(index)]
    }

    /// Begins the request of this index, to this host, at `now`.
    pub(crate) fn begin_request(&mut self, request: u16, host: &Arc<[u8]>, now: Instant) {
        self.request = request;
        self.host = Arc::clone(host);
        self.now = now;
    }

    /// Sets the path of the current request from its target.
    pub(crate) fn set_target(&mut self, target: &[u8]) {
        let end = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
        self.path.clear();
        self.path.extend_from_slice(&target[..end]);
    }

    /// Appends the cookies of the current request, each with its name, after `before`. Without
    /// cookies, appends nothing.
    pub(crate) fn put_cookies(&self, before: &[u8], out: &mut Vec<u8>) {
        self.jar.put(&self.scope(), self.now, before, out);
    }

    /// Takes the cookies of a response to the current request. `epoch_s`: time of day at instant 0,
    /// seconds since 1970. Only responses without a Date need it.
    pub(crate) fn receive_cookies<'a, F>(
        &mut self,
        epoch_s: i64,
        now: Instant,
        fields: impl Fn() -> F,
    ) where
        F: Iterator<Item = (&'a [u8], &'a [u8])>,
    {
        let is_named = |name: &'static [u8]| {
            move |(field, _): &(&[u8], &[u8])| field.eq_ignore_ascii_case(name)
        };
        let mut set_cookies = fields().filter(is_named(b"set-cookie")).peekable();
        if set_cookies.peek().is_none() {
            return;
        }
        let date = fields().find(is_named(b"date"));
        let server_time_s = date
            .and_then(|(_, value)| seconds_since_epoch(value))
            .unwrap_or_else(|| epoch_s.saturating_add_unsigned(now.0 / 1_000_000_000));
        let scope = CookieScope { host: &self.host, path: &self.path, transport: self.transport };
        for (_, field) in set_cookies {
            self.jar.receive(field, &scope, server_time_s, now);
        }
    }

    fn scope(&self) -> CookieScope<'_> {
        CookieScope { host: &self.host, path: &self.path, transport: self.transport }
    }
}
