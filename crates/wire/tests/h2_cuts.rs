//! However a server's bytes are cut, the HTTP/2 client sees and says the same; and whatever they
//! are, it does not panic.

mod talk;

use std::collections::BTreeSet;

use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::frame::Kind;
use dyno_wire::h2::hpack::{Encoder, Indexing};
use dyno_wire::h2::settings::ClientSettings;
use proptest::prelude::*;
use talk::frames::*;
use talk::{Request, Seen, Talk};

/// The client's settings and requests.
#[derive(Clone, Debug)]
struct Side {
    own: ClientSettings,
    upgraded: bool,
    /// The next is made whenever there is room, and fewer than four are under way.
    requests: Vec<Request>,
    /// This stream is given up when its head has come.
    gives_up: u32,
}

impl Side {
    fn talk(&self) -> Talk {
        let mut talk = if self.upgraded {
            Talk::upgraded(self.own, RequestKind::Upgrade)
        } else {
            Talk::new(self.own)
        };
        talk.requests.extend(&self.requests);
        talk.gives_up = Some(self.gives_up);
        talk
    }
}

/// Plays what the server says, in these pieces.
fn play<'a>(side: &Side, pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Seen>, Vec<u8>) {
    let mut talk = side.talk();
    pieces.for_each(|piece| talk.receive(piece));
    (talk.seen, talk.written)
}

fn same_in_all_cuts(side: &Side, bytes: &[u8], cuts: &[usize]) -> Result<(), TestCaseError> {
    let whole = play(side, std::iter::once(bytes));
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    prop_assert_eq!(&whole, &play(side, at.windows(2).map(|w| &bytes[w[0]..w[1]])));
    prop_assert_eq!(&whole, &play(side, bytes.chunks(1)));
    Ok(())
}

fn side() -> impl Strategy<Value = Side> {
    let window = prop_oneof![
        Just(1),
        Just(3),
        1..200u32,
        Just(65_535),
        Just((1 << 30) - 1),
        Just((1 << 31) - 1)
    ];
    let table = prop_oneof![Just(4096), Just(0), 0..200u32, Just(65_536)];
    let own = (table, window.clone(), window).prop_map(
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
    (own, any::<bool>(), proptest::collection::vec(request, 0..8), 0..5u32).prop_map(
        |(own, upgraded, requests, gives_up)| Side {
            own,
            upgraded,
            requests,
            gives_up: 1 + 2 * gives_up,
        },
    )
}

/// The next action of a server.
#[derive(Clone, Debug)]
enum Said {
    /// The next part of a response: a head, then so much of a body as the windows allow, then its
    /// end.
    Part {
        pick: usize,
        part: Part,
    },
    Interim(usize),
    Reset(usize, u32),
    /// `None`: of the connection.
    Window(Option<usize>, u32),
    Settings(Vec<(u16, u32)>),
    Ack,
    Ping([u8; 8]),
    GoAway(u32),
    /// Anything.
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

fn messages() -> impl Strategy<Value = Said> {
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
        60 => (any::<usize>(), part).prop_map(|(pick, part)| Said::Part { pick, part }),
        4 => any::<usize>().prop_map(Said::Interim),
        4 => (any::<usize>(), 0..15u32).prop_map(|(pick, code)| Said::Reset(pick, code)),
        12 => (any::<Option<usize>>(), 1..70_000u32).prop_map(|(pick, by)| Said::Window(pick, by)),
        6 => proptest::collection::vec(setting, 0..4).prop_map(Said::Settings),
        6 => Just(Said::Ack),
        2 => any::<[u8; 8]>().prop_map(Said::Ping),
        1 => (0..12u32).prop_map(Said::GoAway),
        2 => (0..14u8, any::<u8>(), any_stream, bytes.clone())
            .prop_map(|(k, f, s, b)| Said::Frame(k, f, s, b)),
        1 => bytes.prop_map(Said::Raw),
    ]
}

/// A server that mostly keeps to the rules: it answers what is asked, and minds windows and tables.
struct Server<'a> {
    side: &'a Side,
    talk: Talk,
    encoder: Encoder,
    has_acked: bool,
    /// Streams whose head is out and whose end is not. The client may have cancelled them.
    answering: BTreeSet<u32>,
    said: Vec<u8>,
}

/// Plays a conversation, and returns what the server said in it.
fn converse(side: &Side, all: &[Said]) -> Vec<u8> {
    let mut server = Server {
        side,
        talk: side.talk(),
        encoder: Encoder::new(),
        has_acked: false,
        answering: BTreeSet::new(),
        said: Vec::new(),
    };
    server.say(settings(&[]));
    all.iter().for_each(|said| server.go_on(said));
    server.said
}

