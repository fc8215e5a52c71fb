//! Tests the HTTP/2 client with scripted servers: framing (RFC 9113 §4), the states of streams
//! (§5), frames (§6), and messages (§8). Every script arrives whole and in pieces, and must give
//! the same events.

mod blocks;
mod ends;
mod frames;
mod greeting;
mod responses;
mod streams;
mod windows;

use crate::talk::Observed::*;
use crate::talk::frames::*;
use crate::talk::{Observed, Request, Sent, Talk};
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::Malformed as M;
use dyno_wire::h2::frame::Kind;
use dyno_wire::h2::hpack::encode::{Indexing, put_size_update};
use dyno_wire::h2::settings::ClientSettings;
use dyno_wire::h2::{ErrorCode, Http2Error as E, hpack, limits};

/// The default windows of the engine.
const LARGE: ClientSettings = ClientSettings {
    header_table_size: 4096,
    stream_window: (1 << 30) - 1,
    connection_window: (1 << 30) - 1,
};
const STREAM: u32 = (1 << 31) - 1;

struct Case {
    name: &'static str,
    client_settings: ClientSettings,
    start: Start,
    steps: Vec<Step>,
    events: Vec<Observed>,
}

#[derive(Clone, Copy)]
enum Start {
    /// The server has sent nothing.
    Bare,
    /// Settings are exchanged, and this number of requests has been sent.
    Requests(u32),
    /// Stream 1 is open, and the server has sent nothing in HTTP/2.
    Upgraded(RequestKind),
}

/// A case that begins after one request.
fn case(name: &'static str, steps: impl Into<Vec<Step>>, events: impl Into<Vec<Observed>>) -> Case {
    Case {
        name,
        client_settings: LARGE,
        start: Start::Requests(1),
        steps: steps.into(),
        events: events.into(),
    }
}

/// A case that begins after one request, and ends with an error of the connection.
fn breaks(name: &'static str, steps: impl Into<Vec<Step>>, violation: E, code: ErrorCode) -> Case {
    case(name, steps, [Error(violation, code)])
}

/// A case that begins after one request, and whose response is malformed.
fn malformed(name: &'static str, steps: impl Into<Vec<Step>>, violation: M) -> Case {
    case(name, steps, [Malformed(1, violation, ErrorCode::ProtocolError)])
}

impl Case {
    fn bare(self) -> Case {
        Case { start: Start::Bare, ..self }
    }

    fn with_requests(self, requests: u32) -> Case {
        Case { start: Start::Requests(requests), ..self }
    }

    fn upgraded(self, kind: RequestKind) -> Case {
        Case { start: Start::Upgraded(kind), ..self }
    }

    fn with_settings(self, client_settings: ClientSettings) -> Case {
        Case { client_settings, ..self }
    }

    /// Plays the script with the server's bytes in pieces of at most `cut`.
    fn play(&self, cut: usize) -> Vec<Observed> {
        let mut talk = match self.start {
            Start::Upgraded(kind) => Talk::upgraded(self.client_settings, kind),
            Start::Bare | Start::Requests(_) => Talk::new(self.client_settings),
        };
        if let Start::Requests(requests) = self.start {
            talk.step(&settings(&[]), cut);
            talk.step(&ack(), cut);
            (0..requests).for_each(|_| talk.step(&get(), cut));
        }
        talk.events.clear();
        for step in self.joined_steps() {
            talk.step(&step, cut);
        }
        talk.events
    }

    /// Joins consecutive server outputs into one.
    fn joined_steps(&self) -> Vec<Step> {
        let mut joined: Vec<Step> = Vec::new();
        for step in &self.steps {
            match (joined.last_mut(), step) {
                (Some(Step::Receive(all)), Step::Receive(more)) => all.extend_from_slice(more),
                _ => joined.push(step.clone()),
            }
        }
        joined
    }
}

fn run(cases: impl IntoIterator<Item = Case>) {
    let mut failures = String::new();
    for case in cases {
        for cut in [usize::MAX, 1, 2, 7, 4096] {
            let events = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case.play(cut)));
            match events {
                Ok(events) if events == case.events => {}
                Ok(events) => {
                    failures += &format!(
                        "{} (pieces of {cut}):\n  {events:?}\n  {:?}\n",
                        case.name, case.events
                    );
                    break;
                }
                Err(_) => {
                    failures += &format!("{} (pieces of {cut}) panics\n", case.name);
                    break;
                }
            }
        }
    }
    assert!(failures.is_empty(), "observed events, then expected ones:\n{failures}");
}

fn body(stream: u32, bytes: impl AsRef<[u8]>) -> Observed {
    Body(stream, bytes.as_ref().to_vec())
}

fn sent_data(stream: u32, length: usize) -> Observed {
    Observed::Sent(Sent::Data(stream, length, false))
}

fn sent_end(stream: u32, length: usize) -> Observed {
    Observed::Sent(Sent::Data(stream, length, true))
}

/// A request's head in one frame.
fn sent_get(stream: u32) -> Observed {
    Observed::Sent(Sent::Headers(stream, 1, true))
}

fn sent_post(stream: u32) -> Observed {
    Observed::Sent(Sent::Headers(stream, 1, false))
}

fn sent_window(stream: u32, increment: u32) -> Observed {
    Observed::Sent(Sent::Window(stream, increment))
}

fn sent_ack() -> Observed {
    Observed::Sent(Sent::Ack)
}

const PROTOCOL: ErrorCode = ErrorCode::ProtocolError;
const SIZE: ErrorCode = ErrorCode::FrameSizeError;
const FLOW: ErrorCode = ErrorCode::FlowControlError;
