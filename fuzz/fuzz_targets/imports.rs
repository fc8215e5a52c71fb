//! Any text: the readers of other tools' formats and of placeholders never panic, and what they
//! accept can be sent.
#![no_main]

use dyno_engine::Http2;
use dyno_model::Protocol;
use dyno_model::plan::{Body, Expect, Request, Workload};
use dyno_workload::{compile, import};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &str)| {
    let (format, text) = input;
    let read = |path: &str| {
        if path.len() % 2 == 0 { Ok(b"a,b\n1,2\n".to_vec()) } else { Err("no such file".into()) }
    };
    let imported = match format % 5 {
        0 => import::curl(text, &read),
        1 => import::har(text),
        2 => import::vegeta(text, &read),
        3 => import::urls(text),
        _ => Ok(import::Imports {
            requests: vec![import::ImportedRequest {
                location: "line 1".into(),
                method: "POST".into(),
                url: format!("http://h/{text}"),
                headers: vec![("X-A".into(), text.into())],
                body: Some(text.into()),
                options: Vec::new(),
                status: None,
                changes: import::Changes::default(),
            }],
            changes: import::Changes::default(),
            order: import::ImportOrder::Random,
        }),
    };
    for one in imported.into_iter().flat_map(|all| all.requests) {
        let path = one.url.splitn(4, '/').nth(3).unwrap_or_default();
        let request = Request {
            name: one.location,
            weight: 1,
            method: one.method,
            path: format!("/{path}"),
            headers: one.headers,
            body: one.body.map(Body),
            expect: Expect::default(),
            extract: Vec::new(),
        };
        let workload = Workload {
            name: "w".into(),
            protocol: Protocol::H1,
            requests: vec![request],
            page: None,
            sequence: None,
            requests_per_connection: None,
        };
        if let Ok(traffic) = compile::compile(&workload, "h", &Http2::default(), &read) {
            let (mut draws, mut made) = (dyno_engine::Draws::new(1, 0, 1), Vec::new());
            let bytes = traffic.requests()[0].template.bytes(&mut draws, &mut made);
            // One line for the request and an empty line after the fields, for any input.
            assert!(bytes.windows(4).any(|w| w == b"\r\n\r\n"));
        }
    }
});
