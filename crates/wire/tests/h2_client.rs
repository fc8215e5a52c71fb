//! The HTTP/2 client against scripted servers: the states of streams (RFC 9113 §5.1), framing (§4), streams (§5), frames
//! (§6), and messages (§8). Every script is read whole and in pieces, and must be seen alike.

// Tables.
#![allow(clippy::too_many_lines)]

mod talk;

use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::Malformed as M;
use dyno_wire::h2::frame::Kind;
use dyno_wire::h2::hpack::encode::{Indexing, put_size_update};
use dyno_wire::h2::settings::ClientSettings;
use dyno_wire::h2::{Code, Error as E, hpack, limits};
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
fn breaks(name: &'static str, steps: impl Into<Vec<Step>>, why: E, code: Code) -> Case {
    case(name, steps, [Error(why, code)])
}

/// One request has been asked, and its answer is malformed.
fn malformed(name: &'static str, steps: impl Into<Vec<Step>>, why: M) -> Case {
    case(name, steps, [Malformed(1, why, Code::ProtocolError)])
}

impl Case {
    fn bare(self) -> Case {
        Case { start: Start::Bare, ..self }
    }

    fn asked(self, requests: u32) -> Case {
        Case { start: Start::Requests(requests), ..self }
    }

    fn upgraded(self, kind: RequestKind) -> Case {
        Case { start: Start::Upgraded(kind), ..self }
    }

