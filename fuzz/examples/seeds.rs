//! Writes the seeds of all targets: small valid inputs, so that fuzzing reaches deep code quickly.
//! Run `cargo run --example seeds` in this folder after a target has changed how it reads its
//! input.

#[path = "../../crates/wire/tests/all/talk/mod.rs"]
mod talk;

use std::fs;
use std::path::Path;

use dyno_wire::h2::frame::{Kind, PREFACE};
use dyno_wire::h2::hpack::Encoder;
use dyno_wire::h2::hpack::encode::Indexing;
use talk::frames::*;
use talk::{Request, Talk};

fn main() {
    messages();
    clients();
    servers();
    blocks();
    requests();
    responses();
    worlds();
    suites();
    trials();
    imports();
}

fn write(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder).unwrap();
    // The names that libFuzzer gives begin with hexadecimal digits, and are ignored by git.
    fs::write(folder.join(format!("seed-{name}")), bytes).unwrap();
}

fn bytes(steps: &[Step]) -> Vec<u8> {
    let said = |step: &Step| match step {
        Step::Receive(bytes) => bytes.clone(),
        _ => Vec::new(),
    };
    steps.iter().flat_map(said).collect()
}

/// HTTP/1.x responses: tolerated deviations, and similar ones that are refused. Two bytes precede
/// each: the kind of the request, and the length of the pieces.
fn messages() {
    let answer = |name: &str, text: &str| {
        write("h1_response", name, &[&[0, 5][..], text.as_bytes()].concat())
    };
    answer("length", "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\nConnection: , close\r\n\r\nok");
    answer(
        "interim",
        "HTTP/1.1 103 E\r\nLink: a\r\n\r\nHTTP/1.1 204\r\n\r\nHTTP/1.0 200 OK\r\n\r\nuntil close",
    );
    answer(
        "extensions",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: x;a=\"b, c\", ,chunked,\r\n\r\n2 ; a = \"x\\\";\" \
         ;b\r\nok\r\n0\r\nT: u\r\n\r\n",
    );
    answer(
        "junk",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 \
                    erfrferferf\r\nok\r\n0\r\n\r\n",
    );
    answer("carriage-return", "HTTP/1.1 200 OK\rContent-Length: 0\r\n\r\n");
    answer(
        "twice",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
}

/// Writes responses of servers. Three bytes precede them: the client's settings, its requests, and
/// the length of the pieces.
fn clients() {
    let client = |name: &str, own: u8, requests: u8, steps: &[Step]| {
        write("h2_client", name, &[&[own, requests, 7][..], &bytes(steps)].concat());
    };
    let indexed = block_with(&[(":status", "299"), ("server", "x")], Indexing::Incremental);
    client(
        "answers",
        0,
        6,
        &[
            settings(&[(MAX_CONCURRENT_STREAMS, 100)]),
            ack(),
            head_with(1, 200, &[("content-length", "5")], 0),
            data(1, "Hello", END_STREAM),
            head(3, 200, 0),
            data(3, padded("x", 3), PADDED),
            fields(3, &[("x-trailer", "y")], END_STREAM),
        ],
    );
    client(
        "tables",
        0,
        7,
        &[
            settings(&[(HEADER_TABLE_SIZE, 100)]),
            headers(1, &indexed, END_HEADERS | END_STREAM),
            headers(3, &[0xBF, 0xBE], END_HEADERS),
            settings(&[(HEADER_TABLE_SIZE, 0), (HEADER_TABLE_SIZE, 4096)]),
            headers(5, &[0xBF], 0),
            continuation(5, &[0xBE], END_HEADERS),
        ],
    );
    client(
        "smaller-table",
        1,
        4,
        &[settings(&[]), ack(), headers(1, &[0x20, 0x88], END_HEADERS | END_STREAM)],
    );
    client(
        "windows",
        8,
        5,
        &[
            settings(&[(INITIAL_WINDOW_SIZE, 10), (MAX_FRAME_SIZE, 20_000)]),
            window(1, 70_000),
            window(0, 70_000),
            settings(&[(INITIAL_WINDOW_SIZE, 5)]),
            head(1, 200, 0),
            data(1, [b'x'; 9], 0),
            data(1, [b'x'; 9], END_STREAM),
        ],
    );
    client(
        "ends",
        0,
        5,
        &[
            settings(&[]),
            head(3, 103, 0),
            reset(1, 7),
            ping(b"12345678", 0),
            frame(Kind::Priority, 0, 5, &[0; 5]),
            raw(raw_frame(99, 1, 0, b"unknown")),
            go_away(3, 0),
            head(3, 204, END_STREAM),
        ],
    );
    // Stream 1 is cancelled when its head arrives.
    client(
        "given-up",
        0,
        8 + 4,
        &[
            settings(&[]),
            head(1, 200, 0),
            data(1, "late", 0),
            fields(1, &[("a", "b")], END_STREAM),
            head(3, 200, END_STREAM),
        ],
    );
    client("upgraded", 64, 2, &[settings(&[]), head(1, 200, 0), data(1, "ok", END_STREAM)]);
}

/// Writes the bytes of dyno's client.
fn servers() {
    let server = |name: &str, requests: &[Request], steps: &[Step]| {
        let mut talk = Talk::new(dyno_wire::h2::settings::ClientSettings {
            header_table_size: 100,
            ..Default::default()
        });
        talk.requests.extend(requests);
        talk.receive(&bytes(&[settings(&[])]));
        talk.receive(&bytes(steps));
        let said = talk.written.strip_prefix(PREFACE).unwrap();
        write("h2_server", name, &[&[1, 9][..], said].concat());
    };
    server("gets", &[Request::get(); 4], &[]);
    server("posts", &[Request::post(10), Request::post(900)], &[window(0, 100)]);
    server(
        "cancels",
        &[Request::get(), Request::get()],
        &[fields(1, &[("a", "b")], 0), ping(&[0; 8], 0)],
    );
    server(
        "long",
        &[Request { field: 600, ..Request::get() }],
        &[settings(&[(HEADER_TABLE_SIZE, 0)])],
    );
}

/// Header blocks, each preceded by its length.
fn blocks() {
    let mut encoder = Encoder::new();
    let mut all = vec![64];
    for list in [
        &[(":status", "200"), ("server", "nginx"), ("content-length", "13")][..],
        &[(":status", "200"), ("server", "nginx"), ("content-length", "14")],
        &[(":method", "GET"), (":path", "/a/longer/path?with=a&query=1"), ("cookie", "a=b")],
    ] {
        let mut block = Vec::new();
        encoder.encode(
            list.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())),
            &mut block,
        );
        all.push(block.len() as u8);
        all.extend_from_slice(&block);
        encoder.set_max_size(1000);
    }
    write("hpack", "blocks", &all);
}

