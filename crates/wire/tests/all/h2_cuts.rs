//! Tests with random conversations that the HTTP/2 client gives the same events and output for any
//! pieces of its input, and never panics.

use std::collections::BTreeSet;

use crate::talk::frames::*;
use crate::talk::{Observed, Request, Talk};
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::frame::Kind;
use dyno_wire::h2::hpack::{Encoder, Indexing};
use dyno_wire::h2::settings::ClientSettings;
use proptest::prelude::*;

/// The client's settings and requests.
#[derive(Clone, Debug)]
struct ClientPlan {
    client_settings: ClientSettings,
    is_upgraded: bool,
    /// Sent one after the other, with at most four streams open.
    requests: Vec<Request>,
    /// This stream is cancelled when its head has arrived.
    cancelled_stream: u32,
}

impl ClientPlan {
    fn start(&self) -> Talk {
        let mut talk = if self.is_upgraded {
            Talk::upgraded(self.client_settings, RequestKind::Upgrade)
        } else {
            Talk::new(self.client_settings)
        };
        talk.requests.extend(&self.requests);
        talk.cancelled_stream = Some(self.cancelled_stream);
        talk
    }
}

/// Passes the server's bytes to a client in these pieces. Returns the client's events and output.
fn play<'a>(plan: &ClientPlan, pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Observed>, Vec<u8>) {
    let mut talk = plan.start();
    pieces.for_each(|piece| talk.receive(piece));
    (talk.events, talk.written)
}

/// Checks that the bytes give the same events and output whole, cut at these positions, and as
/// single bytes.
fn check_pieces(plan: &ClientPlan, bytes: &[u8], cuts: &[usize]) -> Result<(), TestCaseError> {
    let whole = play(plan, std::iter::once(bytes));
    let mut positions: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    positions.extend([0, bytes.len()]);
    positions.sort_unstable();
    prop_assert_eq!(&whole, &play(plan, positions.windows(2).map(|w| &bytes[w[0]..w[1]])));
    prop_assert_eq!(&whole, &play(plan, bytes.chunks(1)));
    Ok(())
}

fn client_plan() -> impl Strategy<Value = ClientPlan> {
    let window = prop_oneof![
        Just(1),
        Just(3),
        1..200u32,
        Just(65_535),
        Just((1 << 30) - 1),
        Just((1 << 31) - 1)
    ];
    let table = prop_oneof![Just(4096), Just(0), 0..200u32, Just(65_536)];
    let client_settings = (table, window.clone(), window).prop_map(
        |(header_table_size, stream_window, connection_window)| ClientSettings {
            header_table_size,
            stream_window,
            connection_window,
        },
    );
    let body = prop_oneof![4 => Just(0), 2 => 1..100usize, 1 => 60_000..100_000usize];
    let field = prop_oneof![9 => Just(0), 1 => 1..40_000usize];
    let request = (any::<bool>(), body, field, any::<bool>()).prop_map(
        |(head, body, field, wants_fields)| {
            let kind = if head { RequestKind::Head } else { RequestKind::Other };
            Request { kind, body: if head { 0 } else { body }, field, wants_fields }
        },
    );
    (client_settings, any::<bool>(), proptest::collection::vec(request, 0..8), 0..5u32).prop_map(
        |(client_settings, is_upgraded, requests, cancelled_stream)| ClientPlan {
            client_settings,
            is_upgraded,
            requests,
            cancelled_stream: 1 + 2 * cancelled_stream,
        },
    )
}

/// The next action of a server. `pick` selects one of the open streams.
#[derive(Clone, Debug)]
enum ServerAction {
    /// The next part of a response: its head, or as much of its body as the windows allow.
    Part {
        pick: usize,
        part: Part,
    },
    Interim(usize),
    Reset(usize, u32),
    /// WINDOW_UPDATE; `None`: of the connection.
    Window(Option<usize>, u32),
    Settings(Vec<(u16, u32)>),
    Ack,
    Ping([u8; 8]),
    GoAway(u32),
    /// A frame with any header and payload.
    Frame(u8, u8, u32, Vec<u8>),
    Raw(Vec<u8>),
}

#[derive(Clone, Debug)]
struct Part {
    length: usize,
    end: bool,
    padding: Option<u8>,
    /// Frames of a header block.
    pieces: usize,
    fields: Vec<(u8, u8)>,
}