    fn own(self, own: ClientSettings) -> Case {
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

    /// What the server says in a row, as one.
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
                    failures += &format!("{} (pieces of {cut}):\n  {seen:?}\n  {:?}\n", case.name, case.seen);
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

const PROTOCOL: Code = Code::ProtocolError;
const SIZE: Code = Code::FrameSizeError;
const FLOW: Code = Code::FlowControlError;

#[test]
fn connections_begin() {
    run([
        case("§3.4 settings come first, and are acknowledged", [settings(&[])], [sent_ack(), Settings])
            .bare(),
        case(
            "§3.4 nothing is asked before",
            [Step::Room, settings(&[]), Step::Room],
            [Room(0), sent_ack(), Settings, Room(usize::MAX)],
        )
        .bare(),
        breaks("§3.4 PING first", [ping(&[0; 8], 0)], E::NoPreface, PROTOCOL).bare(),
        breaks("§3.4 GOAWAY first", [go_away(0, 1)], E::NoPreface, PROTOCOL).bare(),
        breaks("§3.4 an acknowledgement first", [ack()], E::NoPreface, PROTOCOL).bare(),
        breaks("§3.4 an answer first", [head(1, 200, END_STREAM)], E::NoPreface, PROTOCOL).bare(),
        breaks("§3.4 DATA first", [data(1, "x", 0)], E::NoPreface, PROTOCOL).bare(),
        breaks("§3.4 an unknown frame first", [raw(raw_frame(99, 0, 0, b"x"))], E::NoPreface, PROTOCOL)
            .bare(),
        breaks("§3.4 another protocol", [raw("SSH-2.0-OpenSSH_9.2p1\r\n")], E::NoPreface, PROTOCOL).bare(),
        breaks("§3.4 HTTP/1.1", [raw("HTTP/1.1 400 Bad Request\r\n\r\n")], E::SpokeHttp1, PROTOCOL).bare(),
        breaks("§3.4 HTTP/1.0", [raw("HTTP/1.0 505 x\r\n\r\n")], E::SpokeHttp1, PROTOCOL).bare(),
        breaks(
            "§3.4 settings on a stream first",
            [frame(Kind::Settings, 0, 1, &[])],
            E::WrongStream,
            PROTOCOL,
        )
        .bare(),
        case(
            "RFC 7540 §3.2 stream 1 of an upgrade",
            [settings(&[]), head(1, 200, 0), data(1, "ok", END_STREAM), get(), head(3, 204, END_STREAM)],
            [sent_ack(), Settings, Head(1, 200), body(1, "ok"), End(1), sent_get(3), Head(3, 204), End(3)],
        )
        .upgraded(RequestKind::Other),
        case(
            "RFC 7540 §3.2 the upgrade was asked with HEAD",
            [settings(&[]), head_with(1, 200, &[("content-length", "5")], END_STREAM)],
            [sent_ack(), Settings, Head(1, 200), End(1)],
        )
        .upgraded(RequestKind::Head),
        breaks(
            "RFC 7540 §3.2 an upgrade's settings come first, too",
            [head(1, 200, END_STREAM)],
            E::NoPreface,
            PROTOCOL,
        )
        .upgraded(RequestKind::Other),
        case(
            "RFC 7540 §3.2 no window for DATA on stream 1, whose request is whole",
            [settings(&[(INITIAL_WINDOW_SIZE, 0)]), window(1, STREAM), head(1, 200, END_STREAM)],
            [sent_ack(), Settings, Window, Head(1, 200), End(1)],
        )
        .upgraded(RequestKind::Other),
    ]);
}

#[test]
fn our_greeting() {
    let greeting = |own| Talk::new(own).seen;
    let settings = |list: &[(u16, u32)]| Seen::Sent(Sent::Settings(list.to_vec()));
    let own = ClientSettings::default();
    assert_eq!(greeting(own), [settings(&[(ENABLE_PUSH, 0), (INITIAL_WINDOW_SIZE, 65_535)])]);
    assert_eq!(
        greeting(ClientSettings { header_table_size: 0, ..LARGE }),
        [
            settings(&[(ENABLE_PUSH, 0), (INITIAL_WINDOW_SIZE, (1 << 30) - 1), (HEADER_TABLE_SIZE, 0)]),
            sent_window(0, (1 << 30) - 1 - 65_535),
        ]
    );
    let most = ClientSettings { connection_window: STREAM, stream_window: STREAM, ..own };
    assert_eq!(greeting(most)[1], sent_window(0, STREAM - 65_535), "§6.9.1: up to 2³¹ − 1");
    // A window below the one that a connection begins with cannot be had at once (§6.9.2).
    assert_eq!(greeting(ClientSettings { connection_window: 1023, ..own }).len(), 1);
}

#[test]
fn settings_of_the_server() {
    let setting = |id, value| [settings(&[(id, value)])];
    run([
        case("§6.5.2 unknown settings are ignored", setting(0xABCD, 7), [sent_ack(), Settings]),
        case(
            "§6.5.2 a header list's size binds nobody",
            setting(MAX_HEADER_LIST_SIZE, 1),
            [sent_ack(), Settings],
        ),
        case(
            "§6.5 the last of equal settings holds",
            [settings(&[(MAX_CONCURRENT_STREAMS, 0), (MAX_CONCURRENT_STREAMS, 5)]), Step::Room],
            [sent_ack(), Settings, Room(4)],
        ),
        case("§4.2 as many as fit", [settings(&[(7, 7); 2730])], [sent_ack(), Settings]),
        case(
            "§6.5.3 each is acknowledged",
            [settings(&[]), settings(&[])],
            [sent_ack(), Settings, sent_ack(), Settings],
        ),
        breaks(
            "§6.5 a payload with an acknowledgement",
            [frame(Kind::Settings, ACK, 0, &[0; 6])],
            E::FrameLength,
            SIZE,
        ),
        breaks("§6.5 no multiple of six", [frame(Kind::Settings, 0, 0, &[0; 5])], E::FrameLength, SIZE),
        breaks("§6.5 on a stream", [frame(Kind::Settings, 0, 1, &[])], E::WrongStream, PROTOCOL),
        breaks(
            "§6.5 an acknowledgement on a stream",
            [frame(Kind::Settings, ACK, 1, &[])],
            E::WrongStream,
            PROTOCOL,
        ),
        breaks("§6.5 one acknowledgement too many", [ack()], E::SettingsAck, PROTOCOL),
        case("§6.5.2 push is not what a server enables: 0", setting(ENABLE_PUSH, 0), [sent_ack(), Settings]),
        breaks(
            "§6.5.2 push is not what a server enables: 1",
            setting(ENABLE_PUSH, 1),
            E::SettingValue,
            PROTOCOL,
        ),
        breaks("§6.5.2 push is 0 or 1", setting(ENABLE_PUSH, 2), E::SettingValue, PROTOCOL),
        case("§6.5.2 the largest window", setting(INITIAL_WINDOW_SIZE, STREAM), [sent_ack(), Settings]),
        breaks("§6.5.2 a larger window", setting(INITIAL_WINDOW_SIZE, STREAM + 1), E::WindowOverflow, FLOW),
        breaks(
            "§6.5.2 the smallest frame is 2^14",
            setting(MAX_FRAME_SIZE, 16_383),
            E::SettingValue,
            PROTOCOL,
        ),
        case("§6.5.2 frames of 2^14", setting(MAX_FRAME_SIZE, 16_384), [sent_ack(), Settings]),
        case("§6.5.2 frames of 2^24 - 1", setting(MAX_FRAME_SIZE, (1 << 24) - 1), [sent_ack(), Settings]),
        breaks(
            "§6.5.2 the largest frame is 2^24 - 1",
            setting(MAX_FRAME_SIZE, 1 << 24),
            E::SettingValue,
            PROTOCOL,
        ),
        case(
            "§6.5.2 no stream is allowed, then two",
            [
                settings(&[(MAX_CONCURRENT_STREAMS, 0)]),
                Step::Room,
                settings(&[(MAX_CONCURRENT_STREAMS, 2)]),
                Step::Room,
                get(),
                Step::Room,
                head(1, 204, END_STREAM),
                Step::Room,
            ],
            [
                sent_ack(),
                Settings,
                Room(0),
                sent_ack(),
                Settings,
                Room(2),
                sent_get(1),
                Room(1),
                Head(1, 204),
                End(1),
                Room(2),
            ],
        )
        .asked(0),
        case(
            "§5.1.2 fewer are allowed than are open",
            [
                settings(&[(MAX_CONCURRENT_STREAMS, 1)]),
                Step::Room,
                head(3, 204, END_STREAM),
                Step::Room,
                head(1, 204, END_STREAM),
                Step::Room,
            ],
            [sent_ack(), Settings, Room(0), Head(3, 204), End(3), Room(0), Head(1, 204), End(1), Room(1)],
        )
        .asked(2),
    ]);
}

#[test]
fn frames_and_their_lengths() {
    run([
        breaks("§4.2 a frame is too long", [only_header(Kind::Headers, 1, 16_385)], E::FrameTooLong, SIZE),
        breaks("§4.2 DATA is too long", [only_header(Kind::Data, 1, 16_385)], E::FrameTooLong, SIZE),
        breaks(
            "§4.2 an unknown frame is too long",
            [only_header(Kind::Unknown, 0, 16_385)],
            E::FrameTooLong,
            SIZE,
        ),
        breaks("§4.2 SETTINGS are too long", [only_header(Kind::Settings, 0, 16_386)], E::FrameTooLong, SIZE)
            .bare(),
        case(
            "§4.2 a frame is as long as it may be",
            [head(1, 200, 0), data(1, [b'x'; 16_384], 0), data(1, "", END_STREAM)],
            [Head(1, 200), body(1, [b'x'; 16_384]), End(1)],
        ),
        case(
            "§4.1 unknown frames are ignored, wherever they are",
            [
                raw(raw_frame(10, 0xFF, 0, b"altsvc")),
                raw(raw_frame(200, 0, 1, b"")),
                raw(raw_frame(255, 0, 98, &[1; 16_384])),
                head(1, 204, END_STREAM),
            ],
            [Head(1, 204), End(1)],
        ),
        case(
            "§4.1 the reserved bit is ignored",
            [head(1 | 1 << 31, 204, END_STREAM)],
            [Head(1, 204), End(1)],
        ),
        case(
            "§4.1 flags without a meaning are ignored",
            [
                headers(1, &block(&[(":status", "200")]), END_HEADERS | 0xD2),
                data(1, "x", 0xF6),
                data(1, "y", END_STREAM | 0xF6),
                ping(&[1; 8], 0xFE),
            ],
            [Head(1, 200), body(1, "xy"), End(1), Seen::Sent(Sent::Pong([1; 8]))],
        ),
        case("§6.7 PING is answered alike", [ping(b"12345678", 0)], [Seen::Sent(Sent::Pong(*b"12345678"))]),
        case("§6.7 an answer to PING is not answered", [ping(b"12345678", ACK)], []),
        breaks("§6.7 a short PING", [ping(&[0; 7], 0)], E::FrameLength, SIZE),
        breaks("§6.7 a long PING", [ping(&[0; 9], 0)], E::FrameLength, SIZE),
        breaks("§6.7 a short answer to PING", [ping(&[], ACK)], E::FrameLength, SIZE),
        breaks("§6.7 PING on a stream", [frame(Kind::Ping, 0, 1, &[0; 8])], E::WrongStream, PROTOCOL),
        case(
            "§6.3 PRIORITY is ignored, on any stream",
            [
                frame(Kind::Priority, 0, 1, &[0; 5]),
                frame(Kind::Priority, 0, 99, &[0; 5]),
                frame(Kind::Priority, 0, 2, &[0; 5]),
            ],
            [],
        ),
        // A stream error may be treated as one of the connection (§5.4.2).
        breaks("§6.3 PRIORITY has five bytes", [frame(Kind::Priority, 0, 1, &[0; 4])], E::FrameLength, SIZE),
        breaks("§6.3 PRIORITY on stream 0", [frame(Kind::Priority, 0, 0, &[0; 5])], E::WrongStream, PROTOCOL),
        breaks("§6.1 DATA on stream 0", [data(0, "x", 0)], E::WrongStream, PROTOCOL),
        breaks("§6.2 HEADERS on stream 0", [head(0, 200, 0)], E::WrongStream, PROTOCOL),
        breaks("§6.4 RST_STREAM on stream 0", [reset(0, 0)], E::WrongStream, PROTOCOL),
        breaks("§6.4 a short RST_STREAM", [frame(Kind::RstStream, 0, 1, &[0; 3])], E::FrameLength, SIZE),
        breaks("§6.4 a long RST_STREAM", [frame(Kind::RstStream, 0, 1, &[0; 5])], E::FrameLength, SIZE),
        breaks("§6.8 GOAWAY on a stream", [frame(Kind::GoAway, 0, 1, &[0; 8])], E::WrongStream, PROTOCOL),
        breaks("§6.8 a short GOAWAY", [frame(Kind::GoAway, 0, 0, &[0; 7])], E::FrameLength, SIZE),
        breaks(
            "§6.9 a short WINDOW_UPDATE",
            [frame(Kind::WindowUpdate, 0, 1, &[0; 3])],
            E::FrameLength,
            SIZE,
        ),
        breaks("§6.9 a long WINDOW_UPDATE", [frame(Kind::WindowUpdate, 0, 0, &[0; 5])], E::FrameLength, SIZE),
        breaks(
            "§8.4 PUSH_PROMISE",
            [frame(Kind::PushPromise, END_HEADERS, 1, &[0, 0, 0, 2])],
            E::Push,
            PROTOCOL,
        ),
        breaks(
            "§6.6 PUSH_PROMISE on stream 0",
            [frame(Kind::PushPromise, END_HEADERS, 0, &[0, 0, 0, 2])],
            E::WrongStream,
            PROTOCOL,
        ),
        breaks(
            "§8.4 PUSH_PROMISE on an idle stream",
            [frame(Kind::PushPromise, END_HEADERS, 7, &[0, 0, 0, 2])],
            E::Push,
            PROTOCOL,
        ),
    ]);
}

#[test]
fn padding() {
    let ok = block(&[(":status", "200")]);
    let priority = [&[0x80, 0, 0, 0, 16][..], &ok].concat();
    run([
        case(
            "§6.1 padding is not content",
            [
                head(1, 200, 0),
                data(1, padded("abc", 5), PADDED),
                data(1, padded("", 255), PADDED),
                data(1, padded("d", 0), PADDED | END_STREAM),
            ],
            [Head(1, 200), body(1, "abcd"), End(1)],
        ),
        case(
            "§6.1 padding ends the stream",
            [head(1, 200, 0), data(1, padded("", 9), PADDED | END_STREAM)],
            [Head(1, 200), End(1)],
        ),
        case(
            "§6.2 padded HEADERS",
            [headers(1, &padded(&ok, 7), PADDED | END_HEADERS | END_STREAM)],
            [Head(1, 200), End(1)],
        ),
        case(
            "§6.2 HEADERS with a priority",
            [headers(1, &priority, PRIORITY | END_HEADERS | END_STREAM)],
            [Head(1, 200), End(1)],
        ),
        case(
            "§6.2 HEADERS with padding and a priority",
            [headers(1, &padded(&priority, 3), PADDED | PRIORITY | END_HEADERS | END_STREAM)],
            [Head(1, 200), End(1)],
        ),
        case(
            "§6.10 a padded beginning, continued",
            [headers(1, &padded([], 30), PADDED | END_STREAM), continuation(1, &ok, END_HEADERS)],
            [Head(1, 200), End(1)],
        ),
        case(
            "§6.1 DATA of nothing but its padding's length is too much",
            [head(1, 200, 0), data(1, [1], PADDED)],
            [Head(1, 200), Error(E::Padding, PROTOCOL)],
        ),
        case(
            "§6.1 padding that leaves nothing",
            [head(1, 200, 0), data(1, [3, 0, 0, 0], PADDED | END_STREAM)],
            [Head(1, 200), End(1)],
        ),
        case(
            "§6.1 padding longer than the rest",
            [head(1, 200, 0), data(1, [4, b'a', 0, 0], PADDED)],
            [Head(1, 200), Error(E::Padding, PROTOCOL)],
        ),
        case(
            "§4.2 DATA too short for its padding's length",
            [head(1, 200, 0), data(1, [], PADDED)],
            [Head(1, 200), Error(E::FrameLength, SIZE)],
        ),
        breaks(
            "§6.2 padding longer than a block",
            [headers(1, &[2, 0x88], PADDED | END_HEADERS)],
            E::Padding,
            PROTOCOL,
        ),
        breaks(
            "§4.2 HEADERS too short for its padding's length",
            [headers(1, &[], PADDED | END_HEADERS)],
            E::FrameLength,
            SIZE,
        ),
        breaks(
            "§4.2 HEADERS too short for its priority",
            [headers(1, &[0; 4], PRIORITY | END_HEADERS)],
            E::FrameLength,
            SIZE,
        ),
        breaks(
            "§4.2 HEADERS too short for padding and priority",
            [headers(1, &[0; 5], PADDED | PRIORITY | END_HEADERS)],
            E::FrameLength,
            SIZE,
        ),
        breaks(
            "§6.2 padding reaches into the priority",
            [headers(1, &[3, 0, 0, 0, 0, 0, 0, 0], PADDED | PRIORITY | END_HEADERS)],
            E::Padding,
            PROTOCOL,
        ),
    ]);
}

#[test]
fn header_blocks() {
    let ok = block(&[(":status", "200"), ("server", "x")]);
    let (a, rest) = ok.split_at(1);
    let (b, c) = rest.split_at(1);
    let endless = std::iter::once(headers(1, a, 0)).chain((0..65).map(|_| continuation(1, &[], 0)));
    let sixty_four = std::iter::once(headers(1, &ok, END_STREAM))
        .chain((1..64).map(|_| continuation(1, &[], 0)))
        .chain([continuation(1, &[], END_HEADERS)]);
    let large =
        std::iter::once(headers(1, &[0; 16_384], 0)).chain((0..8).map(|_| continuation(1, &[0; 16_384], 0)));
    // One field of 16,380 bytes after the other, up to the limit.
    let long = format!("{:0>16350}", 1);
    let piece = block(&[("x", &long)]);
    let full = std::iter::once(headers(1, &ok, END_STREAM))
        .chain((1..limits::BLOCK_BYTES / 16_384).map(|_| continuation(1, &piece, 0)))
        .chain([continuation(1, &[], END_HEADERS)]);
    run([
        case(
            "§6.10 a block in three frames",
            [headers(1, a, END_STREAM), continuation(1, b, 0), continuation(1, c, END_HEADERS)],
            [Head(1, 200), End(1)],
        ),
        case(
            "§6.10 empty pieces",
            [headers(1, &[], END_STREAM), continuation(1, &ok, 0), continuation(1, &[], END_HEADERS)],
            [Head(1, 200), End(1)],
        ),
        breaks(
            "§6.10 another frame within a block",
            [headers(1, a, 0), ping(&[0; 8], 0)],
            E::InterruptedBlock,
            PROTOCOL,
        ),
        breaks(
            "§6.10 DATA within a block",
            [headers(1, a, 0), data(1, "x", 0)],
            E::InterruptedBlock,
            PROTOCOL,
        ),
        breaks(
            "§6.10 HEADERS within a block",
            [headers(1, a, 0), head(1, 200, 0)],
            E::InterruptedBlock,
            PROTOCOL,
        ),
        breaks(
            "§5.5 an unknown frame within a block",
            [headers(1, a, 0), raw(raw_frame(99, 0, 1, b""))],
            E::InterruptedBlock,
            PROTOCOL,
        ),
        breaks(
            "§6.10 a block continued on another stream",
            [headers(1, a, 0), continuation(3, rest, END_HEADERS)],
            E::InterruptedBlock,
            PROTOCOL,
        )
        .asked(2),
        breaks(
            "§6.10 CONTINUATION of nothing",
            [continuation(1, rest, END_HEADERS)],
            E::Continuation,
            PROTOCOL,
        ),
        case(
            "§6.10 CONTINUATION of a block that has ended",
            [head(1, 200, 0), continuation(1, rest, END_HEADERS)],
            [Head(1, 200), Error(E::Continuation, PROTOCOL)],
        ),
        breaks(
            "§6.10 CONTINUATION on stream 0",
            [headers(1, a, 0), continuation(0, rest, END_HEADERS)],
            E::WrongStream,
            PROTOCOL,
        ),
        breaks(
            "§10.5.1 CONTINUATION without end",
            endless.collect::<Vec<_>>(),
            E::TooManyContinuations,
            Code::EnhanceYourCalm,
        ),
        case(
            "§10.5.1 as many CONTINUATIONs as there may be",
            sixty_four.collect::<Vec<_>>(),
            [Head(1, 200), End(1)],
        ),
        breaks(
            "§10.5.1 a block is too large",
            large.collect::<Vec<_>>(),
            E::BlockTooLarge,
            Code::EnhanceYourCalm,
        ),
        case("§10.5.1 a block is almost too large", full.collect::<Vec<_>>(), [Head(1, 200), End(1)]),
        breaks(
            "§4.3 a block that cannot be decoded",
            [headers(1, &[0x80], END_HEADERS)],
            E::Hpack(hpack::Error::IndexZero),
            Code::CompressionError,
        ),
        breaks(
            "§4.3 a block that ends early",
            [headers(1, &[0x00], END_HEADERS)],
            E::Hpack(hpack::Error::Truncated),
            Code::CompressionError,
        ),
        breaks(
            "RFC 7541 §2.3.3 an index beyond the tables",
            [headers(1, &[0x80 | 62], END_HEADERS)],
            E::Hpack(hpack::Error::IndexBeyondTables),
            Code::CompressionError,
        ),
        malformed(
            "§8.1 an empty block has no status",
            [headers(1, &[], END_HEADERS | END_STREAM)],
            M::Status,
        ),
        // The table is the connection's, so blocks of streams that are gone count.
        case(
            "§4.3 a block of a reset stream fills the table",
            [
                Step::Cancels(1),
                headers(
                    1,
                    &block_with(&[(":status", "202"), ("a", "b")], Indexing::Incremental),
                    END_HEADERS,
                ),
                headers(3, &[0x80 | 63, 0x80 | 62], END_HEADERS | END_STREAM),
            ],
            [Seen::Sent(Sent::Reset(1, Code::Cancel)), Head(3, 202), End(3)],
        )
        .asked(2),
        case(
            "§4.3 a malformed head fills the table",
            [
                headers(
                    1,
                    &block_with(&[("a", "b"), (":status", "202")], Indexing::Incremental),
                    END_HEADERS,
                ),
                headers(3, &[0x80 | 62, 0x80 | 63], END_HEADERS | END_STREAM),
            ],
            [Malformed(1, M::PseudoField, PROTOCOL), Head(3, 202), End(3)],
        )
        .asked(2),
        case(
            "§4.3 trailers fill the table",
            [
                head(1, 200, 0),
                headers(1, &block_with(&[("a", "b")], Indexing::Incremental), END_HEADERS | END_STREAM),
                headers(3, &[0x88, 0x80 | 62], END_HEADERS | END_STREAM),
            ],
            [Head(1, 200), Trailers(1), Head(3, 200), End(3)],
        )
        .asked(2),
        // What is remembered of a block holds for as long as the table is as it was.
        case(
            "§4.3 the same block says something else once the table has changed",
            [
                headers(
                    1,
                    &block_with(&[(":status", "202")], Indexing::Incremental),
                    END_HEADERS | END_STREAM,
                ),
                headers(3, &[0x80 | 62], END_HEADERS | END_STREAM),
                headers(
                    5,
                    &block_with(&[(":status", "203")], Indexing::Incremental),
                    END_HEADERS | END_STREAM,
                ),
                headers(7, &[0x80 | 62], END_HEADERS | END_STREAM),
                headers(9, &[0x80 | 63], END_HEADERS | END_STREAM),
            ],
            [
                Head(1, 202),
                End(1),
                Head(3, 202),
                End(3),
                Head(5, 203),
                End(5),
                Head(7, 203),
                End(7),
                Head(9, 202),
                End(9),
            ],
        )
        .asked(5),
        case(
            "§8.1 the same block is a head and then no trailers",
            [head(1, 200, 0), head(1, 200, END_STREAM)],
            [Head(1, 200), Malformed(1, M::Trailers, PROTOCOL)],
        ),
    ]);
}

/// What the server may do with the table that we offer.
#[test]
fn the_servers_table() {
    let none = ClientSettings { header_table_size: 0, ..LARGE };
    let small = ClientSettings { header_table_size: 100, ..LARGE };
    let large = ClientSettings { header_table_size: 65_536, ..LARGE };
    let sized = |size, rest: &[u8]| {
        let mut out = Vec::new();
        put_size_update(size, &mut out);
        [&out, rest].concat()
    };
    let compression = |why| Error(E::Hpack(why), Code::CompressionError);
    let greet = |steps: &[Step]| [&[settings(&[]), get(), get()], steps].concat();
    let greeted = |seen: &[Seen]| [&[sent_ack(), Settings, sent_get(1), sent_get(3)], seen].concat();
    let answer = |id, payload: &[u8]| headers(id, payload, END_HEADERS | END_STREAM);
    run([
        case(
            "RFC 7541 §4.2 a smaller table is acknowledged with a size update",
            greet(&[ack(), answer(1, &sized(0, &[0x88])), answer(3, &[0x88])]),
            greeted(&[Head(1, 200), End(1), Head(3, 200), End(3)]),
        )
        .bare()
        .own(none),
        case(
            "RFC 7541 §4.2 a smaller table is not told of",
            greet(&[ack(), answer(1, &[0x88])]),
            greeted(&[compression(hpack::Error::SizeUpdateMissing)]),
        )
        .bare()
        .own(none),
        case(
            "RFC 7541 §4.2 a table is still larger than allowed",
            greet(&[ack(), answer(1, &sized(101, &[0x88]))]),
            greeted(&[compression(hpack::Error::SizeAboveLimit)]),
        )
        .bare()
        .own(small),
        case(
            "RFC 7541 §4.2 the usual table until the acknowledgement",
            greet(&[
                answer(1, &block_with(&[(":status", "299"), ("a", "b")], Indexing::Incremental)),
                answer(3, &[0x80 | 63]),
            ]),
            greeted(&[Head(1, 299), End(1), Head(3, 299), End(3)]),
        )
        .bare()
        .own(none),
        case(
            "RFC 7541 §4.3 what does not fit any more is evicted",
            greet(&[
                answer(1, &block_with(&[(":status", "299"), ("a", &"b".repeat(60))], Indexing::Incremental)),
                ack(),
                answer(3, &sized(100, &[0x80 | 63])),
            ]),
            greeted(&[Head(1, 299), End(1), compression(hpack::Error::IndexBeyondTables)]),
        )
        .bare()
        .own(small),
        case(
            "RFC 7541 §4.2 a larger table, used",
            greet(&[
                ack(),
                answer(
                    1,
                    &sized(
                        65_536,
                        &block_with(&[(":status", "299"), ("a", &"b".repeat(9000))], Indexing::Incremental),
                    ),
                ),
                answer(3, &[0x80 | 63, 0x80 | 62]),
            ]),
            greeted(&[Head(1, 299), End(1), Head(3, 299), End(3)]),
        )
        .bare()
        .own(large),
        case(
            "RFC 7541 §4.2 a larger table, not used",
            greet(&[ack(), answer(1, &[0x88])]),
            greeted(&[Head(1, 200), End(1)]),
        )
        .bare()
        .own(large),
        case(
            "RFC 7541 §6.3 a size update after a field",
            greet(&[answer(1, &[0x88, 0x20])]),
            greeted(&[compression(hpack::Error::SizeUpdateNotFirst)]),
        )
        .bare(),
    ]);
}

/// What our encoder does with the table that the server offers. The witness reads it with that table.
#[test]
fn our_table() {
    let table = |size| settings(&[(HEADER_TABLE_SIZE, size)]);
    let sizes = |sizes: &[u32]| Seen::Sent(Sent::Sizes(sizes.to_vec()));
    let again = || [sent_ack(), Settings];
    run([
        case(
            "RFC 7541 §4.2 no table from the beginning",
            [table(0), get(), get()],
            [&again()[..], &[sizes(&[0]), sent_get(1), sent_get(3)]].concat(),
        )
        .bare(),
        case(
            "RFC 7541 §4.2 a table too small for what requests share",
            [table(60), get(), get()],
            [&again()[..], &[sizes(&[60]), sent_get(1), sent_get(3)]].concat(),
        )
        .bare(),
        case(
            "RFC 7541 §4.2 a table just large enough",
            [table(200), get(), get()],
            [&again()[..], &[sizes(&[200]), sent_get(1), sent_get(3)]].concat(),
        )
        .bare(),
        case(
            "RFC 7541 §4.2 a larger table is not needed",
            [table(1 << 20), get(), get()],
            [&again()[..], &[sent_get(1), sent_get(3)]].concat(),
        )
        .bare(),
        case(
            "RFC 7541 §4.2 a table that goes and comes back",
            [get(), table(0), get(), table(4096), get(), get()],
            [
                &[sent_get(1)],
                &again()[..],
                &[sizes(&[0]), sent_get(3)],
                &again(),
                &[sizes(&[4096]), sent_get(5), sent_get(7)],
            ]
            .concat(),
        )
        .asked(0),
        case(
            "RFC 7541 §4.2 a table that goes and comes back between two requests",
            [get(), table(0), table(4096), get(), get()],
            [&[sent_get(1)], &again()[..], &again(), &[sizes(&[0, 4096]), sent_get(3), sent_get(5)]].concat(),
        )
        .asked(0),
        case(
            "RFC 7541 §4.2 the smallest and the last of many",
            [get(), table(3000), table(100), table(7000), table(900), get()],
            [&[sent_get(1)], &again()[..], &again(), &again(), &again(), &[sizes(&[100, 900]), sent_get(3)]]
                .concat(),
        )
        .asked(0),
        case(
            "RFC 7541 §4.2 a table that goes and comes back within one frame",
            [get(), settings(&[(HEADER_TABLE_SIZE, 0), (HEADER_TABLE_SIZE, 4096)]), get(), get()],
            [&[sent_get(1)], &again()[..], &[sizes(&[0, 4096]), sent_get(3), sent_get(5)]].concat(),
        )
        .asked(0),
        case(
            "RFC 7541 §4.2 a smaller table that keeps what is in it",
            [get(), table(300), get(), table(4096), get()],
            [
                &[sent_get(1)],
                &again()[..],
                &[sizes(&[300]), sent_get(3)],
                &again(),
                &[sizes(&[4096]), sent_get(5)],
            ]
            .concat(),
        )
        .asked(0),
    ]);
}

#[test]
fn our_frames() {
    let long = |field| Step::Asks(Request { field, ..Request::get() });
    run([
        case("§6.10 a long head is continued", [long(40_000)], [Seen::Sent(Sent::Headers(1, 3, true))])
            .asked(0),
        case(
            "§6.10 a long head before a body",
            [Step::Asks(Request { field: 20_000, ..Request::post(3) })],
            [Seen::Sent(Sent::Headers(1, 2, false)), sent_end(1, 3)],
        )
        .asked(0),
        case(
            "§4.2 longer frames are allowed",
            [
                settings(&[(MAX_FRAME_SIZE, 50_000), (INITIAL_WINDOW_SIZE, 100_000)]),
                window(0, 100_000),
                long(40_000),
                post(60_000),
                settings(&[(MAX_FRAME_SIZE, 16_384)]),
                long(40_000),
                post(17_000),
            ],
            [
                sent_ack(),
                Settings,
                Window,
                sent_get(1),
                sent_post(3),
                sent_data(3, 50_000),
                sent_end(3, 10_000),
                sent_ack(),
                Settings,
                Seen::Sent(Sent::Headers(5, 3, true)),
                sent_post(7),
                sent_data(7, 16_384),
                sent_end(7, 616),
            ],
        )
        .asked(0),
        case(
            "§5.1.1 streams are odd and rise",
            [get(), head(1, 204, END_STREAM), get(), Step::Cancels(3), get()],
            [
                sent_get(1),
                Head(1, 204),
                End(1),
                sent_get(3),
                Seen::Sent(Sent::Reset(3, Code::Cancel)),
                sent_get(5),
            ],
        )
        .asked(0),
    ]);
}

/// How much we send.
#[test]
fn windows_of_the_server() {
    let posted = |id| [sent_post(id), sent_data(id, 16_384), sent_data(id, 16_384), sent_data(id, 16_384)];
    run([
        case(
            "§6.9.2 both windows begin with 65,535",
            [post(70_000), window(0, 9000), window(1, 4465)],
            [&posted(1)[..], &[sent_data(1, 16_383), Window, Window, sent_end(1, 4465), Whole(1)]].concat(),
        )
        .asked(0),
        case(
            "§6.9 a body as long as the window",
            [post(65_535)],
            [&posted(1)[..], &[sent_end(1, 16_383)]].concat(),
        )
        .asked(0),
        case(
            "§6.9.1 the connection's window is for all",
            [post(65_535), post(2), window(0, 1), window(0, 9)],
            [
                &posted(1)[..],
                &[
                    sent_end(1, 16_383),
                    sent_post(3),
                    Window,
                    sent_data(3, 1),
                    Window,
                    sent_end(3, 1),
                    Whole(3),
                ],
            ]
            .concat(),
        )
        .asked(0),
        case(
            "§6.9 an empty body needs no window",
            [post(65_535), get()],
            [&posted(1)[..], &[sent_end(1, 16_383), sent_get(3)]].concat(),
        )
        .asked(0),
        case(
            "§6.9.2 windows of nothing",
            [settings(&[(INITIAL_WINDOW_SIZE, 0)]), post(3), window(1, 2), window(1, 7)],
            [sent_ack(), Settings, sent_post(1), Window, sent_data(1, 2), Window, sent_end(1, 1), Whole(1)],
        )
        .asked(0),
        case(
            "§6.9.2 a raised initial window is for open streams, too",
            [
                settings(&[(INITIAL_WINDOW_SIZE, 1)]),
                post(5),
                post(1),
                settings(&[(INITIAL_WINDOW_SIZE, 3)]),
                settings(&[(INITIAL_WINDOW_SIZE, 65_535)]),
            ],
            [
                sent_ack(),
                Settings,
                sent_post(1),
                sent_data(1, 1),
                sent_post(3),
                sent_end(3, 1),
                sent_ack(),
                Settings,
                sent_data(1, 2),
                sent_ack(),
                Settings,
                sent_end(1, 2),
                Whole(1),
            ],
        )
        .asked(0),
        case(
            "§6.9.2 a lowered initial window makes windows negative",
            [
                settings(&[(INITIAL_WINDOW_SIZE, 10)]),
                post(12),
                settings(&[(INITIAL_WINDOW_SIZE, 5)]),
                window(1, 5),
                window(1, 1),
                settings(&[(INITIAL_WINDOW_SIZE, 6)]),
            ],
            [
                sent_ack(),
                Settings,
                sent_post(1),
                sent_data(1, 10),
                sent_ack(),
                Settings,
                Window,
                Window,
                sent_data(1, 1),
                sent_ack(),
                Settings,
                sent_end(1, 1),
                Whole(1),
            ],
        )
        .asked(0),
        case(
            "§6.9.2 the connection's window is not the settings' business",
            [post(65_535), settings(&[(INITIAL_WINDOW_SIZE, STREAM)]), post(1), window(0, 1)],
            [
                &posted(1)[..],
                &[sent_end(1, 16_383), sent_ack(), Settings, sent_post(3), Window, sent_end(3, 1), Whole(3)],
            ]
            .concat(),
        )
        .asked(0),
        case(
            "§6.9.2 a window overflows by settings",
            [window(1, STREAM - 65_535), settings(&[(INITIAL_WINDOW_SIZE, 65_536)])],
            [Window, Error(E::WindowOverflow, FLOW)],
        ),
        case(
            "§6.9.1 the largest windows there may be",
            [window(1, STREAM - 65_535), window(0, STREAM - 65_535)],
            [Window, Window],
        ),
        breaks(
            "§6.9.1 the connection's window overflows",
            [window(0, STREAM - 65_534)],
            E::WindowOverflow,
            FLOW,
        ),
        case(
            "§6.9.1 a stream's window overflows",
            [window(1, STREAM - 65_534)],
            [Malformed(1, M::Window, FLOW)],
        ),
        breaks(
            "§6.9 the connection's window is raised by nothing",
            [window(0, 0)],
            E::WindowByNothing,
            PROTOCOL,
        ),
        malformed("§6.9 a stream's window is raised by nothing", [window(1, 0)], M::WindowByNothing),
        case("§6.9 the reserved bit is ignored", [window(1, 1 << 31 | 5)], [Window]),
        case(
            "§5.1 WINDOW_UPDATE on a stream that has ended",
            [head(1, 204, END_STREAM), window(1, 5), window(1, 0), window(1, STREAM)],
            [Head(1, 204), End(1)],
        ),
        case(
            "§6.9 bodies go on in turn",
            [
                settings(&[(INITIAL_WINDOW_SIZE, 0)]),
                post(2),
                post(2),
                window(3, 1),
                window(1, 1),
                settings(&[(INITIAL_WINDOW_SIZE, 9)]),
            ],
            [
                sent_ack(),
                Settings,
                sent_post(1),
                sent_post(3),
                Window,
                sent_data(3, 1),
                Window,
                sent_data(1, 1),
                sent_ack(),
                Settings,
                sent_end(1, 1),
                sent_end(3, 1),
                Whole(1),
                Whole(3),
            ],
        )
        .asked(0),
    ]);
}

/// How much we let the server send.
#[test]
fn windows_of_ours() {
    let own = |stream_window, connection_window| ClientSettings { stream_window, connection_window, ..LARGE };
    let small_answers =
        (0..100).flat_map(|i| [head(1 + 2 * i, 200, 0), data(1 + 2 * i, [b'x'; 1000], END_STREAM)]);
    let small_seen =
        (0..100).flat_map(|i| [Head(1 + 2 * i, 200), body(1 + 2 * i, [b'x'; 1000]), End(1 + 2 * i)]);
    run([
        case(
            "§6.9 small answers need no WINDOW_UPDATE",
            small_answers.collect::<Vec<_>>(),
            small_seen.collect::<Vec<_>>(),
        )
        .asked(100),
        case(
            "§6.9 a stream's window is exceeded",
            [head(1, 200, 0), data(1, [0; 11], 0)],
            [Head(1, 200), Malformed(1, M::WindowExceeded, FLOW)],
        )
        .own(own(10, 1 << 20)),
        case(
            "§6.9.1 padding counts, and its length",
            [head(1, 200, 0), data(1, padded("x", 9), PADDED)],
            [Head(1, 200), Malformed(1, M::WindowExceeded, FLOW)],
        )
        .own(own(10, 1 << 20)),
        case(
            "§6.9.1 a window may be used up",
            [head(1, 200, 0), data(1, padded("x", 8), PADDED | END_STREAM)],
            [Head(1, 200), body(1, "x"), End(1)],
        )
        .own(own(10, 1 << 20)),
        case(
            "§6.9 half of a stream's window is given back",
            [
                head(1, 200, 0),
                data(1, "1234", 0),
                data(1, "5", 0),
                data(1, "6789", 0),
                data(1, "012345", END_STREAM),
            ],
            [Head(1, 200), body(1, "1234"), sent_window(1, 5), body(1, "56789012345"), End(1)],
        )
        .own(own(10, 1 << 20)),
        case(
            "§6.9 padding is given back as well",
            [head(1, 200, 0), data(1, padded("", 9), PADDED), data(1, "", END_STREAM)],
            [Head(1, 200), sent_window(1, 10), End(1)],
        )
        .own(own(10, 1 << 20)),
        case(
            "§6.9 a smallest window",
            [head(1, 200, 0), data(1, "1", 0), data(1, "2", 0), data(1, "3", END_STREAM)],
            [Head(1, 200), sent_window(1, 1), body(1, "1"), sent_window(1, 1), body(1, "23"), End(1)],
        )
        .own(own(1, 1 << 20)),
        case(
            "§6.9 a window that is odd",
            [head(1, 200, 0), data(1, "1", 0), data(1, "2", 0), data(1, "3", 0), data(1, "4", END_STREAM)],
            [Head(1, 200), body(1, "1"), sent_window(1, 2), body(1, "234"), End(1)],
        )
        .own(own(3, 1 << 20)),
        case(
            "§6.9.1 DATA of streams that are gone counts for the connection",
            [Step::Cancels(1), data(1, [0; 16_384], 0), data(1, [0; 16_384], 0), data(1, [0; 16_384], 0)],
            [Seen::Sent(Sent::Reset(1, Code::Cancel)), sent_window(0, 32_768)],
        )
        .own(own(1 << 20, 65_535)),
        case(
            "§6.9 the connection's window is exceeded",
            [
                head(1, 200, 0),
                data(1, [0; 16_384], 0),
                data(1, [0; 16_384], 0),
                data(1, [0; 16_384], 0),
                data(1, [0; 16_384], 0),
            ],
            [Head(1, 200), body(1, [0; 3 * 16_384]), Error(E::WindowExceeded, FLOW)],
        )
        .own(own(1 << 20, 1023)),
        case(
            "§6.9 a stream that breaks its window leaves the connection's alone",
            [
                head(1, 200, 0),
                data(1, [0; 16_384], 0),
                data(1, [0; 16_384], END_STREAM),
                head(3, 204, END_STREAM),
            ],
            [
                Head(1, 200),
                Malformed(1, M::WindowExceeded, FLOW),
                sent_window(0, 32_768),
                Head(3, 204),
                End(3),
            ],
        )
        .asked(2)
        .own(own(10, 65_535)),
    ]);
}

#[test]
fn responses() {
    run([
        case("§8.1 a head that is all", [head(1, 200, END_STREAM)], [Head(1, 200), End(1)]),
        case(
            "§8.1 a head and a body",
            [head(1, 200, 0), data(1, "Hello, ", 0), data(1, "World!", END_STREAM)],
            [Head(1, 200), body(1, "Hello, World!"), End(1)],
        ),
        case(
            "§8.1 an empty DATA ends the stream",
            [head(1, 200, 0), data(1, "a", 0), data(1, "", 0), data(1, "", END_STREAM)],
            [Head(1, 200), body(1, "a"), End(1)],
        ),
        case(
            "§8.1 trailers",
            [head(1, 200, 0), data(1, "a", 0), fields(1, &[("grpc-status", "0")], END_STREAM)],
            [Head(1, 200), body(1, "a"), Trailers(1)],
        ),
        case(
            "§8.1 trailers without a body",
            [head(1, 200, 0), fields(1, &[("a", "b")], END_STREAM)],
            [Head(1, 200), Trailers(1)],
        ),
        case(
            "§8.1 trailers of nothing",
            [head(1, 200, 0), fields(1, &[], END_STREAM)],
            [Head(1, 200), Trailers(1)],
        ),
        case(
            "§8.1 streams are interleaved",
            [
                head(3, 200, 0),
                head(1, 201, 0),
                data(3, "3", 0),
                data(1, "1", 0),
                data(3, "3", 0),
                data(1, "", END_STREAM),
                fields(3, &[], END_STREAM),
            ],
            [Head(3, 200), Head(1, 201), body(3, "3"), body(1, "1"), body(3, "3"), End(1), Trailers(3)],
        )
        .asked(2),
        case(
            "§8.1 interim responses",
            [head(1, 100, 0), head_with(1, 103, &[("link", "a")], 0), head(1, 200, END_STREAM)],
            [Interim(1, 100), Interim(1, 103), Head(1, 200), End(1)],
        ),
        malformed("§8.1 an interim response ends its stream", [head(1, 103, END_STREAM)], M::Informational),
        malformed("§8.6 101", [head(1, 101, 0)], M::Informational),
        case(
            "§8.1 an interim response after the final one",
            [head(1, 200, 0), head(1, 100, 0)],
            [Head(1, 200), Malformed(1, M::Trailers, PROTOCOL)],
        ),
        case(
            "§8.1 as many interim responses as there may be",
            interim(32, END_STREAM),
            [vec![Interim(1, 102); 32], vec![Head(1, 200), End(1)]].concat(),
        ),
        case(
            "§8.1 too many interim responses",
            interim(33, END_STREAM).into_iter().take(33).collect::<Vec<_>>(),
            [vec![Interim(1, 102); 32], vec![Malformed(1, M::TooManyInformational, PROTOCOL)]].concat(),
        ),
        malformed("§8.1 DATA before the head", [data(1, "x", 0)], M::DataBeforeHead),
        malformed("§8.1 DATA ends a stream without a head", [data(1, "", END_STREAM)], M::DataBeforeHead),
        case(
            "§8.1 DATA after an interim response",
            [head(1, 103, 0), data(1, "x", 0)],
            [Interim(1, 103), Malformed(1, M::DataBeforeHead, PROTOCOL)],
        ),
        case(
            "§8.1 trailers that do not end the stream",
            [head(1, 200, 0), fields(1, &[("a", "b")], 0)],
            [Head(1, 200), Malformed(1, M::Trailers, PROTOCOL)],
        ),
        case(
            "§8.1 trailers with a pseudo-header field",
            [head(1, 200, 0), head(1, 200, END_STREAM)],
            [Head(1, 200), Malformed(1, M::Trailers, PROTOCOL)],
        ),
        case(
            "§8.2.1 trailers with a wrong field",
            [head(1, 200, 0), fields(1, &[("A", "b")], END_STREAM)],
            [Head(1, 200), Malformed(1, M::FieldName, PROTOCOL)],
        ),
        // A finished response is left alone: the stream is closed on both sides.
        case(
            "§5.1 no RST_STREAM after a finished response",
            [head(1, 200, 0), data(1, "x", END_STREAM), get()],
            [Head(1, 200), body(1, "x"), End(1), sent_get(3)],
        ),
    ]);
}

fn interim(times: usize, flags: u8) -> Vec<Step> {
    (0..times).map(|_| head(1, 102, 0)).chain([head(1, 200, flags)]).collect()
}

#[test]
fn fields_of_responses() {
    let wrong = |name, list: &[(&str, &str)], why| malformed(name, [fields(1, list, END_STREAM)], why);
    run([
        wrong("§8.3.2 no status", &[("a", "b")], M::Status),
        wrong("§8.3.2 two statuses", &[(":status", "200"), (":status", "200")], M::Status),
        wrong("RFC 9110 §15 a status has three digits", &[(":status", "20")], M::Status),
        wrong("RFC 9110 §15 a status is no word", &[(":status", "abc")], M::Status),
        wrong(
            "§8.3 a pseudo-header field of requests",
            &[(":status", "200"), (":path", "/")],
            M::PseudoField,
        ),
        wrong("§8.3 an unknown pseudo-header field", &[(":status", "200"), (":x", "y")], M::PseudoField),
        wrong("§8.3 the status comes late", &[("a", "b"), (":status", "200")], M::PseudoField),
        wrong("§8.2.1 an upper-case name", &[(":status", "200"), ("Server", "x")], M::FieldName),
        wrong("§8.2.1 a name with a space", &[(":status", "200"), ("a b", "x")], M::FieldName),
        wrong("§8.2.1 a name with a colon", &[(":status", "200"), ("a:", "x")], M::FieldName),
        wrong("§8.2.1 a name beyond ASCII", &[(":status", "200"), ("é", "x")], M::FieldName),
        wrong("§8.2.1 an empty name", &[(":status", "200"), ("", "x")], M::FieldName),
        wrong("§8.2.1 a value with a line feed", &[(":status", "200"), ("a", "b\nc")], M::FieldValue),
        wrong("§8.2.1 a value with NUL", &[(":status", "200"), ("a", "\0")], M::FieldValue),
        wrong("§8.2.1 a value that begins with a space", &[(":status", "200"), ("a", " b")], M::FieldValue),
        wrong("§8.2.1 a value that ends with a tab", &[(":status", "200"), ("a", "b\t")], M::FieldValue),
        wrong("§8.2.2 connection", &[(":status", "200"), ("connection", "close")], M::ConnectionField),
        wrong(
            "§8.2.2 transfer-encoding",
            &[(":status", "200"), ("transfer-encoding", "chunked")],
            M::ConnectionField,
        ),
        wrong("§8.2.2 keep-alive", &[(":status", "200"), ("keep-alive", "1")], M::ConnectionField),
        wrong("§8.2.2 upgrade", &[(":status", "200"), ("upgrade", "h2c")], M::ConnectionField),
        wrong(
            "§8.2.2 proxy-connection",
            &[(":status", "200"), ("proxy-connection", "x")],
            M::ConnectionField,
        ),
        wrong("RFC 9110 §8.6 no number", &[(":status", "200"), ("content-length", "x")], M::ContentLength),
        wrong(
            "RFC 9110 §8.6 an empty length",
            &[(":status", "200"), ("content-length", "")],
            M::ContentLength,
        ),
        wrong(
            "RFC 9110 §8.6 beyond 64 bits",
            &[(":status", "200"), ("content-length", "18446744073709551616")],
            M::ContentLength,
        ),
        wrong(
            "RFC 9110 §8.6 two lengths",
            &[(":status", "200"), ("content-length", "0"), ("content-length", "1")],
            M::ContentLength,
        ),
        case(
            "§8.2.1 what may be in a value",
            [head_with(1, 200, &[("a", "\u{e9}\x7f b\tc"), ("b", "")], END_STREAM)],
            [Head(1, 200), End(1)],
        ),
        case("RFC 9110 §15 any class of status", [head(1, 999, END_STREAM)], [Head(1, 999), End(1)]),
    ]);
}

#[test]
fn fields_are_shown_to_those_who_want_them() {
    let mut talk = Talk::new(LARGE);
    talk.step(&settings(&[]), 5);
    for wants_fields in [true, false, true] {
        talk.ask(Request { wants_fields, ..Request::get() });
    }
    let list = [(":status", "200"), ("server", "x"), ("a", ""), ("a", "b")];
    talk.step(&fields(1, &list, END_STREAM), 5);
    assert_eq!(talk.head, talk::fields(&list));
    // The same block is recognised for the second stream, and decoded for the third.
    talk.step(&fields(3, &list, END_STREAM), 5);
    talk.head.clear();
    talk.step(&fields(5, &list, END_STREAM), 5);
    assert_eq!(talk.head, talk::fields(&list));
}

#[test]
fn lengths_of_bodies() {
    let long = |n| head_with(1, 200, &[("content-length", n)], 0);
    let wrong = |name, steps: &[Step]| {
        case(name, [&[long("3")], steps].concat(), [Head(1, 200), Malformed(1, M::BodyLength, PROTOCOL)])
    };
    let head_answer = |name, steps: &[Step], seen: &[Seen]| {
        case(name, [&[head_request()], steps].concat(), [&[sent_get(1)], seen].concat()).asked(0)
    };
    run([
        case(
            "§8.1.1 as long as it says",
            [long("3"), data(1, "a", 0), data(1, padded("bc", 3), PADDED | END_STREAM)],
            [Head(1, 200), body(1, "abc"), End(1)],
        ),
        case(
            "§8.1.1 as long as it says, and trailers",
            [long("3"), data(1, "abc", 0), fields(1, &[], END_STREAM)],
            [Head(1, 200), body(1, "abc"), Trailers(1)],
        ),
        case("§8.1.1 a body of nothing", [long("0"), data(1, "", END_STREAM)], [Head(1, 200), End(1)]),
        malformed(
            "§8.1.1 a head that should have a body",
            [head_with(1, 200, &[("content-length", "3")], END_STREAM)],
            M::BodyLength,
        ),
        wrong("§8.1.1 a body that is too long", &[data(1, "abcd", 0)]),
        wrong("§8.1.1 a body that is too long at its end", &[data(1, "abcd", END_STREAM)]),
        wrong("§8.1.1 a body that is too short", &[data(1, "ab", END_STREAM)]),
        wrong("§8.1.1 a padded body that is too short", &[data(1, padded("ab", 200), PADDED | END_STREAM)]),
        wrong("§8.1.1 an empty body that is too short", &[data(1, "", END_STREAM)]),
        wrong("§8.1.1 trailers too early", &[fields(1, &[], END_STREAM)]),
        case(
            "§8.1.1 a body that becomes too long",
            [long("3"), data(1, "abc", 0), data(1, "d", 0)],
            [Head(1, 200), body(1, "abc"), Malformed(1, M::BodyLength, PROTOCOL)],
        ),
        case(
            "§8.1.1 what is left of a frame that is too long is passed over",
            [long("3"), data(1, "abcdef", 0), head(3, 204, END_STREAM)],
            [Head(1, 200), Malformed(1, M::BodyLength, PROTOCOL), Head(3, 204), End(3)],
        )
        .asked(2),
        head_answer(
            "RFC 9110 §9.3.2 HEAD has no body, whatever its length",
            &[head_with(1, 200, &[("content-length", "3")], END_STREAM)],
            &[Head(1, 200), End(1)],
        ),
        head_answer(
            "RFC 9110 §9.3.2 HEAD, ended by an empty DATA",
            &[head_with(1, 200, &[("content-length", "3")], 0), data(1, "", END_STREAM)],
            &[Head(1, 200), End(1)],
        ),
        head_answer(
            "RFC 9110 §9.3.2 HEAD, ended by trailers",
            &[head_with(1, 200, &[("content-length", "3")], 0), fields(1, &[], END_STREAM)],
            &[Head(1, 200), Trailers(1)],
        ),
        head_answer(
            "RFC 9110 §9.3.2 HEAD with a body",
            &[head(1, 200, 0), data(1, "x", END_STREAM)],
            &[Head(1, 200), Malformed(1, M::BodyLength, PROTOCOL)],
        ),
        case(
            "RFC 9110 §15.4.5 304 has a length and no body",
            [head_with(1, 304, &[("content-length", "3")], END_STREAM)],
            [Head(1, 304), End(1)],
        ),
        case(
            "RFC 9110 §15.4.5 304 with a body",
            [head(1, 304, 0), data(1, "x", END_STREAM)],
            [Head(1, 304), Malformed(1, M::BodyLength, PROTOCOL)],
        ),
        case("RFC 9110 §15.3.5 204", [head(1, 204, 0), data(1, "", END_STREAM)], [Head(1, 204), End(1)]),
        case(
            "RFC 9110 §15.3.5 204 with a body",
            [head(1, 204, 0), data(1, "x", 0)],
            [Head(1, 204), Malformed(1, M::BodyLength, PROTOCOL)],
        ),
    ]);
}

#[test]
fn streams_that_are_idle() {
    let idle = |name, step: Step| breaks(name, [step], E::IdleStream, PROTOCOL);
    run([
        idle("§5.1 HEADERS on an idle stream", head(3, 200, END_STREAM)),
        idle("§5.1 DATA on an idle stream", data(3, "x", 0)),
        idle("§6.4 RST_STREAM on an idle stream", reset(3, 8)),
        idle("§6.9 WINDOW_UPDATE on an idle stream", window(3, 1)),
        idle("§5.1.1 HEADERS on a stream of the server's", head(2, 200, END_STREAM)),
        idle("§5.1.1 DATA on a stream of the server's", data(2, "x", 0)),
        idle("§5.1.1 RST_STREAM on a stream of the server's", reset(2, 8)),
        idle("§5.1.1 WINDOW_UPDATE on a stream of the server's", window(2, 1)),
        idle("§5.1 the highest stream there may be", data(STREAM, "", 0)),
    ]);
}

#[test]
fn streams_that_have_ended() {
    let ended = |name, more: Step| {
        case(
            name,
            [head(1, 200, END_STREAM), more],
            [Head(1, 200), End(1), Error(E::StreamClosed, Code::StreamClosed)],
        )
    };
    let quiet = |name, more: Step| case(name, [head(1, 200, END_STREAM), more], [Head(1, 200), End(1)]);
    let refused = |name, more: Step| {
        case(
            name,
            [reset(1, 7), more],
            [Reset(1, Code::RefusedStream), Error(E::StreamClosed, Code::StreamClosed)],
        )
    };
    run([
        ended("§5.1 HEADERS after the end", head(1, 200, 0)),
        ended("§5.1 DATA after the end", data(1, "x", 0)),
        ended("§5.1 an empty DATA after the end", data(1, "", END_STREAM)),
        quiet("§5.1 RST_STREAM after the end", reset(1, 0)),
        quiet("§5.1 WINDOW_UPDATE after the end", window(1, 1)),
        quiet("§5.1 PRIORITY after the end", frame(Kind::Priority, 0, 1, &[0; 5])),
        case("§6.4 reset before the head", [reset(1, 8)], [Reset(1, Code::Cancel)]),
        case(
            "§6.4 reset between head and body",
            [head(1, 200, 0), reset(1, 2)],
            [Head(1, 200), Reset(1, Code::InternalError)],
        ),
        case(
            "§6.4 reset within the body",
            [head(1, 200, 0), data(1, "x", 0), reset(1, 0)],
            [Head(1, 200), body(1, "x"), Reset(1, Code::NoError)],
        ),
        case("§7 an unknown code", [reset(1, 0xFFFF_FFFF)], [Reset(1, Code::Unknown)]),
        case("§6.4 reset twice", [reset(1, 7), reset(1, 7)], [Reset(1, Code::RefusedStream)]),
        refused("§5.1 HEADERS after RST_STREAM", head(1, 200, 0)),
        refused("§5.1 DATA after RST_STREAM", data(1, "x", 0)),
        case(
            "§6.4 a reset stream leaves the others alone",
            [reset(1, 7), head(3, 204, END_STREAM), Step::Room],
            [Reset(1, Code::RefusedStream), Head(3, 204), End(3), Room(usize::MAX)],
        )
        .asked(2),
        case(
            "§6.4 nothing is sent on a stream that was reset",
            [post(100_000), reset(1, 7), window(0, 100_000), window(1, 100_000)],
            [
                sent_post(1),
                sent_data(1, 16_384),
                sent_data(1, 16_384),
                sent_data(1, 16_384),
                sent_data(1, 16_383),
                Reset(1, Code::RefusedStream),
                Window,
            ],
        )
        .asked(0),
    ]);
}

/// Late frames on streams that we have reset are ignored (§5.1).
#[test]
fn streams_that_we_reset() {
    let cancelled = || Seen::Sent(Sent::Reset(1, Code::Cancel));
    let late = |name, steps: &[Step]| {
        case(
            name,
            [&[Step::Cancels(1)], steps, &[head(3, 204, END_STREAM)]].concat(),
            [cancelled(), Head(3, 204), End(3)],
        )
        .asked(2)
    };
    let closed = |name, steps: &[Step]| {
        case(
            name,
            [&[Step::Cancels(1)], steps].concat(),
            [cancelled(), Error(E::StreamClosed, Code::StreamClosed)],
        )
    };
    run([
        late("§5.1 a late answer", &[head(1, 200, 0), data(1, "x", 0), data(1, "y", END_STREAM)]),
        late(
            "§5.1 a late answer with trailers",
            &[head(1, 200, 0), data(1, "x", 0), fields(1, &[("a", "b")], END_STREAM)],
        ),
        late("§5.1 late DATA, padded", &[data(1, padded("x", 9), PADDED)]),
        late("§5.1 a late interim response", &[head(1, 103, 0), head(1, 200, END_STREAM)]),
        late("§5.1 a late answer that is malformed", &[fields(1, &[("A", "b")], 0)]),
        late("§5.1 a late block in pieces", &[headers(1, &[], 0), continuation(1, &[0x88], END_HEADERS)]),
        late("§5.1 a late reset", &[reset(1, 0)]),
        late("§5.1 late WINDOW_UPDATEs, right and wrong", &[window(1, 5), window(1, 0), window(1, STREAM)]),
        closed("§5.1 frames after the late end", &[head(1, 200, END_STREAM), data(1, "x", 0)]),
        closed("§5.1 frames after the late reset", &[reset(1, 0), head(1, 200, END_STREAM)]),
        case(
            "§4.3 a late block that cannot be decoded",
            [Step::Cancels(1), headers(1, &[0x80], END_HEADERS)],
            [cancelled(), Error(E::Hpack(hpack::Error::IndexZero), Code::CompressionError)],
        ),
        case(
            "§6.1 late DATA with too much padding",
            [Step::Cancels(1), data(1, [1], PADDED)],
            [cancelled(), Error(E::Padding, PROTOCOL)],
        ),
        case(
            "§5.4.2 after a malformed answer the rest is ignored",
            [
                fields(1, &[("a", "b")], 0),
                data(1, "x", 0),
                data(1, "y", END_STREAM),
                head(3, 204, END_STREAM),
            ],
            [Malformed(1, M::Status, PROTOCOL), Head(3, 204), End(3)],
        )
        .asked(2),
        case(
            "§5.4.2 a malformed end, and the server's own reset",
            [fields(1, &[("a", "b")], END_STREAM), reset(1, 1)],
            [Malformed(1, M::Status, PROTOCOL)],
        ),
        case(
            "§8.1 an answer before the request is whole",
            [post(100_000), head(1, 413, END_STREAM), reset(1, 0), window(0, 100_000), window(1, 100_000)],
            [
                sent_post(1),
                sent_data(1, 16_384),
                sent_data(1, 16_384),
                sent_data(1, 16_384),
                sent_data(1, 16_383),
                Head(1, 413),
                End(1),
                Seen::Sent(Sent::Reset(1, Code::NoError)),
                Window,
            ],
        )
        .asked(0),
    ]);
}

/// Those that were reset first are then forgotten, which is a matter of memory and not of the protocol.
#[test]
fn so_many_resets_are_remembered() {
    let mut talk = Talk::new(LARGE);
    talk.step(&settings(&[]), usize::MAX);
    for _ in 0..=limits::REMEMBERED_RESETS {
        let id = talk.ask(Request::get());
        talk.cancel(id);
    }
    talk.seen.clear();
    talk.step(&data(3, "late", 0), usize::MAX);
    assert_eq!(talk.seen, []);
    talk.step(&data(1, "too late", 0), usize::MAX);
    assert_eq!(talk.seen, [Error(E::StreamClosed, Code::StreamClosed)]);
}

/// A stream is given up while a frame of its body arrives.
#[test]
fn a_body_whose_stream_is_given_up() {
    let mut talk = Talk::new(LARGE);
    talk.step(&settings(&[]), usize::MAX);
    talk.ask(Request::get());
    talk.ask(Request::get());
    talk.step(&head(1, 200, 0), usize::MAX);
    talk.seen.clear();
    let frame = raw_frame(0, END_STREAM | PADDED, 1, &padded("abcdef", 4));
    talk.receive(&frame[..12]);
    talk.cancel(1);
    talk.receive(&frame[12..]);
    talk.step(&head(3, 204, END_STREAM), usize::MAX);
    assert_eq!(talk.seen, [body(1, "ab"), Seen::Sent(Sent::Reset(1, Code::Cancel)), Head(3, 204), End(3)]);
}

#[test]
fn connections_that_go_away() {
    use Code::NoError;
    run([
        case(
            "§6.8 streams above the last are not dealt with",
            [go_away(3, 0), Step::Room, head(3, 204, END_STREAM), head(1, 204, END_STREAM)],
            [GoAway(NoError, vec![5, 7]), Room(0), Head(3, 204), End(3), Head(1, 204), End(1)],
        )
        .asked(4),
        case(
            "§6.8 a warning, and then the last stream",
            [go_away(STREAM, 0), Step::Room, go_away(1, 0), head(1, 204, END_STREAM)],
            [GoAway(NoError, vec![]), Room(0), GoAway(NoError, vec![3]), Head(1, 204), End(1)],
        )
        .asked(2),
        case(
            "§6.8 the last stream falls to nothing",
            [go_away(3, 0), go_away(0, 11)],
            [GoAway(NoError, vec![5]), GoAway(Code::EnhanceYourCalm, vec![1, 3])],
        )
        .asked(3),
        case(
            "§6.8 the last stream cannot rise",
            [go_away(1, 0), go_away(5, 0), head(1, 204, END_STREAM)],
            [GoAway(NoError, vec![3]), GoAway(NoError, vec![]), Head(1, 204), End(1)],
        )
        .asked(2),
        case(
            "§6.8 debug data, and the reserved bit",
            [frame(Kind::GoAway, 0, 0, &[&[0x80, 0, 0, 1, 0, 0, 0, 2][..], b"why"].concat())],
            [GoAway(Code::InternalError, vec![])],
        ),
        case("§7 an unknown code", [go_away(1, 77)], [GoAway(Code::Unknown, vec![])]),
        case(
            "§6.8 bodies of the streams that stay go on",
            [post(65_535), post(5), post(5), go_away(3, 0), window(0, 9)],
            [
                sent_post(1),
                sent_data(1, 16_384),
                sent_data(1, 16_384),
                sent_data(1, 16_384),
                sent_end(1, 16_383),
                sent_post(3),
                sent_post(5),
                GoAway(NoError, vec![5]),
                Window,
                sent_end(3, 5),
                Whole(3),
            ],
        )
        .asked(0),
        case(
            "§6.8 resets and settings still count",
            [
                go_away(1, 0),
                reset(3, 7),
                reset(1, 7),
                settings(&[(MAX_CONCURRENT_STREAMS, 9)]),
                Step::Room,
                ping(&[0; 8], 0),
            ],
            [
                GoAway(NoError, vec![3]),
                Reset(1, Code::RefusedStream),
                sent_ack(),
                Settings,
                Room(0),
                Seen::Sent(Sent::Pong([0; 8])),
            ],
        )
        .asked(2),
        case(
            "§6.8 DATA of a stream that was not to be dealt with",
            [go_away(1, 0), data(3, "x", 0)],
            [GoAway(NoError, vec![3]), Error(E::StreamClosed, Code::StreamClosed)],
        )
        .asked(2),
    ]);
}

/// The codes of all errors, as §7 and the sections that name them want it.
#[test]
fn what_is_counted() {
    let mut talk = Talk::new(LARGE);
    talk.step(&settings(&[]), usize::MAX);
    (0..3).for_each(|_| talk.step(&get(), 3));
    for step in [head(1, 200, 0), data(1, "x", END_STREAM), reset(3, 7), ping(&[0; 8], 0), go_away(3, 2)] {
        talk.step(&step, 3);
    }
    let (received, sent) = (talk.counts.received, talk.counts.sent);
    assert_eq!(received.frames, [1, 1, 0, 1, 1, 0, 1, 1, 0, 0, 0]);
    assert_eq!(received.resets[Code::RefusedStream as usize], 1);
    assert_eq!(received.go_aways[Code::InternalError as usize], 1);
    assert_eq!((received.block_bytes, received.field_bytes), (1, 10));
    assert_eq!(sent.frames, [0, 3, 0, 0, 2, 0, 1, 0, 1, 0, 0]);
    assert_eq!((talk.counts.pings, talk.counts.most_streams), (1, 3));
    assert_eq!(
        sent.field_bytes,
        3 * Request::get().fields().iter().map(|(n, v)| (n.len() + v.len()) as u64).sum::<u64>()
    );
}

/// What the server makes us write: a frame's nine bytes and its payload each time. A request and its body are our own.
#[test]
fn replies_are_counted_in_bytes() {
    let mut talk = Talk::new(ClientSettings { stream_window: 10, connection_window: 1 << 20, ..LARGE });
    let mut replied = |step: Step| {
        let before = talk.counts.replies;
        talk.step(&step, usize::MAX);
        talk.counts.replies - before
    };
    assert_eq!(replied(settings(&[])), 9, "SETTINGS are acknowledged");
    assert_eq!(replied(post(5)), 0);
    assert_eq!(replied(head(1, 200, 0)), 0);
    assert_eq!(replied(data(1, "1234", 0)), 0);
    assert_eq!(replied(data(1, "5", 0)), 9 + 4, "half of the window is given back");
    assert_eq!(replied(ping(b"12345678", 0)), 9 + 8);
    assert_eq!(replied(ping(b"12345678", ACK)), 0);
    assert_eq!(replied(data(1, [0; 11], 0)), 9 + 4, "more than the window: RST_STREAM");
}
