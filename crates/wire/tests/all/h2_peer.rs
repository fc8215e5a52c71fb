//! Tests the HTTP/2 client with an independent server, the `h2` crate that hyper uses. Client and
//! server exchange bytes in memory, and take turns.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::talk::{Observed, Request, Sent, Talk};
use bytes::Bytes;
use dyno_wire::h1::response::RequestKind;
use dyno_wire::h2::ErrorCode;
use dyno_wire::h2::settings::ClientSettings;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use proptest::prelude::*;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes in transit between client and server.
#[derive(Default)]
struct Wire {
    to_server: VecDeque<u8>,
    to_client: VecDeque<u8>,
    /// Maximum number of bytes that the server reads at once.
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

/// The server's response to a request.
#[derive(Clone, Debug)]
struct PlannedResponse {
    interim: bool,
    status: u16,
    /// An additional field for each of these values.
    fields: Vec<u8>,
    body: usize,
    /// Bytes that are passed to the library at once.
    piece: usize,
    has_length: bool,
    trailers: bool,
    timing: ResponseTiming,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseTiming {
    /// After the request's body has been read.
    AfterBody,
    /// At once; the request's body is read after the response.
    BeforeBody,
    /// At once; the request's body is not read.
    WithoutBody,
    /// The stream is reset without a response.
    Reset,
    /// The stream is reset within the response's body.
    ResetInBody,
}

#[derive(Clone, Debug)]
struct Setting {
    client_settings: ClientSettings,
    window: u32,
    connection_window: u32,
    max_frame_size: u32,
    max_streams: Option<u32>,
    table: u32,
    /// Another window after a number of requests. The first window is restored when all streams
    /// wait: after it has lowered windows, the library does not raise them again.
    window_change: Option<(usize, u32)>,
    max_open: usize,
    /// Maximum number of bytes that each side reads at once.
    pieces: (usize, usize),
}

/// How a connection ends.
#[derive(Clone, Copy, Debug)]
enum Shutdown {
    Never,
    Graceful { after: usize },
    Abrupt { after: usize },
}

/// The outcome on the server's side.
#[derive(Debug, Default)]
struct ServerLog {
    /// Streams that were accepted, with their results.
    streams: BTreeMap<u32, Option<Result<(), String>>>,
    error: Option<String>,
}

async fn serve(
    request: http::Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    planned_request: Request,
    response_plan: PlannedResponse,
) -> Result<(), h2::Error> {
    let (head, mut body) = request.into_parts();
    assert_eq!(head.uri, "http://server.example:8080/path");
    assert_eq!(head.headers["user-agent"], "dyno");
    assert_eq!(head.headers.get("x-long").map_or(0, HeaderValue::len), planned_request.field);
    match response_plan.timing {
        ResponseTiming::Reset => {
            respond.send_reset(Reason::REFUSED_STREAM);
            return Ok(());
        }
        ResponseTiming::AfterBody => assert_eq!(read_body(&mut body).await?, planned_request.body),
        _ => {}
    }
    let pushed = http::Request::get("http://server.example:8080/pushed").body(()).unwrap();
    assert!(respond.push_request(pushed).is_err(), "push is disabled");
    if response_plan.interim {
        respond.send_informational(Response::builder().status(103).body(()).unwrap())?;
    }
    let is_head = planned_request.kind == RequestKind::Head;
    let mut response = Response::builder().status(response_plan.status).body(()).unwrap();
    fill_headers(response.headers_mut(), &response_plan);
    if is_head || (response_plan.body == 0 && !response_plan.trailers) {
        respond.send_response(response, true)?;
    } else {
        let mut send = respond.send_response(response, false)?;
        let mut left = response_plan.body;
        while left > 0 {
            send.reserve_capacity(left.min(response_plan.piece));
            let Some(room) = poll_fn(|cx| send.poll_capacity(cx)).await.transpose()? else { break };
            let n = room.min(left);
            if n == 0 {
                continue;
            }
            left -= n;
            send.send_data(Bytes::from(vec![b'y'; n]), left == 0 && !response_plan.trailers)?;
            if response_plan.timing == ResponseTiming::ResetInBody {
                send.send_reset(Reason::INTERNAL_ERROR);
                return Ok(());
            }
        }
        if response_plan.trailers {
            let mut trailers = HeaderMap::new();
            trailers.insert("x-trailer", HeaderValue::from_static("z"));
            send.send_trailers(trailers)?;
        }
    }
    if response_plan.timing == ResponseTiming::BeforeBody {
        // The client may cancel the rest of a request whose response is complete.
        match read_body(&mut body).await {
            Ok(length) => assert_eq!(length, planned_request.body),
            Err(error) if error.reason() == Some(Reason::NO_ERROR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn fill_headers(headers: &mut HeaderMap, response_plan: &PlannedResponse) {
    if response_plan.has_length && !response_plan.trailers {
        headers.insert("content-length", response_plan.body.into());
    }
    for (i, value) in response_plan.fields.iter().enumerate() {
        let name = HeaderName::try_from(format!("x-field-{i}")).unwrap();
        headers.insert(name, HeaderValue::from_bytes(&[b'a' + value % 26; 30]).unwrap());
    }
}

/// Reads a request's body.
async fn read_body(body: &mut RecvStream) -> Result<usize, h2::Error> {
    let mut length = 0;
    while let Some(data) = poll_fn(|cx| body.poll_data(cx)).await {
        let data = data?;
        assert!(data.iter().all(|byte| *byte == b'x'));
        length += data.len();
        body.flow_control().release_capacity(data.len())?;
    }
    Ok(length)
}

/// Lets both sides take turns until neither makes progress.
fn run_exchanges(
    setting: &Setting,
    exchanges: &[(Request, PlannedResponse)],
    shutdown: Shutdown,
) -> (Talk, ServerLog) {
    let wire = Rc::new(RefCell::new(Wire { piece: setting.pieces.0, ..Wire::default() }));
    let mut talk = Talk::new(setting.client_settings);
    talk.requests.extend(exchanges.iter().map(|(request, _)| request));
    talk.max_open = setting.max_open;
    let mut server = Server::new(setting, wire.clone(), exchanges, shutdown);
    let mut delivered = 0;
    // Turns without progress. The library may need more than one.
    let mut idle = 0;
    while idle < 3 {
        let written = talk.written.len() - delivered;
        wire.borrow_mut().to_server.extend(&talk.written[delivered..]);
        delivered = talk.written.len();
        let has_progressed = server.take_turn();
        let bytes: Vec<u8> = wire.borrow_mut().to_client.drain(..).collect();
        bytes.chunks(setting.pieces.1).for_each(|piece| talk.receive(piece));
        idle = if written == 0 && !has_progressed && bytes.is_empty() { idle + 1 } else { 0 };
        if idle == 2 && server.restore_window() {
            idle = 0;
        }
    }
    assert!(server.log.error.is_some() || wire.borrow().to_server.is_empty() || server.is_closed);
    (talk, server.log)
}

type Io = ServerEnd;

struct Server<'a> {
    setting: &'a Setting,
    exchanges: &'a [(Request, PlannedResponse)],
    shutdown: Shutdown,
    wire: Rc<RefCell<Wire>>,
    handshake: Option<h2::server::Handshake<Io, Bytes>>,
    connection: Option<Connection<Io, Bytes>>,
    tasks: Vec<(u32, Pin<Box<dyn Future<Output = Result<(), h2::Error>>>>)>,
    log: ServerLog,
    has_changed_window: bool,
    is_closed: bool,
}

impl<'a> Server<'a> {
    fn new(
        setting: &'a Setting,
        wire: Rc<RefCell<Wire>>,
        exchanges: &'a [(Request, PlannedResponse)],
        shutdown: Shutdown,
    ) -> Self {
        let mut builder = Builder::new();
        builder
            .initial_window_size(setting.window)
            .initial_connection_window_size(setting.connection_window)
            .max_frame_size(setting.max_frame_size)
            .header_table_size(setting.table)
            .max_header_list_size(1 << 20);
        if let Some(max) = setting.max_streams {
            builder.max_concurrent_streams(max);
        }
        let handshake = builder.handshake(ServerEnd(wire.clone()));
        Server {
            setting,
            exchanges,
            shutdown,
            wire,
            handshake: Some(handshake),
            connection: None,
            tasks: Vec::new(),
            log: ServerLog::default(),
            has_changed_window: false,
            is_closed: false,
        }
    }

    /// Polls the library. Returns whether it made progress.
    fn take_turn(&mut self) -> bool {
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
                let (planned_request, response_plan) = &self.exchanges[id as usize / 2];
                self.tasks.push((
                    id,
                    Box::pin(serve(request, respond, *planned_request, response_plan.clone())),
                ));
                self.log.streams.insert(id, None);
                self.apply_changes();
                true
            }
        }
    }

    /// Restores the first window. Returns whether it had been changed.
    fn restore_window(&mut self) -> bool {
        if self.is_closed || !std::mem::take(&mut self.has_changed_window) {
            return false;
        }
        let Some(connection) = &mut self.connection else { return false };
        connection.set_initial_window_size(self.setting.window).unwrap();
        true
    }

    /// Applies the change of the window and the shutdown that are planned after this request.
    fn apply_changes(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        let accepted = self.log.streams.len();
        if let Some((after, window)) = self.setting.window_change
            && after == accepted
        {
            connection.set_initial_window_size(window).unwrap();
            self.has_changed_window = true;
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
    end: Option<Observed>,
}

fn outcomes(events: &[Observed]) -> BTreeMap<u32, Outcome> {
    let mut outcomes = BTreeMap::<u32, Outcome>::new();
    for event in events {
        match event {
            Observed::Interim(id, _) => outcomes.entry(*id).or_default().interim += 1,
            Observed::Head(id, status) => outcomes.entry(*id).or_default().status = *status,
            Observed::Body(id, bytes) => {
                assert!(bytes.iter().all(|byte| *byte == b'y'));
                outcomes.entry(*id).or_default().body += bytes.len();
            }
            Observed::End(id) | Observed::Trailers(id) | Observed::Reset(id, _) => {
                let before = outcomes.entry(*id).or_default().end.replace(event.clone());
                assert_eq!(before, None);
            }
            Observed::Error(..) | Observed::Malformed(..) => panic!("{event:?}"),
            Observed::Settings
            | Observed::Window
            | Observed::GoAway(..)
            | Observed::Whole(_)
            | Observed::Room(_)
            | Observed::Sent(_) => {}
        }
    }
    outcomes
}

fn expected(id: u32, request: &Request, response_plan: &PlannedResponse) -> Outcome {
    let has_body = request.kind != RequestKind::Head;
    match response_plan.timing {
        ResponseTiming::Reset => Outcome {
            end: Some(Observed::Reset(id, ErrorCode::RefusedStream)),
            ..Outcome::default()
        },
        _ => Outcome {
            interim: response_plan.interim.into(),
            status: response_plan.status,
            body: if has_body { response_plan.body } else { 0 },
            end: Some(if response_plan.trailers && has_body {
                Observed::Trailers(id)
            } else {
                Observed::End(id)
            }),
        },
    }
}

fn check(
    id: u32,
    outcome: &Outcome,
    (request, response_plan): &(Request, PlannedResponse),
) -> Result<(), TestCaseError> {
    if response_plan.timing == ResponseTiming::ResetInBody
        && request.kind != RequestKind::Head
        && response_plan.body > 0
    {
        // The library decides how much of the body it sends before the reset.
        prop_assert_eq!(&outcome.end, &Some(Observed::Reset(id, ErrorCode::InternalError)));
        prop_assert!(outcome.body <= response_plan.body);
    } else {
        prop_assert_eq!(outcome, &expected(id, request, response_plan));
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

fn response_plan() -> impl Strategy<Value = PlannedResponse> {
    let timing = prop_oneof![
        8 => Just(ResponseTiming::AfterBody),
        2 => Just(ResponseTiming::BeforeBody),
        2 => Just(ResponseTiming::WithoutBody),
        1 => Just(ResponseTiming::Reset),
        1 => Just(ResponseTiming::ResetInBody),
    ];
    let body = prop_oneof![2 => Just(0), 4 => 1..300usize, 1 => 1..200_000usize];
    let piece = prop_oneof![1..100_000usize, Just(usize::MAX)];
    let fields = proptest::collection::vec(any::<u8>(), 0..20);
    let status = prop_oneof![5 => Just(200), 1 => Just(404), 1 => Just(500)];
    (0..8u8, status, fields, body, piece, any::<bool>(), 0..6u8, timing).prop_map(
        |(interim, status, fields, body, piece, has_length, trailers, timing)| PlannedResponse {
            interim: interim == 0,
            status,
            fields,
            body,
            // Small pieces of large bodies take too long.
            piece: piece.max(body / 500),
            has_length,
            trailers: trailers == 0,
            timing,
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
    let client_settings = (table(), window(), window()).prop_map(
        |(header_table_size, stream_window, connection_window)| ClientSettings {
            header_table_size,
            stream_window,
            connection_window,
        },
    );
    let frames = prop_oneof![3 => Just(16_384), 1 => 16_384..100_000u32];
    let streams = proptest::option::of(1..6u32);
    let window_change = proptest::option::of((1..10usize, 0..100_000u32));
    let piece = || prop_oneof![3 => Just(usize::MAX), 1 => 500..20_000usize];
    (
        client_settings,
        window(),
        65_535..200_000u32,
        frames,
        streams,
        table(),
        window_change,
        1..8usize,
        (piece(), piece()),
    )
        .prop_map(
            |(
                client_settings,
                window,
                connection_window,
                max_frame_size,
                max_streams,
                table,
                window_change,
                max_open,
                pieces,
            )| Setting {
                client_settings,
                window,
                connection_window,
                max_frame_size,
                max_streams,
                table,
                window_change,
                max_open,
                pieces,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Every response is the planned one, and neither side reports a violation.
    #[test]
    fn responses_equal_plan_without_errors(
        setting in setting(),
        exchanges in proptest::collection::vec((request(), response_plan()), 1..30),
    ) {
        let (talk, log) = run_exchanges(&setting, &exchanges, Shutdown::Never);
        prop_assert_eq!(log.error, None);
        prop_assert_eq!(log.streams.len(), exchanges.len());
        prop_assert!(log.streams.values().all(|end| *end == Some(Ok(()))), "{:?}", log.streams);
        let outcomes = outcomes(&talk.events);
        prop_assert_eq!(outcomes.len(), exchanges.len());
        for ((id, outcome), exchange) in outcomes.iter().zip(&exchanges) {
            check(*id, outcome, exchange)?;
        }
        prop_assert_eq!(talk.client.open_streams(), 0);
    }

    /// A server that shuts down responds to the streams it accepted. The client knows the others.
    #[test]
    fn graceful_shutdown_reports_unprocessed_streams(
        setting in setting(),
        exchanges in proptest::collection::vec((request(), response_plan()), 1..30),
        after in 1..30usize,
    ) {
        let after = after.min(exchanges.len());
        let (talk, log) = run_exchanges(&setting, &exchanges, Shutdown::Graceful { after });
        prop_assert_eq!(&log.error, &None);
        let outcomes = outcomes(&talk.events);
        for (id, outcome) in &outcomes {
            check(*id, outcome, &exchanges[*id as usize / 2])?;
            prop_assert_eq!(log.streams.get(id), Some(&Some(Ok(()))));
        }
        let unprocessed: Vec<u32> = talk.events.iter().flat_map(|event| match event {
            Observed::GoAway(code, unprocessed) => {
                assert_eq!(*code, ErrorCode::NoError);
                unprocessed.clone()
            }
            _ => Vec::new(),
        }).collect();
        prop_assert!(unprocessed.iter().all(|id| !log.streams.contains_key(id)));
        let sent_requests = exchanges.len() - talk.requests.len();
        let known_streams = outcomes.len() + unprocessed.len();
        prop_assert_eq!(known_streams, sent_requests, "{:?} {:?}", log, talk.events);
        prop_assert!(talk.client.is_draining());
        prop_assert_eq!(talk.client.open_streams(), 0);
    }

    /// The client sees GOAWAY, and no violation before it.
    #[test]
    fn abrupt_shutdown_gives_one_go_away(
        setting in setting(),
        exchanges in proptest::collection::vec((request(), response_plan()), 1..20),
        after in 1..20usize,
    ) {
        let after = after.min(exchanges.len());
        let (talk, _) = run_exchanges(&setting, &exchanges, Shutdown::Abrupt { after });
        let is_go_away =
            |event: &&Observed| matches!(event, Observed::GoAway(ErrorCode::InternalError, _));
        prop_assert_eq!(talk.events.iter().filter(is_go_away).count(), 1);
        prop_assert!(talk.client.is_draining());
        outcomes(&talk.events);
    }
}

#[test]
fn cancelled_stream_does_not_affect_others() {
    let response_plan = PlannedResponse {
        interim: false,
        status: 200,
        fields: vec![1, 2, 3],
        body: 100_000,
        piece: 5000,
        has_length: true,
        trailers: false,
        timing: ResponseTiming::AfterBody,
    };
    let exchanges = vec![(Request::post(10_000), response_plan); 20];
    let setting = Setting {
        client_settings: ClientSettings::default(),
        window: 65_535,
        connection_window: 65_535,
        max_frame_size: 16_384,
        max_streams: None,
        table: 4096,
        window_change: None,
        max_open: 5,
        pieces: (usize::MAX, 1000),
    };
    for cancelled_stream in [1, 3, 7, 39] {
        let wire = Rc::new(RefCell::new(Wire { piece: usize::MAX, ..Wire::default() }));
        let mut talk = Talk::new(setting.client_settings);
        talk.requests.extend(exchanges.iter().map(|(request, _)| request));
        talk.cancelled_stream = Some(cancelled_stream);
        let mut server = Server::new(&setting, wire.clone(), &exchanges, Shutdown::Never);
        let mut delivered = 0;
        for _ in 0..2000 {
            wire.borrow_mut().to_server.extend(&talk.written[delivered..]);
            delivered = talk.written.len();
            // The task of the cancelled stream fails, and no other may fail.
            server.tasks.retain(|(id, _)| {
                *id != cancelled_stream
                    || !talk.events.contains(&Observed::Sent(Sent::Reset(*id, ErrorCode::Cancel)))
            });
            server.take_turn();
            let bytes: Vec<u8> = wire.borrow_mut().to_client.drain(..).collect();
            bytes.chunks(1000).for_each(|piece| talk.receive(piece));
        }
        assert_eq!(server.log.error, None);
        let mut outcomes = outcomes(&talk.events);
        assert_eq!(outcomes.remove(&cancelled_stream).unwrap().end, None);
        assert_eq!(outcomes.len(), 19);
        for (id, outcome) in outcomes {
            assert_eq!(outcome, expected(id, &exchanges[0].0, &exchanges[0].1));
        }
    }
}
