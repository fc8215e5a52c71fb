//! State that all conversations of a worker share.

use std::collections::BTreeMap;
use std::fmt::Display;

use dyno_model::interval::{EarlyResponses, UnstoredBodies};
use dyno_model::load::Timeouts;
use dyno_wire::h1::response::HeadCache;
use dyno_wire::h2::settings::ClientSettings;

use super::continues::ContinueBooks;
use super::h2::client_settings;
use super::http2_counts::Http2Counts;
use crate::config::WorkerConfig;
use crate::cookie_watch::CookieWatch;
use crate::expect::Omitted;
use crate::kinds::count_kind;
use crate::recorder::Recorder;
use crate::traffic::RequestScratch;
use crate::visits::Visits;
use crate::{Instant, limits};

/// State that all conversations of a worker share: the configuration, the records, and reused
/// memory.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: WorkerConfig,
    /// When the load began; `NEVER` before.
    pub(crate) began: Instant,
    pub(crate) recorder: Recorder,
    /// `None`: requests are independent of each other.
    pub(crate) visits: Option<Box<Visits>>,
    pub(crate) cookies: CookieWatch,
    /// `None`: no request expects 100 (Continue).
    pub(crate) continues: Option<Box<ContinueBooks>>,
    pub(crate) timeouts: Timeouts,
    pub(crate) protocol_errors: BTreeMap<String, u64>,
    /// HTTP/2 counts since the worker began.
    pub(crate) http2: Http2Counts,
    /// This client's settings for HTTP/2 servers.
    pub(crate) settings: ClientSettings,
    /// Bytes that have left the machine on the connection that is being read. Only valid for
    /// connections with large requests.
    pub(crate) sent_bytes: u64,
    /// The last HTTP/1.1 response head on any connection, and its parsed form.
    pub(crate) head_cache: HeadCache,
    /// Bytes that the current conversation has written, and that have not gone to the driver. Empty
    /// whenever another connection is handled.
    pub(crate) output: Vec<u8>,
    // Reused memory, so that no exchange allocates.
    /// For HTTP/2 requests.
    pub(crate) scratch: RequestScratch,
    /// For the bytes of an HTTP/1.1 request.
    pub(crate) request: Vec<u8>,
}

impl Shared {
    pub(crate) fn new(config: WorkerConfig, visits: Option<Box<Visits>>) -> Shared {
        let requests = config.traffic.requests().len();
        Shared {
            began: Instant::NEVER,
            recorder: Recorder::new(Instant(0), config.window, requests),
            visits,
            cookies: CookieWatch::new(&config.traffic),
            continues: config.traffic.has_expect_continue().then(Box::default),
            timeouts: Timeouts::default(),
            protocol_errors: BTreeMap::new(),
            http2: Http2Counts::default(),
            settings: client_settings(&config.http2),
            sent_bytes: 0,
            head_cache: HeadCache::new(),
            output: Vec::new(),
            scratch: RequestScratch::default(),
            request: Vec::new(),
            config,
        }
    }

    /// Counts a protocol error by its message.
    pub(crate) fn count_protocol_error(&mut self, error: &dyn Display) {
        count_kind(&mut self.protocol_errors, &error.to_string(), limits::PROTOCOL_ERROR_KINDS);
    }

    /// Counts a response that was complete before its request had been sent in full (RFC 9112
    /// §9.3). `unsent_bytes`: bytes of the request that had not left.
    #[cold]
    pub(crate) fn count_early_response(&mut self, unsent_bytes: u64, status: u16) {
        let early = self.recorder.current().answered_early.get_or_insert_default();
        let refusals = Some(u64::from(status >= 400));
        early.add(&EarlyResponses { responses: 1, unsent_bytes, refusals });
    }

    /// Counts a response whose body was not stored, with the work that was omitted.
    #[cold]
    pub(crate) fn count_unstored_body(&mut self, omitted: Omitted) {
        let unstored = self.recorder.current().unstored_bodies.get_or_insert_default();
        unstored.add(&UnstoredBodies {
            unchecked: u64::from(omitted.is_unchecked),
            unextracted: u64::from(omitted.is_unextracted),
        });
    }

    /// Returns the number of streams that the next HTTP/2 connection is likely to allow.
    pub(super) fn expected_streams(&self) -> u32 {
        self.config.streams.min(self.http2.granted.unwrap_or(u32::MAX)).max(1)
    }

    /// Counts a body that waits for 100 (Continue).
    pub(super) fn count_held_body(&mut self) {
        if let Some(books) = &mut self.continues {
            books.count_held();
        }
    }

    /// Counts a final response in place of 100 (Continue).
    pub(super) fn count_final_response(&mut self, status: u16) {
        if let Some(books) = &mut self.continues {
            books.count_final(status);
        }
    }

    /// Counts a 100 (Continue) for a request whose head left at `sent`.
    pub(super) fn count_continued(&mut self, sent: Instant, now: Instant) {
        if let Some(books) = &mut self.continues {
            books.count_continued(sent, now);
        }
    }

    /// Counts a body that was sent without 100 (Continue), after the longest wait.
    pub(super) fn count_expired_wait(&mut self) {
        if let Some(books) = &mut self.continues {
            books.count_expired();
        }
    }
}
