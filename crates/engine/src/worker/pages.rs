//! Pages: a document and, once it is there, everything it refers to, as a browser loads them.
//!
//! A *visitor* loads page after page over connections of its own: one of HTTP/2, or several of
//! HTTP/1.1. The resources of a page are all intended at the instant at which the document was
//! complete; what waits for a free connection or stream waits in its visitor, and the wait is part
//! of its response time.

use super::Worker;
use crate::Instant;
use crate::driver::{ConnId, Driver};
use crate::slot::Exchange;
use dyno_archive::outcome::Outcome;

/// The first request of the traffic is the document, the others are its resources.
const DOCUMENT: u16 = 0;

#[derive(Debug)]
pub(super) struct Pages {
    /// Connections of each visitor.
    each: u32,
    /// Number of resources of a page.
    resources: u16,
    visitors: Vec<Visitor>,
    /// Exchanges that ended and have not been looked at: the connection, the request, and whether
    /// it ended well.
    ended: Vec<(ConnId, u16, bool)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Visitor {
    /// Intended start of the present page; `None`: no page is loading.
    began: Option<Instant>,
    /// When the page's resources were intended.
    continued: Instant,
    /// Index of the request for the next resource; 0 until the document is complete. It and those
    /// after it have not been given to a connection.
    next: u16,
    /// Exchanges of the page that have been scheduled and have not ended.
    open: u16,
    failed: bool,
}

impl Pages {
    pub(super) fn new(connections: u32, each: u32, requests: usize) -> Pages {
        assert!(connections.is_multiple_of(each), "visitors have equally many connections");
        Pages {
            each,
            resources: (requests - 1) as u16,
            visitors: vec![Visitor::default(); (connections / each) as usize],
            ended: Vec::new(),
        }
    }

    /// An exchange has ended.
    pub(super) fn see(&mut self, conn: ConnId, exchange: &Exchange, outcome: Outcome) {
        self.ended.push((conn, exchange.request, outcome == Outcome::Ok));
    }

    /// The intended instants of the pages that are not complete.
    pub(super) fn unfinished_pages(&self) -> impl Iterator<Item = Instant> + '_ {
        self.visitors.iter().filter_map(|visitor| visitor.began)
    }

    /// The resources that no connection has been given yet: the intended instant and the request's
    /// index of each.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (Instant, u16)> + '_ {
        let last = self.resources;
        let of = move |v: &Visitor| {
            let continued = v.continued;
            (v.next..=last).map(move |request| (continued, request))
        };
        self.visitors.iter().filter(|v| v.began.is_some() && v.next > DOCUMENT).flat_map(of)
    }
}

impl Worker {
    /// Advances the pages after a change on a connection.
    pub(super) fn refill_page<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        self.place_assigned(conn, now, driver);
        self.push_out(conn, driver);
        while let Some((conn, request, is_ok)) =
            self.pages.as_mut().and_then(|pages| pages.ended.pop())
        {
            self.settle_page(conn, request, is_ok, now);
            self.feed(conn, now, driver);
        }
        self.feed(conn, now, driver);
    }

    /// One exchange of a page has ended: its resources follow the document, and the last of them
    /// ends the page.
    fn settle_page(&mut self, conn: ConnId, request: u16, is_ok: bool, now: Instant) {
        let may_go_on = self.is_loading_at(now);
        let Some(pages) = &mut self.pages else { return };
        let visitor = &mut pages.visitors[(conn / pages.each) as usize];
        let Some(began) = visitor.began else { return };
        visitor.open -= 1;
        visitor.failed |= !is_ok;
        if request == DOCUMENT && is_ok && pages.resources > 0 {
            if !may_go_on {
                // The load is over, and the page stays unfinished.
                visitor.began = None;
                return self.recorder.page_unfinished(began);
            }
            visitor.next = DOCUMENT + 1;
            // The document is complete, so what it refers to is wanted from this instant on.
            visitor.continued = now;
            visitor.open = pages.resources;
            self.begun += u64::from(pages.resources);
            for _ in 0..pages.resources {
                self.recorder.record_scheduled(now);
                self.recorder.record_start(now, now);
            }
        } else if visitor.open == 0 {
            visitor.began = None;
            // The last resource had arrived at the completion's instant.
            self.recorder.page_ended(began, now, !visitor.failed);
        }
    }

    /// Gives the connections of a visitor what its page still needs, or the next page.
    fn feed<D: Driver>(&mut self, conn: ConnId, now: Instant, driver: &mut D) {
        let Some(pages) = &self.pages else { return };
        let (each, last) = (pages.each, pages.resources);
        let number = (conn / each) as usize;
        let own = number as u32 * each..(number as u32 + 1) * each;
        for conn in own {
            while self.has_room(conn) {
                let may_begin = self.takes_next(now);
                let Some(pages) = &mut self.pages else { return };
                let visitor = &mut pages.visitors[number];
                match visitor.began {
                    Some(_) if visitor.next > DOCUMENT && visitor.next <= last => {
                        let (request, intended) = (visitor.next, visitor.continued);
                        visitor.next += 1;
                        self.give(conn, request, intended, now, driver);
                    }
                    Some(_) => break,
                    None if may_begin => self.begin_page(conn, number, now, driver),
                    None => break,
                }
            }
            self.push_out(conn, driver);
        }
    }

    /// In a closed loop a page is intended at the instant at which the visitor fell free.
    fn begin_page<D: Driver>(&mut self, conn: ConnId, number: usize, now: Instant, driver: &mut D) {
        let Some(pages) = &mut self.pages else { return };
        pages.visitors[number] = Visitor { began: Some(now), open: 1, ..Visitor::default() };
        self.begun += 1;
        self.recorder.record_scheduled(now);
        self.recorder.record_start(now, now);
        self.give(conn, DOCUMENT, now, now, driver);
    }

    fn is_loading_at(&self, now: Instant) -> bool {
        self.is_loading() && now < self.recorder.closes()
    }
}
