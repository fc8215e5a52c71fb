//! Tests how requests are chosen, rendered and numbered.

use super::*;
use crate::cookies::CookieTransport;
use crate::expect::FullChecks;

fn render(head: Vec<RequestPart>, body: Vec<RequestPart>, draws: &mut Draws) -> String {
    let mut memory = Vec::new();
    let template = Template::Varying { head, body };
    String::from_utf8(template.bytes(draws, &mut memory).to_vec()).unwrap()
}

fn bytes(text: &str) -> RequestPart {
    RequestPart::Bytes(text.as_bytes().into())
}

#[test]
fn sequence_skips_other_workers_and_length_is_of_body() {
    let head = vec![
        bytes("n="),
        RequestPart::Sequence,
        bytes(" l="),
        RequestPart::BodyLength,
        bytes("\n"),
    ];
    let body = vec![bytes("<"), RequestPart::Sequence, bytes(">")];
    let mut draws = Draws::new(1, 1, 3);
    let requests: Vec<String> =
        (0..4).map(|_| render(head.clone(), body.clone(), &mut draws)).collect();
    assert_eq!(requests, ["n=1 l=3\n<1>", "n=4 l=3\n<4>", "n=7 l=3\n<7>", "n=10 l=4\n<10>"]);
}

#[test]
fn trials_take_numbers_before_those_of_load() {
    let request = |full_checks: FullChecks| CompiledRequest {
        template: Template::Varying { head: vec![RequestPart::Sequence], body: vec![] },
        expect: Expectation { full_checks: full_checks.into(), ..Expectation::default() },
        ..CompiledRequest::from_bytes(b"", RequestKind::Other, Expectation::default())
    };
    let check = || FullChecks { contains: Some(b"x".to_vec()), ..FullChecks::default() };
    let requests = [check(), FullChecks::default(), check()].map(|checks| (request(checks), 1));
    let traffic = Traffic::new(requests.into()).unwrap();
    let numbers = |traffic: &Traffic, worker: u64, workers: u64| {
        let mut draws = traffic.draws(1, worker, workers);
        let mut buffer = Vec::new();
        [0; 2].map(|_| {
            let bytes = traffic.requests()[0].template.bytes(&mut draws, &mut buffer);
            std::str::from_utf8(bytes).unwrap().parse::<u64>().unwrap()
        })
    };
    let trials: Vec<(usize, u64)> =
        traffic.trials().map(|(index, trial)| (index, numbers(&trial, 0, 1)[0])).collect();
    assert_eq!(trials, [(0, 0), (2, 1)]);
    assert_eq!([numbers(&traffic, 0, 2), numbers(&traffic, 1, 2)], [[2, 4], [3, 5]]);
}

#[test]
fn random_numbers_cover_inclusive_range() {
    let mut draws = Draws::new(9, 0, 1);
    let mut counts = [0u32; 5];
    for _ in 0..1000 {
        let n: usize = render(vec![RequestPart::Random(1, 3)], vec![], &mut draws).parse().unwrap();
        counts[n] += 1;
    }
    assert!(
        counts[0] == 0 && counts[4] == 0 && counts[1..4].iter().all(|n| *n > 250),
        "{counts:?}"
    );
    assert!(
        render(vec![RequestPart::Random(0, u64::MAX)], vec![], &mut draws).parse::<u64>().is_ok()
    );
    assert_eq!(render(vec![RequestPart::Random(7, 7)], vec![], &mut draws), "7");
}

#[test]
fn uuids_are_version_4_and_differ() {
    let mut draws = Draws::new(9, 0, 1);
    let (a, b) = (
        render(vec![RequestPart::Uuid], vec![], &mut draws),
        render(vec![RequestPart::Uuid], vec![], &mut draws),
    );
    assert_ne!(a, b);
    assert!(
        a.len() == 36 && a.as_bytes()[14] == b'4' && b"89ab".contains(&a.as_bytes()[19]),
        "{a}"
    );
}

