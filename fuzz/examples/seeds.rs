//! Writes the seeds of the targets that speak HTTP: small conversations that are right, so that fuzzing begins deep
//! inside. `cargo run --example seeds` in this folder, after what a target makes of its input has changed.

#[path = "../../crates/wire/tests/talk/mod.rs"]
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
}

fn write(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder).unwrap();
    // The names that libFuzzer gives begin with hexadecimal digits, and are ignored by git.
    fs::write(folder.join(format!("seed-{name}")), bytes).unwrap();
}

fn bytes(steps: &[Step]) -> Vec<u8> {
    let said = |step: &Step| match step {
        Step::Says(bytes) => bytes.clone(),
        _ => Vec::new(),
    };
    steps.iter().flat_map(said).collect()
}

/// Answers of HTTP/1.x: what is tolerated on purpose, and close by what is not. They go before whether a HEAD was asked
/// and the length of the pieces.
fn messages() {
    let answer =
        |name: &str, text: &str| write("h1_response", name, &[&[0, 5][..], text.as_bytes()].concat());
    answer("length", "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\nConnection: , close\r\n\r\nok");
    answer(
        "interim",
        "HTTP/1.1 103 E\r\nLink: a\r\n\r\nHTTP/1.1 204\r\n\r\nHTTP/1.0 200 OK\r\n\r\nuntil close",
    );
    answer(
        "extensions",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: x;a=\"b, c\", ,chunked,\r\n\r\n2 ; a = \"x\\\";\" ;b\r\nok\r\n0\r\nT: u\r\n\r\n",
    );
    answer("junk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 erfrferferf\r\nok\r\n0\r\n\r\n");
    answer("carriage-return", "HTTP/1.1 200 OK\rContent-Length: 0\r\n\r\n");
    answer(
        "twice",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
}

/// What servers say to a client with these two bytes' settings and requests.
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
    // Stream 1 is given up when its head comes.
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

/// What our client says.
fn servers() {
    let server = |name: &str, requests: &[Request], steps: &[Step]| {
        let mut talk =
            Talk::new(dyno_wire::h2::settings::Own { header_table_size: 100, ..Default::default() });
        talk.requests.extend(requests);
        talk.hear(&bytes(&[settings(&[])]));
        talk.hear(&bytes(steps));
        let said = talk.written.strip_prefix(PREFACE).unwrap();
        write("h2_server", name, &[&[1, 9][..], said].concat());
    };
    server("gets", &[Request::get(); 4], &[]);
    server("posts", &[Request::post(10), Request::post(900)], &[window(0, 100)]);
    server("cancels", &[Request::get(), Request::get()], &[fields(1, &[("a", "b")], 0), ping(&[0; 8], 0)]);
    server("long", &[Request { field: 600, ..Request::get() }], &[settings(&[(HEADER_TABLE_SIZE, 0)])]);
}

/// Header blocks, each behind its length.
fn blocks() {
    let mut encoder = Encoder::new();
    let mut all = vec![64];
    for list in [
        &[(":status", "200"), ("server", "nginx"), ("content-length", "13")][..],
        &[(":status", "200"), ("server", "nginx"), ("content-length", "14")],
        &[(":method", "GET"), (":path", "/a/longer/path?with=a&query=1"), ("cookie", "a=b")],
    ] {
        let mut block = Vec::new();
        encoder.encode(list.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())), &mut block);
        all.push(block.len() as u8);
        all.extend_from_slice(&block);
        encoder.set_max_size(1000);
    }
    write("hpack", "blocks", &all);
}
