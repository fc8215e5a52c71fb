//! The HTTP/2 client against a server by others: the `h2` crate, which hyper stands on. Both are in
//! memory, and take turns.

mod talk;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::ErrorCode;
use dyno_wire::h2::settings::ClientSettings;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use proptest::prelude::*;
use talk::{Request, Seen, Sent, Talk};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes in transit between client and server.
#[derive(Default)]
struct Wire {
    to_server: VecDeque<u8>,
    to_client: VecDeque<u8>,
    /// The server reads no more than this at once.
    piece: usize,
}

struct ServerEnd(Rc<RefCell<Wire>>);

impl AsyncRead for ServerEnd {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut wire = self.0.borrow_mut();
        let n = wire.piece.min(buf.remaining()).min(wire.to_server.len());
        if n == 0 {
            return Poll::Pending;
        }
        buf.put_slice(&wire.to_server.drain(..n).collect::<Vec<u8>>());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ServerEnd {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().to_client.extend(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The server's answer to a request.
#[derive(Clone, Debug)]
struct Answer {
    interim: bool,
    status: u16,
    /// One more field for each of these values.
    fields: Vec<u8>,
    body: usize,
    /// Bytes that are given to the library at once.
    piece: usize,
    tells_length: bool,
    trailers: bool,
    when: When,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// Once the request's body has been read.
    Read,
    /// At once; the request's body is read afterwards.
    RequestKind,
    /// At once; the request's body is not read.
    Unread,
    /// The stream is reset in place of a response.
    Reset,
    /// It is reset within the body.
    ResetWithin,
}

#[derive(Clone, Debug)]
struct Setting {
    own: ClientSettings,
    window: u32,
    connection_window: u32,
    max_frame_size: u32,
    max_streams: Option<u32>,
    table: u32,
    /// Another window after so many requests, while streams still make progress. The library itself
    /// can get stuck when it lowers windows: it does not raise one again when it learns that the
    /// client has followed.
    meanwhile: Option<(usize, u32)>,
    under_way: usize,
    /// Most bytes that each side reads at once.
    pieces: (usize, usize),
}

/// How a connection ends.
#[derive(Clone, Copy, Debug)]
enum Shutdown {
    Never,
    Graceful { after: usize },
    Abrupt { after: usize },
}

/// The outcome from the server's point of view.
#[derive(Debug, Default)]
struct ServerLog {
    /// Streams that were accepted, and how they ended.
    streams: BTreeMap<u32, Option<Result<(), String>>>,
    error: Option<String>,
}

async fn serve(
    request: http::Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    asked: Request,
    answer: Answer,
) -> Result<(), h2::Error> {
    let (head, mut body) = request.into_parts();
    assert_eq!(head.uri, "http://server.example:8080/path");
    assert_eq!(head.headers["user-agent"], "dyno");
    assert_eq!(head.headers.get("x-long").map_or(0, HeaderValue::len), asked.field);
    match answer.when {
        When::Reset => {
            respond.send_reset(Reason::REFUSED_STREAM);
            return Ok(());
        }
        When::Read => assert_eq!(read(&mut body).await?, asked.body),
        _ => {}
    }
    let pushed = http::Request::get("http://server.example:8080/pushed").body(()).unwrap();
    assert!(respond.push_request(pushed).is_err(), "push is disabled");
    if answer.interim {
        respond.send_informational(Response::builder().status(103).body(()).unwrap())?;
    }
    let is_head = asked.kind == RequestKind::Head;
    let mut response = Response::builder().status(answer.status).body(()).unwrap();
    fill(response.headers_mut(), &answer);
    if is_head || (answer.body == 0 && !answer.trailers) {
        respond.send_response(response, true)?;
    } else {
        let mut send = respond.send_response(response, false)?;
        let mut left = answer.body;
        while left > 0 {
            send.reserve_capacity(left.min(answer.piece));
            let Some(room) = poll_fn(|cx| send.poll_capacity(cx)).await.transpose()? else { break };
            let n = room.min(left);
            if n == 0 {
                continue;
            }
            left -= n;
            send.send_data(Bytes::from(vec![b'y'; n]), left == 0 && !answer.trailers)?;
            if answer.when == When::ResetWithin {
                send.send_reset(Reason::INTERNAL_ERROR);
                return Ok(());
            }
        }
        if answer.trailers {
            let mut trailers = HeaderMap::new();
            trailers.insert("x-trailer", HeaderValue::from_static("z"));
            send.send_trailers(trailers)?;
        }
    }
    if answer.when == When::RequestKind {
        // The client may cancel the rest of a request whose response is complete.
        match read(&mut body).await {
            Ok(length) => assert_eq!(length, asked.body),
            Err(error) if error.reason() == Some(Reason::NO_ERROR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn fill(headers: &mut HeaderMap, answer: &Answer) {
    if answer.tells_length && !answer.trailers {
        headers.insert("content-length", answer.body.into());
    }
    for (i, value) in answer.fields.iter().enumerate() {
        let name = HeaderName::try_from(format!("x-field-{i}")).unwrap();
        headers.insert(name, HeaderValue::from_bytes(&[b'a' + value % 26; 30]).unwrap());
    }
}

/// Reads a request's body.
async fn read(body: &mut RecvStream) -> Result<usize, h2::Error> {
    let mut length = 0;
    while let Some(data) = poll_fn(|cx| body.poll_data(cx)).await {
        let data = data?;
        assert!(data.iter().all(|byte| *byte == b'x'));
        length += data.len();
        body.flow_control().release_capacity(data.len())?;
    }
    Ok(length)
}

/// Lets both sides take turns until neither has anything to say.
fn converse(setting: &Setting, all: &[(Request, Answer)], shutdown: Shutdown) -> (Talk, ServerLog) {
    let wire = Rc::new(RefCell::new(Wire { piece: setting.pieces.0, ..Wire::default() }));
    let mut talk = Talk::new(setting.own);
    talk.requests.extend(all.iter().map(|(request, _)| request));
    talk.under_way = setting.under_way;
    let mut server = Server::new(setting, wire.clone(), all, shutdown);
    let mut heard = 0;
    // Something may take a turn to show.
    let mut idle = 0;
    while idle < 3 {
        let said = talk.written.len() - heard;
        wire.borrow_mut().to_server.extend(&talk.written[heard..]);
        heard = talk.written.len();
        let moved = server.turn();
        let bytes: Vec<u8> = wire.borrow_mut().to_client.drain(..).collect();
        bytes.chunks(setting.pieces.1).for_each(|piece| talk.receive(piece));
        idle = if said == 0 && !moved && bytes.is_empty() { idle + 1 } else { 0 };
        if idle == 2 && server.restores() {
            idle = 0;
        }
    }
    assert!(server.log.error.is_some() || wire.borrow().to_server.is_empty() || server.is_closed);
    (talk, server.log)
}

type Io = ServerEnd;

struct Server<'a> {
    setting: &'a Setting,
    all: &'a [(Request, Answer)],
    shutdown: Shutdown,
    wire: Rc<RefCell<Wire>>,
    handshake: Option<h2::server::Handshake<Io, Bytes>>,
    connection: Option<Connection<Io, Bytes>>,
    tasks: Vec<(u32, Pin<Box<dyn Future<Output = Result<(), h2::Error>>>>)>,
    log: ServerLog,
    is_meanwhile: bool,
    is_closed: bool,
}

impl<'a> Server<'a> {
    fn new(
        setting: &'a Setting,
        wire: Rc<RefCell<Wire>>,
        all: &'a [(Request, Answer)],
        shutdown: Shutdown,
    ) -> Self {
        let mut builder = Builder::new();
        builder
            .initial_window_size(setting.window)
            .initial_connection_window_size(setting.connection_window)
            .max_frame_size(setting.max_frame_size)
            .header_table_size(setting.table)
            .max_header_list_size(1 << 20);
        if let Some(most) = setting.max_streams {
            builder.max_concurrent_streams(most);
        }
        let handshake = builder.handshake(ServerEnd(wire.clone()));
        Server {
            setting,
            all,
            shutdown,
            wire,
            handshake: Some(handshake),
            connection: None,
            tasks: Vec::new(),
            log: ServerLog::default(),
            is_meanwhile: false,
            is_closed: false,
        }
    }

    /// Returns whether anything happened.
    fn turn(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let unread = self.wire.borrow().to_server.len();
        if let Some(handshake) = &mut self.handshake {
            if let Poll::Ready(connection) = Pin::new(handshake).poll(&mut cx) {
                self.connection = Some(connection.unwrap());
                self.handshake = None;
            }
            return self.wire.borrow().to_server.len() < unread;
        }
        let tasks = self.tasks.len();
        self.tasks.retain_mut(|(id, task)| {
            let Poll::Ready(end) = task.as_mut().poll(&mut cx) else { return true };
            self.log.streams.insert(*id, Some(end.map_err(|error| error.to_string())));
            false
        });
        let accepted = self.accept(&mut cx);
        accepted || self.tasks.len() != tasks || self.wire.borrow().to_server.len() < unread
    }

    fn accept(&mut self, cx: &mut Context<'_>) -> bool {
        if self.is_closed {
            return false;
        }
        let Some(connection) = &mut self.connection else { return false };
        match connection.poll_accept(cx) {
            Poll::Pending => false,
            Poll::Ready(None) => {
                self.is_closed = true;
                true
            }
            Poll::Ready(Some(Err(error))) => {
                self.log.error = Some(error.to_string());
                self.is_closed = true;
                true
            }
            Poll::Ready(Some(Ok((request, respond)))) => {
                let id = respond.stream_id().as_u32();
                let (asked, answer) = &self.all[id as usize / 2];
                self.tasks.push((id, Box::pin(serve(request, respond, *asked, answer.clone()))));
                self.log.streams.insert(id, None);
                self.changes();
                true
            }
        }
    }

    /// Goes back to the first window, if it is another one.
    fn restores(&mut self) -> bool {
        if self.is_closed || !std::mem::take(&mut self.is_meanwhile) {
            return false;
        }
        let Some(connection) = &mut self.connection else { return false };
        connection.set_initial_window_size(self.setting.window).unwrap();
        true
    }

    /// Changes the server's settings after so many requests.
    fn changes(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        let accepted = self.log.streams.len();
        if let Some((after, window)) = self.setting.meanwhile
            && after == accepted
        {
            connection.set_initial_window_size(window).unwrap();
            self.is_meanwhile = true;
        }
        match self.shutdown {
            Shutdown::Graceful { after } if after == accepted => connection.graceful_shutdown(),
            Shutdown::Abrupt { after } if after == accepted => {
                connection.abrupt_shutdown(Reason::INTERNAL_ERROR);
            }
            _ => {}
        }
    }
}

/// The client's view of one stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    interim: usize,
    status: u16,
    body: usize,
    end: Option<Seen>,
}

fn outcomes(seen: &[Seen]) -> BTreeMap<u32, Outcome> {
    let mut all = BTreeMap::<u32, Outcome>::new();
    for seen in seen {
        match seen {
            Seen::Interim(id, _) => all.entry(*id).or_default().interim += 1,
            Seen::Head(id, status) => all.entry(*id).or_default().status = *status,
            Seen::Body(id, bytes) => {
                assert!(bytes.iter().all(|byte| *byte == b'y'));
                all.entry(*id).or_default().body += bytes.len();
            }
            Seen::End(id) | Seen::Trailers(id) | Seen::Reset(id, _) => {
                let before = all.entry(*id).or_default().end.replace(seen.clone());
                assert_eq!(before, None);
            }
            Seen::Error(..) | Seen::Malformed(..) => panic!("{seen:?}"),
            Seen::Settings
            | Seen::Window
            | Seen::GoAway(..)
            | Seen::Whole(_)
            | Seen::Room(_)
            | Seen::Sent(_) => {}
        }
    }
    all
}

fn expected(id: u32, request: &Request, answer: &Answer) -> Outcome {
    let has_body = request.kind != RequestKind::Head;
    match answer.when {
        When::Reset => {
            Outcome { end: Some(Seen::Reset(id, ErrorCode::RefusedStream)), ..Outcome::default() }
        }
        _ => Outcome {
            interim: answer.interim.into(),
            status: answer.status,
            body: if has_body { answer.body } else { 0 },
            end: Some(if answer.trailers && has_body { Seen::Trailers(id) } else { Seen::End(id) }),
        },
    }
}

fn check(
    id: u32,
    outcome: &Outcome,
    (request, answer): &(Request, Answer),
) -> Result<(), TestCaseError> {
    if answer.when == When::ResetWithin && request.kind != RequestKind::Head && answer.body > 0 {
        // How much of it came first is the library's choice.
        prop_assert_eq!(&outcome.end, &Some(Seen::Reset(id, ErrorCode::InternalError)));
        prop_assert!(outcome.body <= answer.body);
    } else {
        prop_assert_eq!(outcome, &expected(id, request, answer));
    }
    Ok(())
}

fn request() -> impl Strategy<Value = Request> {
    let body = prop_oneof![4 => Just(0), 2 => 1..300usize, 1 => 1..200_000usize];
    let field = prop_oneof![9 => Just(0), 1 => 1..20_000usize];
    (0..8u8, body, field, any::<bool>()).prop_map(|(head, body, field, wants_fields)| match head {
        0 => Request { kind: RequestKind::Head, body: 0, field, wants_fields },
        _ => Request { kind: RequestKind::Other, body, field, wants_fields },
    })
}

fn answer() -> impl Strategy<Value = Answer> {
    let when = prop_oneof![
        8 => Just(When::Read),
        2 => Just(When::RequestKind),
        2 => Just(When::Unread),
        1 => Just(When::Reset),
        1 => Just(When::ResetWithin),
    ];
    let body = prop_oneof![2 => Just(0), 4 => 1..300usize, 1 => 1..200_000usize];
    let piece = prop_oneof![1..100_000usize, Just(usize::MAX)];
    let fields = proptest::collection::vec(any::<u8>(), 0..20);
    let status = prop_oneof![5 => Just(200), 1 => Just(404), 1 => Just(500)];
    (0..8u8, status, fields, body, piece, any::<bool>(), 0..6u8, when).prop_map(
        |(interim, status, fields, body, piece, tells_length, trailers, when)| Answer {
            interim: interim == 0,
            status,
            fields,
            body,
            // Small pieces of large bodies take for ever.
            piece: piece.max(body / 500),
            tells_length,
            trailers: trailers == 0,
            when,
        },
    )
}

fn window() -> impl Strategy<Value = u32> {
    prop_oneof![
        2 => Just(65_535u32),
        2 => 1000..65_535u32,
        1 => Just((1 << 30) - 1),
        1 => 65_536..300_000u32,
    ]
}

fn setting() -> impl Strategy<Value = Setting> {
    let table = || {
        prop_oneof![
            3 => Just(4096u32),
            1 => Just(0),
            1 => 1..400u32,
            1 => 400..10_000u32,
            1 => Just(65_536),
        ]
    };
    let own = (table(), window(), window()).prop_map(
        |(header_table_size, stream_window, connection_window)| ClientSettings {
            header_table_size,
            stream_window,
            connection_window,
        },
    );
    let frames = prop_oneof![3 => Just(16_384), 1 => 16_384..100_000u32];
    let streams = proptest::option::of(1..6u32);
    let meanwhile = proptest::option::of((1..10usize, 0..100_000u32));
    let piece = || prop_oneof![3 => Just(usize::MAX), 1 => 500..20_000usize];
    (
        own,
        window(),
        65_535..200_000u32,
        frames,
        streams,
        table(),
        meanwhile,
        1..8usize,
        (piece(), piece()),
    )
        .prop_map(
            |(
                own,
                window,
                connection_window,
                max_frame_size,
                max_streams,
                table,
                meanwhile,
                under_way,
                pieces,
            )| Setting {
                own,
                window,
                connection_window,
                max_frame_size,
                max_streams,
                table,
                meanwhile,
                under_way,
                pieces,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Every answer is the one that was given, and neither side finds fault with the other.
    #[test]
    fn every_answer_is_right(
        setting in setting(),
        all in proptest::collection::vec((request(), answer()), 1..30),
    ) {
        let (talk, log) = converse(&setting, &all, Shutdown::Never);
        prop_assert_eq!(log.error, None);
        prop_assert_eq!(log.streams.len(), all.len());
        prop_assert!(log.streams.values().all(|end| *end == Some(Ok(()))), "{:?}", log.streams);
        let outcomes = outcomes(&talk.seen);
        prop_assert_eq!(outcomes.len(), all.len());
        for ((id, outcome), one) in outcomes.iter().zip(&all) {
            check(*id, outcome, one)?;
        }
        prop_assert_eq!(talk.client.open(), 0);
    }

    /// A server that shuts down deals with what it took, and the rest is known not to be dealt
    /// with.
    #[test]
    fn graceful_shutdown_loses_nothing(
        setting in setting(),
        all in proptest::collection::vec((request(), answer()), 1..30),
        after in 1..30usize,
    ) {
        let after = after.min(all.len());
        let (talk, log) = converse(&setting, &all, Shutdown::Graceful { after });
        prop_assert_eq!(&log.error, &None);
        let outcomes = outcomes(&talk.seen);
        for (id, outcome) in &outcomes {
            check(*id, outcome, &all[*id as usize / 2])?;
            prop_assert_eq!(log.streams.get(id), Some(&Some(Ok(()))));
        }
        let unprocessed: Vec<u32> = talk.seen.iter().flat_map(|seen| match seen {
            Seen::GoAway(code, unprocessed) => {
                assert_eq!(*code, ErrorCode::NoError);
                unprocessed.clone()
            }
            _ => Vec::new(),
        }).collect();
        prop_assert!(unprocessed.iter().all(|id| !log.streams.contains_key(id)));
        let asked = all.len() - talk.requests.len();
        prop_assert_eq!(outcomes.len() + unprocessed.len(), asked, "{:?} {:?}", log, talk.seen);
        prop_assert!(talk.client.is_draining());
        prop_assert_eq!(talk.client.open(), 0);
    }

    /// A server that gives up says so, and nothing that it says until then is wrong.
    #[test]
    fn abrupt_shutdown_is_understood(
        setting in setting(),
        all in proptest::collection::vec((request(), answer()), 1..20),
        after in 1..20usize,
    ) {
        let after = after.min(all.len());
        let (talk, _) = converse(&setting, &all, Shutdown::Abrupt { after });
        let is_go_away = |seen: &&Seen| matches!(seen, Seen::GoAway(ErrorCode::InternalError, _));
        prop_assert_eq!(talk.seen.iter().filter(is_go_away).count(), 1);
        prop_assert!(talk.client.is_draining());
        outcomes(&talk.seen);
    }
}

/// Cancelled streams do not affect the others.
#[test]
fn streams_that_are_given_up_leave_the_others_alone() {
    let answer = Answer {
        interim: false,
        status: 200,
        fields: vec![1, 2, 3],
        body: 100_000,
        piece: 5000,
        tells_length: true,
        trailers: false,
        when: When::Read,
    };
    let all = vec![(Request::post(10_000), answer); 20];
    let setting = Setting {
        own: ClientSettings::default(),
        window: 65_535,
        connection_window: 65_535,
        max_frame_size: 16_384,
        max_streams: None,
        table: 4096,
        meanwhile: None,
        under_way: 5,
        pieces: (usize::MAX, 1000),
    };
    for gives_up in [1, 3, 7, 39] {
        let wire = Rc::new(RefCell::new(Wire { piece: usize::MAX, ..Wire::default() }));
        let mut talk = Talk::new(setting.own);
        talk.requests.extend(all.iter().map(|(request, _)| request));
        talk.gives_up = Some(gives_up);
        let mut server = Server::new(&setting, wire.clone(), &all, Shutdown::Never);
        let mut heard = 0;
        for _ in 0..2000 {
            wire.borrow_mut().to_server.extend(&talk.written[heard..]);
            heard = talk.written.len();
            // The task of the stream that is given up fails; nothing else may.
            server.tasks.retain(|(id, _)| {
                *id != gives_up
                    || !talk.seen.contains(&Seen::Sent(Sent::Reset(*id, ErrorCode::Cancel)))
            });
            server.turn();
            let bytes: Vec<u8> = wire.borrow_mut().to_client.drain(..).collect();
            bytes.chunks(1000).for_each(|piece| talk.receive(piece));
        }
        assert_eq!(server.log.error, None);
        let mut outcomes = outcomes(&talk.seen);
        assert_eq!(outcomes.remove(&gives_up).unwrap().end, None);
        assert_eq!(outcomes.len(), 19);
        for (id, outcome) in outcomes {
            assert_eq!(outcome, expected(id, &all[0].0, &all[0].1));
        }
    }
}
