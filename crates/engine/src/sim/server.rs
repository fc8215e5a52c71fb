//! Simulated servers: how long they take, and how they misbehave.

use std::collections::BTreeMap;

use dyno_archive::Outcome;
use dyno_wire::h1::{encode, request};

use crate::rng::Rng;

/// How long serving one request takes.
#[derive(Clone, Copy, Debug)]
pub enum Service {
    Fixed { ns: u64 },
    Exponential { mean_ns: f64 },
}

/// Who waits for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// One request at a time, first come, first served: with Poisson arrivals and exponential service, M/M/1.
    Single,
    /// Each connection has a server of its own.
    PerConnection,
}

/// The server does no work from `at_ns` for `for_ns`.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    pub at_ns: u64,
    pub for_ns: u64,
}

/// A way to answer wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Status 500.
    Status,
    /// A right head and a wrong body.
    Body,
    /// No answer, the connection is reset.
    Reset,
    /// The connection is closed in the middle of the body.
    CloseInBody,
    /// Bytes that are no HTTP.
    Garbage,
    /// No answer, ever, on this connection.
    Silence,
    /// A right answer with `Connection: close`, and the close.
    PoliteClose,
}

impl Fault {
    pub const ALL: [Fault; 7] = [
        Fault::Status,
        Fault::Body,
        Fault::Reset,
        Fault::CloseInBody,
        Fault::Garbage,
        Fault::Silence,
        Fault::PoliteClose,
    ];

    /// What the exchange must be counted as.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        match self {
            Fault::Status => Outcome::UnexpectedStatus,
            Fault::Body => Outcome::UnexpectedBody,
            Fault::Reset => Outcome::Reset,
            Fault::CloseInBody => Outcome::ClosedEarly,
            Fault::Garbage => Outcome::ProtocolError,
            Fault::Silence => Outcome::Timeout,
            Fault::PoliteClose => Outcome::Ok,
        }
    }
}

/// A server of the simulated world.
#[derive(Clone, Debug)]
pub struct Model {
    pub service: Service,
    pub queue: Queue,
    pub pauses: Vec<Pause>,
    /// Each with its probability per request.
    pub faults: Vec<(Fault, f64)>,
    pub body: Vec<u8>,
}

impl Model {
    #[must_use]
    pub fn new(service: Service, queue: Queue) -> Model {
        Model { service, queue, pauses: Vec::new(), faults: Vec::new(), body: b"Hello, World!".to_vec() }
    }
}

/// What the server did, for comparison with what the generator says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Requests that arrived whole.
    pub requests: u64,
    pub faults: BTreeMap<Fault, u64>,
}

/// What the server does about one request.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) at_ns: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) then: Then,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    KeepOpen,
    Close,
    Reset,
}

/// The server's half of one connection.
#[derive(Debug, Default)]
pub(super) struct Peer {
    reader: request::Reader,
    free_at_ns: u64,
    /// It has decided not to answer on this connection any more.
    done: bool,
}

#[derive(Debug)]
pub(super) struct Server {
    model: Model,
    rng: Rng,
    free_at_ns: u64,
    pub(super) truth: Truth,
}

impl Server {
    pub(super) fn new(model: Model, rng: Rng) -> Self {
        Server { model, rng, free_at_ns: 0, truth: Truth::default() }
    }

    /// Bytes arrive at `now_ns`; says what will be answered, and when.
    pub(super) fn receive(&mut self, peer: &mut Peer, mut bytes: &[u8], now_ns: u64) -> Vec<Reply> {
        let mut replies = Vec::new();
        loop {
            let (used, event) = peer.reader.next(bytes).expect("the generator writes valid requests");
            bytes = &bytes[used..];
            match event {
                request::Event::NeedMore => return replies,
                request::Event::Head(_) | request::Event::Body(_) => {}
                request::Event::End => {
                    if peer.done {
                        continue;
                    }
                    self.truth.requests += 1;
                    replies.extend(self.serve(peer, now_ns));
                }
            }
        }
    }

    fn serve(&mut self, peer: &mut Peer, now_ns: u64) -> Option<Reply> {
        let work = match self.model.service {
            Service::Fixed { ns } => ns,
            Service::Exponential { mean_ns } => self.rng.exponential(mean_ns) as u64,
        };
        let free_at = match self.model.queue {
            Queue::Single => &mut self.free_at_ns,
            Queue::PerConnection => &mut peer.free_at_ns,
        };
        let at_ns = after_pauses(&self.model.pauses, now_ns.max(*free_at), work);
        *free_at = at_ns;
        let fault = self.draw_fault();
        peer.done = fault.is_some_and(|f| !matches!(f, Fault::Status | Fault::Body));
        self.reply(fault, at_ns)
    }

    fn draw_fault(&mut self) -> Option<Fault> {
        let fault = self.model.faults.iter().find(|(_, odds)| self.rng.chance(*odds)).map(|(f, _)| *f)?;
        *self.truth.faults.entry(fault).or_default() += 1;
        Some(fault)
    }

    fn reply(&self, fault: Option<Fault>, at_ns: u64) -> Option<Reply> {
        let body = &self.model.body[..];
        let ok = |close: bool| encode::response(200, "OK", "text/plain", body.len(), close, body);
        let (bytes, then) = match fault {
            None => (ok(false), Then::KeepOpen),
            Some(Fault::PoliteClose) => (ok(true), Then::Close),
            Some(Fault::Status) => {
                (encode::response(500, "Oops", "text/plain", 4, false, b"oops"), Then::KeepOpen)
            }
            Some(Fault::Body) => {
                let wrong = vec![b'?'; body.len()];
                (encode::response(200, "OK", "text/plain", wrong.len(), false, &wrong), Then::KeepOpen)
            }
            Some(Fault::Reset) => (Vec::new(), Then::Reset),
            Some(Fault::CloseInBody) => {
                let mut bytes = ok(false);
                bytes.truncate(bytes.len() - body.len() / 2 - 1);
                (bytes, Then::Close)
            }
            Some(Fault::Garbage) => {
                (b"\x15\x03\x01\x00\x02\x02\x46 no http\r\n\r\n".to_vec(), Then::KeepOpen)
            }
            Some(Fault::Silence) => return None,
        };
        Some(Reply { at_ns, bytes, then })
    }
}

/// When work of `work_ns` that may begin at `from_ns` is done, given the pauses.
fn after_pauses(pauses: &[Pause], from_ns: u64, work_ns: u64) -> u64 {
    let mut start = from_ns;
    let mut left = work_ns;
    for pause in pauses {
        let pause_ends = pause.at_ns + pause.for_ns;
        if pause_ends <= start || pause.at_ns >= start + left {
            continue;
        }
        left -= pause.at_ns.saturating_sub(start);
        start = pause_ends;
    }
    start + left
}
