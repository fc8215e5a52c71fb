//! The HTTP/2 client against scripted servers: the states of streams (RFC 9113 §5.1), framing (§4),
//! streams (§5), frames (§6), and messages (§8). Every script is read whole and in pieces, and must
//! be seen alike.

mod blocks;
mod ends;
mod frames;
mod greeting;
mod responses;
mod streams;
mod windows;

#[path = "../talk/mod.rs"]
mod talk;

use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::Malformed as M;
use dyno_wire::h2::frame::Kind;
use dyno_wire::h2::hpack::encode::{Indexing, put_size_update};
use dyno_wire::h2::settings::ClientSettings;
use dyno_wire::h2::{ErrorCode, Http2Error as E, hpack, limits};
use talk::Seen::*;
use talk::frames::*;
use talk::{Request, Seen, Sent, Talk};

/// As large as the engine's are by default.
const LARGE: ClientSettings = ClientSettings {
    header_table_size: 4096,
    stream_window: (1 << 30) - 1,
    connection_window: (1 << 30) - 1,
};
const STREAM: u32 = (1 << 31) - 1;

struct Case {
    name: &'static str,
    own: ClientSettings,
    start: Start,
    steps: Vec<Step>,
    seen: Vec<Seen>,
}

#[derive(Clone, Copy)]
enum Start {
    /// Nothing has been said.
    Bare,
    /// Settings are exchanged, and so many requests asked.
    Requests(u32),
    /// Stream 1 is there, and nothing has been said in HTTP/2.
    Upgraded(RequestKind),
}

/// One request has been asked.
fn case(name: &'static str, steps: impl Into<Vec<Step>>, seen: impl Into<Vec<Seen>>) -> Case {
    Case { name, own: LARGE, start: Start::Requests(1), steps: steps.into(), seen: seen.into() }
}

/// One request has been asked, and the connection breaks.
fn breaks(name: &'static str, steps: impl Into<Vec<Step>>, why: E, code: ErrorCode) -> Case {
    case(name, steps, [Error(why, code)])
}

/// One request has been asked, and its response is malformed.
fn malformed(name: &'static str, steps: impl Into<Vec<Step>>, why: M) -> Case {
    case(name, steps, [Malformed(1, why, ErrorCode::ProtocolError)])
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

    fn with_settings(self, own: ClientSettings) -> Case {
        Case { own, ..self }
    }

    /// Plays the script with the server's bytes in pieces of at most `cut`.
    fn play(&self, cut: usize) -> Vec<Seen> {
        let mut talk = match self.start {
            Start::Upgraded(kind) => Talk::upgraded(self.own, kind),
            Start::Bare | Start::Requests(_) => Talk::new(self.own),
        };
        if let Start::Requests(requests) = self.start {
            talk.step(&settings(&[]), cut);
            talk.step(&ack(), cut);
            (0..requests).for_each(|_| talk.step(&get(), cut));
        }
        talk.seen.clear();
        for step in self.joined() {
            talk.step(&step, cut);
        }
        talk.seen
    }

    /// Joins consecutive server outputs into one.
    fn joined(&self) -> Vec<Step> {
        let mut joined: Vec<Step> = Vec::new();
        for step in &self.steps {
            match (joined.last_mut(), step) {
                (Some(Step::Says(all)), Step::Says(more)) => all.extend_from_slice(more),
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
            let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case.play(cut)));
            match seen {
                Ok(seen) if seen == case.seen => {}
                Ok(seen) => {
                    failures += &format!(
                        "{} (pieces of {cut}):\n  {seen:?}\n  {:?}\n",
                        case.name, case.seen
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
    assert!(failures.is_empty(), "seen, and expected:\n{failures}");
}

fn body(stream: u32, bytes: impl AsRef<[u8]>) -> Seen {
    Body(stream, bytes.as_ref().to_vec())
}

fn sent_data(stream: u32, length: usize) -> Seen {
    Seen::Sent(Sent::Data(stream, length, false))
}

fn sent_end(stream: u32, length: usize) -> Seen {
    Seen::Sent(Sent::Data(stream, length, true))
}

/// A request's head in one frame.
fn sent_get(stream: u32) -> Seen {
    Seen::Sent(Sent::Headers(stream, 1, true))
}

fn sent_post(stream: u32) -> Seen {
    Seen::Sent(Sent::Headers(stream, 1, false))
}

fn sent_window(stream: u32, by: u32) -> Seen {
    Seen::Sent(Sent::Window(stream, by))
}

fn sent_ack() -> Seen {
    Seen::Sent(Sent::Ack)
}

const PROTOCOL: ErrorCode = ErrorCode::ProtocolError;
const SIZE: ErrorCode = ErrorCode::FrameSizeError;
const FLOW: ErrorCode = ErrorCode::FlowControlError;
