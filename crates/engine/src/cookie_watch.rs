//! Detection of servers that set cookies.

use crate::limits;
use crate::sequence::CookiePolicy;
use crate::traffic::Traffic;

/// Detection of servers that set cookies. Only the first responses are searched, so that the load
/// is not slowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CookieWatch {
    searches_left: u32,
    has_set_cookie: bool,
}

impl CookieWatch {
    /// Creates the detection for a load. Visitors that keep cookies need none.
    pub(crate) fn new(traffic: &Traffic) -> CookieWatch {
        let keeps_cookies =
            traffic.sequence().is_some_and(|sequence| sequence.cookies == CookiePolicy::Keep);
        let searches_left = if keeps_cookies { 0 } else { limits::COOKIE_SEARCHES };
        CookieWatch { searches_left, has_set_cookie: false }
    }

    #[inline]
    pub(crate) const fn is_searching(self) -> bool {
        self.searches_left > 0 && !self.has_set_cookie
    }

    #[inline]
    pub(crate) fn search<'a, F: Iterator<Item = (&'a [u8], &'a [u8])>>(
        &mut self,
        fields: impl FnOnce() -> F,
    ) {
        if !self.is_searching() {
            return;
        }
        self.searches_left -= 1;
        self.has_set_cookie = fields().any(|(name, _)| name.eq_ignore_ascii_case(b"set-cookie"));
    }

    /// Returns a message for users if missing cookies can be the cause of this status; `None`: they
    /// are not.
    pub(crate) fn reason(self, status: u16) -> Option<&'static str> {
        match status {
            401 if self.has_set_cookie => Some(
                "status 401: the server sets cookies, and dyno does not send them back (send a \
                 cookie with -H 'Cookie: NAME=VALUE', or keep cookies with --step and --cookies)",
            ),
            403 if self.has_set_cookie => Some(
                "status 403: the server sets cookies, and dyno does not send them back (send a \
                 cookie with -H 'Cookie: NAME=VALUE', or keep cookies with --step and --cookies)",
            ),
            _ => None,
        }
    }
}