/// HTTP/1.1 requests, preceded by the size of the pieces in which they arrive.
fn requests() {
    let request =
        |name: &str, text: &str| write("h1_request", name, &[&[7][..], text.as_bytes()].concat());
    request("get", "GET /plaintext?a=1 HTTP/1.1\r\nHost: h\r\nAccept: */*\r\n\r\n");
    request("pipeline", &"GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(4));
    request(
        "length",
        "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nHelloGET / \
                       HTTP/1.1\r\nHost: h\r\n\r\n",
    );
    request(
        "chunked",
        "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \
         chunked\r\n\r\n5;a=b\r\nHello\r\n0\r\nX-Trailer: y\r\n\r\n",
    );
    request("close", "HEAD / HTTP/1.0\r\nConnection: close\r\n\r\n");
    request(
        "upgrade",
        "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, \
                        HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
    );
}

/// HTTP/1.1 responses. Two bytes precede each: the kind of the request (0: any, 1: HEAD, 2: an
/// upgrade), and the size of the pieces in which the response arrives.
fn responses() {
    let response = |name: &str, asked: u8, text: &str| {
        write("h1_response", name, &[&[asked, 7][..], text.as_bytes()].concat());
    };
    let length = "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 13\r\n\r\nHello, World!";
    response("length", 0, length);
    response("again", 0, &length.repeat(3));
    response(
        "chunked",
        0,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"b\"\r\nHello\r\n8\r\n, \
         World!\r\n0\r\nX-Trailer: y\r\n\r\n",
    );
    response(
        "codings",
        0,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, ,chunked,\r\n\r\n0\r\n\r\n",
    );
    response("until-close", 0, "HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nHello, World!");
    response(
        "informational",
        0,
        &["HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", length].concat(),
    );
    response(
        "no-body",
        0,
        &["HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 304 \r\nETag: x\r\n\r\n", length].concat(),
    );
    response(
        "head",
        1,
        "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHTTP/1.1 404 Not \
                         Found\r\n\r\n",
    );
    response(
        "upgraded",
        2,
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: \
                             h2c\r\n\r\n\0\0\0",
    );
    response("not-upgraded", 2, length);
    response(
        "two-lengths",
        0,
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5, \
                                5\r\n\r\nHello",
    );
}

/// A simulated world as the target reads it: its fields in their order, numbers with the lowest
/// byte first.
struct World {
    connections: u8,
    pipeline: u8,
    rate: Option<u16>,
    total: Option<u8>,
    per_connection: Option<u8>,
    service_us: u16,
    cut: u8,
    refuse: u8,
    faults: [u8; 10],
    http2: Option<Streams>,
    pause_ms: u8,
    timeout_ms: u8,
    first_byte_ms: Option<u8>,
    ramp_ms: Option<u8>,
    stop_after: Option<u8>,
}

struct Streams {
    streams: u8,
    granted: Option<u8>,
    window: u16,
    body: u16,
    turn_away: u8,
    page: u8,
}

impl World {
    /// Nothing fails.
    const GOOD: World = World {
        connections: 3,
        pipeline: 0,
        rate: None,
        total: None,
        per_connection: None,
        service_us: 20,
        cut: 0,
        refuse: 0,
        faults: [0; 10],
        http2: None,
        pause_ms: 0,
        timeout_ms: 30,
        first_byte_ms: None,
        ramp_ms: None,
        stop_after: None,
    };

    fn bytes(&self) -> Vec<u8> {
        let maybe = |value: Option<u8>| value.map_or(vec![0], |value| vec![1, value]);
        let mut out = 1u64.to_le_bytes().to_vec();
        out.extend([self.connections, self.pipeline]);
        out.extend(self.rate.map_or(vec![0], |rate| [&[1][..], &rate.to_le_bytes()].concat()));
        // Poisson, if there is a rate.
        out.push(1);
        out.extend(maybe(self.total));
        out.extend(maybe(self.per_connection));
        out.extend(self.service_us.to_le_bytes());
        out.extend([0, self.cut, self.refuse]);
        out.extend(self.faults);
        match &self.http2 {
            None => out.push(0),
            Some(streams) => {
                out.extend([1, streams.streams]);
                out.extend(maybe(streams.granted));
                out.extend(streams.window.to_le_bytes());
                out.push(20);
                out.extend(streams.body.to_le_bytes());
                // The response is as long as the request.
                out.extend(streams.body.to_le_bytes());
                out.extend([streams.turn_away, streams.page]);
            }
        }
        out.extend([self.pause_ms, self.timeout_ms, 40]);
        out.extend(
            [maybe(self.first_byte_ms), maybe(self.ramp_ms), maybe(self.stop_after)].concat(),
        );
        out
    }
}

fn worlds() {
    let world = |name: &str, world: &World| write("worker", name, &world.bytes());
    world("closed", &World::GOOD);
    world("pipelined", &World { pipeline: 7, cut: 200, ..World::GOOD });
    world("open", &World { rate: Some(5000), pause_ms: 25, timeout_ms: 5, ..World::GOOD });
    world(
        "ramp",
        &World { rate: Some(2000), ramp_ms: Some(200), per_connection: Some(3), ..World::GOOD },
    );
    world("stopped", &World { total: Some(200), stop_after: Some(20), ..World::GOOD });
    let bad =
        World { refuse: 100, faults: [200; 10], first_byte_ms: Some(3), cut: 100, ..World::GOOD };
    world("bad", &bad);
    let streams = |turn_away, page| {
        Some(Streams { streams: 9, granted: Some(5), window: 500, body: 1000, turn_away, page })
    };
    world("streams", &World { http2: streams(0, 0), ..World::GOOD });
    world("bad-streams", &World { http2: streams(100, 0), ..bad });
    world("page", &World { http2: streams(0, 1), ..World::GOOD });
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The suites that come with dyno, and all tables that they do not use.
fn suites() {
    for entry in fs::read_dir(repository().join("suites")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let name = path.file_stem().unwrap().to_str().unwrap();
            write("suite_toml", name, &fs::read(&path).unwrap());
        }
    }
    write(
        "suite_toml",
        "requests",
        br#"subjects = ["null", "nginx/h2"]
[suite]
repeats = 2
order = "shuffled"
seed = 7
[limits]
cpus = 0.5
memory = "64MiB"
cpuset = "0-1,3"
[[workloads]]
name = "mix"
protocol = "h2c"
[[workloads.requests]]
weight = 3
method = "POST"
path = "/items/{seq}"
headers = { "X-A" = "{uuid}" }
body = "n={int:1:9}"
expect = { status = 200, contains = "ok" }
[load]
rates = ["100", "1k..5k"]
arrival = "poisson"
streams = 4
timeout = "1s"
"#,
    );
}

/// A trial of a golden run, without most of the histograms of its intervals.
fn trials() {
    let text = fs::read(repository().join("tests/golden/hello/run/trials/0000.json")).unwrap();
    let mut trial: serde_json::Value = serde_json::from_slice(&text).unwrap();
    shorten(&mut trial);
    write("archive_trial", "now", &serde_json::to_vec(&trial).unwrap());
}

/// Truncates lists to two elements, because more elements do not help a fuzzer.
fn shorten(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Array(list) => {
            list.truncate(2);
            list.iter_mut().for_each(shorten);
        }
        serde_json::Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

/// Texts in formats of other tools, each preceded by the number of the format.
fn imports() {
    let import = |name: &str, format: u8, text: &str| {
        write("imports", name, &[&[format][..], text.as_bytes()].concat());
    };
    import(
        "curl",
        0,
        "curl -X POST 'http://h:80/a?b=c' -H 'Accept: */*' --data-raw '{\"a\":1}' \
                       --compressed -k",
    );
    import(
        "curl-files",
        0,
        "curl --http2-prior-knowledge http://h/ -d @ab \\\n  -u user:pass -b \
                             'a=b' -I",
    );
    import(
        "har",
        1,
        r#"{"log":{"entries":[{"request":{"method":"POST","url":"http://h/1","headers":[{"name":"A","value":"b"}],"postData":{"mimeType":"text/plain","text":"{seq}"}}}]}}"#,
    );
    import(
        "vegeta",
        2,
        "GET http://h/1\nX-A: b\n\n# and another\nPOST http://h/2\nContent-Type: \
                         a/b\n@ab\n",
    );
    import(
        "vegeta-json",
        2,
        r#"{"method":"GET","url":"http://h/1","header":{"A":["b"]},"body":"aGk="}"#,
    );
    import("urls", 3, "http://h/1\n\n# a comment\nhttp://h/2?x={seq}\n");
    import("templates", 4, "{seq}-{uuid}-{int:1:9}-{csv:ab:1}-{{}}-{base64:ab}");
}
