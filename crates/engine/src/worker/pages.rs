//! Page loads as in a browser: a document and, once it is complete, its resources.
//!
//! A *visitor* loads page after page over its own connections: one HTTP/2 connection, or several
//! HTTP/1.1 connections. The intended start of the resources of a page is the instant at which its
//! document is complete. If no connection or stream is free then, the resource waits, and its
//! response time includes the wait.

use dyno_model::outcome::Outcome;

use super::Worker;
use crate::Instant;
use crate::driver::{ConnId, StreamDriver};
use crate::exchange::Exchange;

/// Index of the document in the traffic. The other requests are its resources.
const DOCUMENT: u16 = 0;

/// The page loads of a worker.
#[derive(Debug)]
pub(super) struct Pages {
    /// Connections per visitor.
    per_visitor: u32,
    /// Number of resources per page.
    resources: u16,
    visitors: Vec<Visitor>,
    /// Ended exchanges that have not been processed.
    ended: Vec<EndedExchange>,
}

/// An exchange of a page that has ended.
#[derive(Clone, Copy, Debug)]
struct EndedExchange {
    conn: ConnId,
    /// Index of the request in the traffic.
    request: u16,
    /// Whether the response was correct.
    is_ok: bool,
}

/// A visitor and the page that it loads.
#[derive(Clone, Copy, Debug, Default)]
struct Visitor {
    /// Intended start of the current page; `None`: no page is loading.
    page_start: Option<Instant>,
    /// Intended start of the resources of the page.
    resources_start: Instant,
    /// Index of the next resource to assign to a connection; `DOCUMENT` until the document is
    /// complete.
    next_resource: u16,
    /// Exchanges of the page that have started, but not ended.
    open_exchanges: u16,
    has_failed: bool,
}

impl Pages {
    pub(super) fn new(connections: u32, per_visitor: u32, requests: usize) -> Pages {
        assert!(
            connections.is_multiple_of(per_visitor),
            "all visitors should have the same number of connections"
        );
        Pages {
            per_visitor,
            resources: (requests - 1) as u16,
            visitors: vec![Visitor::default(); (connections / per_visitor) as usize],
            ended: Vec::new(),
        }
    }

    /// Queues an ended exchange for the next refill.
    pub(super) fn record_end(&mut self, conn: ConnId, exchange: &Exchange, outcome: Outcome) {
        let is_ok = outcome == Outcome::Ok;
        self.ended.push(EndedExchange { conn, request: exchange.request, is_ok });
    }

    /// Returns the intended starts of incomplete pages.
    pub(super) fn unfinished_pages(&self) -> impl Iterator<Item = Instant> + '_ {
        self.visitors.iter().filter_map(|visitor| visitor.page_start)
    }

    /// Returns the resources that were not assigned to a connection: the intended start and the
    /// request index of each.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (Instant, u16)> + '_ {
        let last = self.resources;
        let waiting = move |visitor: &Visitor| {
            let intended = visitor.resources_start;
            (visitor.next_resource..=last).map(move |request| (intended, request))
        };
        self.visitors
            .iter()
            .filter(|visitor| visitor.page_start.is_some() && visitor.next_resource > DOCUMENT)
            .flat_map(waiting)
    }
}

impl Worker {
    /// Advances the pages of a visitor after a change on a connection.
    pub(super) fn refill_page<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        now: Instant,
        driver: &mut D,
    ) {
        self.send_assigned(conn, now, driver);
        self.queue_output(conn, driver);
        while let Some(ended) = self.pages.as_mut().and_then(|pages| pages.ended.pop()) {
            self.advance_page(ended, now);
            self.fill_visitor(ended.conn, now, driver);
        }
        self.fill_visitor(conn, now, driver);
    }

    /// Advances a page after one of its exchanges ended: starts the resources after the document,
    /// and ends the page after the last resource.
    fn advance_page(&mut self, ended: EndedExchange, now: Instant) {
        let EndedExchange { conn, request, is_ok } = ended;
        let can_continue = self.is_loading_at(now);
        let Some(pages) = &mut self.pages else { return };
        let visitor = &mut pages.visitors[(conn / pages.per_visitor) as usize];
        let Some(page_start) = visitor.page_start else { return };
        visitor.open_exchanges -= 1;
        visitor.has_failed |= !is_ok;
        if request == DOCUMENT && is_ok && pages.resources > 0 {
            if !can_continue {
                // The load is over, so the page stays incomplete.
                visitor.page_start = None;
                return self.shared.recorder.record_unfinished_page(page_start);
            }
            visitor.next_resource = DOCUMENT + 1;
            // The document is complete, so its resources are intended from now on.
            visitor.resources_start = now;
            visitor.open_exchanges = pages.resources;
            self.started += u64::from(pages.resources);
            for _ in 0..pages.resources {
                self.shared.recorder.record_scheduled(now);
                self.shared.recorder.record_start(now, now);
            }
        } else if visitor.open_exchanges == 0 {
            visitor.page_start = None;
            self.shared.recorder.record_page(page_start, now, !visitor.has_failed);
        }
    }

    /// Assigns the remaining resources of the page, or the next page, to the connections of a
    /// visitor.
    fn fill_visitor<D: StreamDriver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        let Some(pages) = &self.pages else { return };
        let (per_visitor, last) = (pages.per_visitor, pages.resources);
        let visitor_index = (conn / per_visitor) as usize;
        let first_conn = visitor_index as u32 * per_visitor;
        for conn in first_conn..first_conn + per_visitor {
            while self.has_room(conn) {
                let can_begin = self.takes_next_request(now);
                let Some(pages) = &mut self.pages else { return };
                let visitor = &mut pages.visitors[visitor_index];
                match visitor.page_start {
                    Some(_)
                        if visitor.next_resource > DOCUMENT && visitor.next_resource <= last =>
                    {
                        let (request, intended) = (visitor.next_resource, visitor.resources_start);
                        visitor.next_resource += 1;
                        self.assign_exchange(conn, Exchange::new(intended, request), now, driver);
                    }
                    Some(_) => break,
                    None if can_begin => self.begin_page(conn, visitor_index, now, driver),
                    None => break,
                }
            }
            self.queue_output(conn, driver);
        }
    }

    /// Begins a page. Pages are always loaded in a closed loop, so the intended start is now, when
    /// the visitor became free.
    fn begin_page<D: StreamDriver>(
        &mut self,
        conn: ConnId,
        visitor_index: usize,
        now: Instant,
        driver: &mut D,
    ) {
        let Some(pages) = &mut self.pages else { return };
        pages.visitors[visitor_index] =
            Visitor { page_start: Some(now), open_exchanges: 1, ..Visitor::default() };
        self.started += 1;
        self.shared.recorder.record_scheduled(now);
        self.shared.recorder.record_start(now, now);
        self.assign_exchange(conn, Exchange::new(now, DOCUMENT), now, driver);
    }

    fn is_loading_at(&self, now: Instant) -> bool {
        self.is_loading() && now < self.shared.recorder.window_end()
    }
}