fn server_action() -> impl Strategy<Value = ServerAction> {
    let setting = prop_oneof![
        4 => (Just(HEADER_TABLE_SIZE), 0..5000u32),
        2 => (Just(MAX_CONCURRENT_STREAMS), 0..5u32),
        4 => (Just(INITIAL_WINDOW_SIZE), 0..100_000u32),
        2 => (Just(MAX_FRAME_SIZE), 16_384..50_000u32),
        1 => (6..99u16, any::<u32>()),
    ];
    let padding = prop_oneof![5 => Just(None), 1 => any::<u8>().prop_map(Some)];
    let length = prop_oneof![6 => 0..20usize, 2 => 0..2000usize, 2 => 10_000..16_000usize];
    let fields = proptest::collection::vec((0..8u8, 0..4u8), 0..4);
    let part = (length, any::<bool>(), padding, 1..4usize, fields).prop_map(
        |(length, end, padding, pieces, fields)| Part { length, end, padding, pieces, fields },
    );
    let any_stream = prop_oneof![3 => (0..6u32).prop_map(|n| 1 + 2 * n), 1 => 0..20u32];
    let bytes = proptest::collection::vec(any::<u8>(), 0..20);
    prop_oneof![
        60 => (any::<usize>(), part).prop_map(|(pick, part)| ServerAction::Part { pick, part }),
        4 => any::<usize>().prop_map(ServerAction::Interim),
        4 => (any::<usize>(), 0..15u32).prop_map(|(pick, code)| ServerAction::Reset(pick, code)),
        12 => (any::<Option<usize>>(), 1..70_000u32)
            .prop_map(|(pick, increment)| ServerAction::Window(pick, increment)),
        6 => proptest::collection::vec(setting, 0..4).prop_map(ServerAction::Settings),
        6 => Just(ServerAction::Ack),
        2 => any::<[u8; 8]>().prop_map(ServerAction::Ping),
        1 => (0..12u32).prop_map(ServerAction::GoAway),
        2 => (0..14u8, any::<u8>(), any_stream, bytes.clone())
            .prop_map(|(k, f, s, b)| ServerAction::Frame(k, f, s, b)),
        1 => bytes.prop_map(ServerAction::Raw),
    ]
}

/// A server that mostly follows the protocol: it responds to requests, within windows and tables.
struct Server<'a> {
    plan: &'a ClientPlan,
    talk: Talk,
    encoder: Encoder,
    has_acked: bool,
    /// Streams whose head has been sent and whose end has not. The client may have cancelled them.
    responding: BTreeSet<u32>,
    sent: Vec<u8>,
}

/// Plays a conversation. Returns the bytes of the server.
fn play_server(plan: &ClientPlan, actions: &[ServerAction]) -> Vec<u8> {
    let mut server = Server {
        plan,
        talk: plan.start(),
        encoder: Encoder::new(),
        has_acked: false,
        responding: BTreeSet::new(),
        sent: Vec::new(),
    };
    server.send(settings(&[]));
    actions.iter().for_each(|action| server.act(action));
    server.sent
}