impl Server<'_> {
    fn say(&mut self, step: Step) {
        let Step::Says(bytes) = step else { unreachable!("a server only speaks") };
        self.talk.receive(&bytes);
        self.said.extend_from_slice(&bytes);
    }

    /// One of the streams that are open for the server.
    fn pick(&self, pick: usize) -> Option<u32> {
        let mut open = self.answering.clone();
        open.extend(self.talk.client.iter().map(|(_, id)| id));
        (!open.is_empty()).then(|| *open.iter().nth(pick % open.len()).expect("it is one of them"))
    }

    fn go_on(&mut self, said: &Said) {
        match said {
            Said::Part { pick, part } => {
                let Some(stream) = self.pick(*pick) else { return };
                if self.answering.insert(stream) {
                    self.head(stream, part);
                } else {
                    self.body(stream, part);
                }
                if part.end {
                    self.answering.remove(&stream);
                }
            }
            Said::Interim(pick) => {
                let Some(stream) = self.pick(*pick) else { return };
                let mut block = Vec::new();
                self.encoder.begin(&mut block);
                self.encoder.put(b":status", b"103", Indexing::Incremental, &mut block);
                self.say(headers(stream, &block, END_HEADERS));
            }
            Said::Reset(pick, code) => {
                let Some(stream) = self.pick(*pick) else { return };
                self.answering.remove(&stream);
                self.say(reset(stream, *code));
            }
            Said::Window(pick, by) => {
                let stream = pick.and_then(|pick| self.pick(pick));
                self.say(window(stream.unwrap_or(0), *by));
            }
            Said::Settings(list) => self.say(settings(list)),
            Said::Ack if self.has_acked => {}
            Said::Ack => {
                self.has_acked = true;
                self.encoder.set_max_size(self.side.own.header_table_size);
                self.say(ack());
            }
            Said::Ping(payload) => self.say(ping(payload, 0)),
            Said::GoAway(last) => self.say(go_away(*last, 0)),
            Said::Frame(kind, flags, stream, payload) => {
                self.say(raw(raw_frame(*kind, *flags, *stream, payload)));
            }
            Said::Raw(bytes) => self.say(raw(bytes)),
        }
    }

    fn head(&mut self, stream: u32, part: &Part) {
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
        self.fields(&part.fields, &mut block);
        self.block(stream, &block, part);
    }

    /// DATA, or trailers.
    fn body(&mut self, stream: u32, part: &Part) {
        if part.end && part.length.is_multiple_of(5) {
            let mut block = Vec::new();
            self.encoder.begin(&mut block);
            self.fields(&part.fields, &mut block);
            return self.block(stream, &block, part);
        }
        let end = if part.end { END_STREAM } else { 0 };
        let room = self.talk.room_for(stream);
        match part.padding {
            Some(padding) if usize::from(padding) < room => {
                let length = part.length.min(room - usize::from(padding) - 1);
                self.say(data(stream, padded(vec![b'd'; length], padding), end | PADDED));
            }
            _ => self.say(data(stream, vec![b'd'; part.length.min(room)], end)),
        }
    }

    /// Fields that fill the table or refer to it, and now and then wrong ones.
    fn fields(&mut self, fields: &[(u8, u8)], block: &mut Vec<u8>) {
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

    fn block(&mut self, stream: u32, block: &[u8], part: &Part) {
        let mut chunks = block.chunks(block.len().div_ceil(part.pieces).max(1)).peekable();
        let mut flags = if part.end { END_STREAM } else { 0 };
        let mut payload = chunks.next().unwrap_or_default().to_vec();
        if let Some(padding) = part.padding {
            payload = padded(payload, padding);
            flags |= PADDED;
        }
        let ends = |is_last| if is_last { END_HEADERS } else { 0 };
        self.say(headers(stream, &payload, flags | ends(chunks.peek().is_none())));
        while let Some(chunk) = chunks.next() {
            self.say(continuation(stream, chunk, ends(chunks.peek().is_none())));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Conversations with few faults, so that they go far.
    #[test]
    fn any_cut_of_a_conversation_is_seen_alike(
        side in side(),
        said in proptest::collection::vec(messages(), 0..60),
        cuts in proptest::collection::vec(any::<usize>(), 0..12),
    ) {
        let bytes = converse(&side, &said);
        same_in_all_cuts(&side, &bytes, &cuts)?;
    }

    #[test]
    fn any_cut_of_any_bytes_is_seen_alike(
        side in side(),
        is_greeted in any::<bool>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..100),
        cuts in proptest::collection::vec(any::<usize>(), 0..5),
    ) {
        let greeting = || raw_frame(Kind::Settings as u8, 0, 0, &[]);
        let mut all = if is_greeted { greeting() } else { Vec::new() };
        all.extend_from_slice(&bytes);
        same_in_all_cuts(&side, &all, &cuts)?;
    }

    /// A right conversation in which single bytes are wrong.
    #[test]
    fn any_cut_of_a_damaged_conversation_is_seen_alike(
        side in side(),
        said in proptest::collection::vec(messages(), 0..30),
        damage in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4),
        cuts in proptest::collection::vec(any::<usize>(), 0..5),
    ) {
        let mut bytes = converse(&side, &said);
        for (at, byte) in damage {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        same_in_all_cuts(&side, &bytes, &cuts)?;
    }
}