#[test]
fn retried_request_has_same_bytes() {
    let template = Template::Varying {
        head: vec![RequestPart::Sequence, RequestPart::Uuid, RequestPart::Random(0, 99)],
        body: vec![],
    };
    let mut memory = Vec::new();
    // Numbers so far apart that their stored bits wrap around.
    for drawn in [0, 5, (1 << 31) - 2, (1 << 31) - 1, 1 << 31, (1 << 40) + 7] {
        let mut draws = Draws { drawn, ..Draws::new(3, 2, 5) };
        let mut draw = Draw::NONE;
        let first = template.bytes_for(&mut draw, &mut draws, None, &mut memory).to_vec();
        assert!(first.starts_with((2 + 5 * drawn).to_string().as_bytes()));
        for between in [0, 1, 3, 1000] {
            (0..between).for_each(|_| {
                assert_ne!(template.bytes(&mut draws, &mut memory), first);
            });
            assert_eq!(template.bytes_for(&mut draw, &mut draws, None, &mut memory), first);
        }
        assert_eq!(draws.drawn, drawn + 1005);
    }
}

#[test]
fn message_traits_are_parsed_from_bytes() {
    let parse =
        |text: &str| MessageTraits::from_template(&Template::Fixed(Arc::from(text.as_bytes())));
    let traits =
        |is_idempotent, closes| MessageTraits { is_idempotent, closes, ..MessageTraits::default() };
    assert_eq!(parse("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), traits(true, false));
    assert_eq!(parse("POST / HTTP/1.1\r\nConnection: x, Close\r\n\r\nbody"), traits(false, true));
    assert_eq!(parse("get / HTTP/1.1\r\n\r\n"), traits(false, false));
    assert_eq!(parse(""), MessageTraits::default());
    let head = vec![
        bytes("PUT /"),
        RequestPart::Sequence,
        bytes(" HTTP/1.1\r\nConnection: close\r\nContent-Length: "),
    ];
    let head = [head, vec![RequestPart::BodyLength, bytes("\r\n\r\n")]].concat();
    assert_eq!(
        MessageTraits::from_template(&Template::Varying { head, body: vec![] }),
        traits(true, true)
    );
}

#[test]
fn column_rows_repeat_in_order() {
    let rows: Arc<[Box<[u8]>]> = Arc::from([b"a".to_vec().into(), b"bc".to_vec().into()]);
    let mut draws = Draws::new(1, 0, 1);
    let requests: Vec<String> = (0..3)
        .map(|_| render(vec![RequestPart::Column(rows.clone())], vec![], &mut draws))
        .collect();
    assert_eq!(requests, ["a", "bc", "a"]);
}

#[test]
fn requests_are_drawn_by_weight() {
    let request =
        |n: u8| CompiledRequest::from_bytes(&[n], RequestKind::Other, Expectation::default());
    let traffic =
        Traffic::new(vec![(request(0), 800), (request(1), 200), (request(2), 0)]).unwrap();
    assert!(matches!(&traffic.choice, Choice::Table(table) if table.len() == 5));
    let mut draws = Draws::new(3, 0, 1);
    let first = (0..10_000).filter(|_| traffic.choose(&mut draws) == 0).count();
    // The standard deviation of this count is 40.
    assert!((7800..8200).contains(&first), "{first}");
    assert!(Traffic::new(vec![(request(0), 0)]).is_err());
    let lopsided =
        Traffic::new(vec![(request(0), 1), (request(1), 0), (request(2), 999_999_937)]).unwrap();
    assert!(matches!(lopsided.choice, Choice::Sums(_)));
    assert!((0..1000).all(|_| lopsided.choose(&mut draws) == 2));
}

#[test]
fn requests_of_visit_share_number_but_no_random_value() {
    let parts = || vec![RequestPart::Sequence, bytes(" "), RequestPart::Uuid];
    let template = Template::Varying { head: parts(), body: vec![] };
    let (mut draws, mut session) =
        (Draws::new(1, 0, 2), VisitorSession::new(0, CookieTransport::Plain));
    let (host, mut memory) = (Arc::from(&b"h"[..]), Vec::new());
    let mut render = |request: u16, session: &mut VisitorSession| {
        session.begin_request(request, &host, crate::Instant(0));
        let mut draw = Draw::NONE;
        let rendered = template.bytes_for(&mut draw, &mut draws, Some(session), &mut memory);
        String::from_utf8(rendered.to_vec()).unwrap()
    };
    let first = [0, 1].map(|request| render(request, &mut session));
    assert!(first.iter().all(|text| text.starts_with("0 ")) && first[0] != first[1], "{first:?}");
    assert_eq!(render(1, &mut session), first[1], "a retry");
    session.clear();
    assert!(render(0, &mut session).starts_with("2 "), "the next visit of this worker");
}