impl Server<'_> {
    fn send(&mut self, step: Step) {
        let Step::Receive(bytes) = step else { unreachable!("the step is a frame of the server") };
        self.talk.receive(&bytes);
        self.sent.extend_from_slice(&bytes);
    }

    /// Selects one of the streams that are open for the server.
    fn pick(&self, pick: usize) -> Option<u32> {
        let mut open = self.responding.clone();
        open.extend(self.talk.client.iter().map(|(_, id)| id));
        (!open.is_empty()).then(|| *open.iter().nth(pick % open.len()).expect("it is one of them"))
    }

    fn act(&mut self, action: &ServerAction) {
        match action {
            ServerAction::Part { pick, part } => {
                let Some(stream) = self.pick(*pick) else { return };
                if self.responding.insert(stream) {
                    self.send_head(stream, part);
                } else {
                    self.send_body(stream, part);
                }
                if part.end {
                    self.responding.remove(&stream);
                }
            }
            ServerAction::Interim(pick) => {
                let Some(stream) = self.pick(*pick) else { return };
                let mut block = Vec::new();
                self.encoder.begin(&mut block);
                self.encoder.put(b":status", b"103", Indexing::Incremental, &mut block);
                self.send(headers(stream, &block, END_HEADERS));
            }
            ServerAction::Reset(pick, code) => {
                let Some(stream) = self.pick(*pick) else { return };
                self.responding.remove(&stream);
                self.send(reset(stream, *code));
            }
            ServerAction::Window(pick, increment) => {
                let stream = pick.and_then(|pick| self.pick(pick));
                self.send(window(stream.unwrap_or(0), *increment));
            }
            ServerAction::Settings(list) => self.send(settings(list)),
            ServerAction::Ack if self.has_acked => {}
            ServerAction::Ack => {
                self.has_acked = true;
                self.encoder.set_max_size(self.plan.client_settings.header_table_size);
                self.send(ack());
            }
            ServerAction::Ping(payload) => self.send(ping(payload, 0)),
            ServerAction::GoAway(last) => self.send(go_away(*last, 0)),
            ServerAction::Frame(kind, flags, stream, payload) => {
                self.send(raw(raw_frame(*kind, *flags, *stream, payload)));
            }
            ServerAction::Raw(bytes) => self.send(raw(bytes)),
        }
    }

    fn send_head(&mut self, stream: u32, part: &Part) {
        let status = [&b"200"[..], b"201", b"204", b"500"][part.length % 4];
        let mut block = Vec::new();
        self.encoder.begin(&mut block);
        self.encoder.put(b":status", status, Indexing::Incremental, &mut block);
        if part.length.is_multiple_of(3) && !part.end {
            let length = part.length.to_string();
            self.encoder.put(
                b"content-length",
                length.as_bytes(),
                Indexing::Incremental,
                &mut block,
            );
        }
        self.put_fields(&part.fields, &mut block);
        self.send_block(stream, &block, part);
    }

    /// Sends DATA, or trailers.
    fn send_body(&mut self, stream: u32, part: &Part) {
        if part.end && part.length.is_multiple_of(5) {
            let mut block = Vec::new();
            self.encoder.begin(&mut block);
            self.put_fields(&part.fields, &mut block);
            return self.send_block(stream, &block, part);
        }
        let end = if part.end { END_STREAM } else { 0 };
        let room = self.talk.room_for(stream);
        match part.padding {
            Some(padding) if usize::from(padding) < room => {
                let length = part.length.min(room - usize::from(padding) - 1);
                self.send(data(stream, padded(vec![b'd'; length], padding), end | PADDED));
            }
            _ => self.send(data(stream, vec![b'd'; part.length.min(room)], end)),
        }
    }

    /// Appends fields that fill the table or refer to it, and sometimes invalid ones.
    fn put_fields(&mut self, fields: &[(u8, u8)], block: &mut Vec<u8>) {
        for (name, value) in fields {
            match name {
                0..4 => self.encoder.put(
                    &[b'a' + name],
                    &[b'0' + value; 9],
                    Indexing::Incremental,
                    block,
                ),
                4..7 => self.encoder.put(b"a", &[b'0' + value], Indexing::Without, block),
                _ if *value == 0 => self.encoder.put(b"A", b"0", Indexing::Incremental, block),
                _ => {}
            }
        }
    }

    fn send_block(&mut self, stream: u32, block: &[u8], part: &Part) {
        let mut chunks = block.chunks(block.len().div_ceil(part.pieces).max(1)).peekable();
        let mut flags = if part.end { END_STREAM } else { 0 };
        let mut payload = chunks.next().unwrap_or_default().to_vec();
        if let Some(padding) = part.padding {
            payload = padded(payload, padding);
            flags |= PADDED;
        }
        let ends = |is_last| if is_last { END_HEADERS } else { 0 };
        self.send(headers(stream, &payload, flags | ends(chunks.peek().is_none())));
        while let Some(chunk) = chunks.next() {
            self.send(continuation(stream, chunk, ends(chunks.peek().is_none())));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Conversations with few violations, so that they reach late states.
    #[test]
    fn pieces_of_conversation_do_not_change_events(
        plan in client_plan(),
        actions in proptest::collection::vec(server_action(), 0..60),
        cuts in proptest::collection::vec(any::<usize>(), 0..12),
    ) {
        let bytes = play_server(&plan, &actions);
        check_pieces(&plan, &bytes, &cuts)?;
    }

    #[test]
    fn pieces_of_random_bytes_do_not_change_events(
        plan in client_plan(),
        begins_with_settings in any::<bool>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..100),
        cuts in proptest::collection::vec(any::<usize>(), 0..5),
    ) {
        let settings = || raw_frame(Kind::Settings as u8, 0, 0, &[]);
        let mut input = if begins_with_settings { settings() } else { Vec::new() };
        input.extend_from_slice(&bytes);
        check_pieces(&plan, &input, &cuts)?;
    }

    /// A valid conversation in which single bytes are replaced.
    #[test]
    fn pieces_of_damaged_bytes_do_not_change_events(
        plan in client_plan(),
        actions in proptest::collection::vec(server_action(), 0..30),
        damage in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4),
        cuts in proptest::collection::vec(any::<usize>(), 0..5),
    ) {
        let mut bytes = play_server(&plan, &actions);
        for (position, byte) in damage {
            let position = position % bytes.len();
            bytes[position] = byte;
        }
        check_pieces(&plan, &bytes, &cuts)?;
    }
}
