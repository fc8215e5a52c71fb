//! Tests which cookies a visitor keeps, and which it sends.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const HOST: &str = "app.example.test";
const NOW: Instant = Instant(1_000);
/// 2026-01-01.
const TIME_S: i64 = 1_767_225_600;

fn scope(path: &str) -> CookieScope<'_> {
    CookieScope { host: HOST.as_bytes(), path: path.as_bytes(), transport: CookieTransport::Tls }
}

fn sent(jar: &CookieJar, scope: &CookieScope<'_>, now: Instant) -> String {
    let mut out = Vec::new();
    jar.put(scope, now, b"", &mut out);
    String::from_utf8(out).unwrap()
}

/// Returns the cookies that a request for `/a/b` sends after a response to `/a/x` with these
/// fields.
fn sent_after(fields: &[&str]) -> String {
    let mut jar = CookieJar::default();
    fields.iter().for_each(|field| jar.receive(field.as_bytes(), &scope("/a/x"), TIME_S, NOW));
    sent(&jar, &scope("/a/b"), NOW)
}

#[test]
fn fields_are_parsed_as_browsers_do() {
    for (fields, expected) in [
        (&["a=1"][..], "a=1"),
        (&[" a = 1 ; Path = / "], "a=1"),
        (&["a=b=c"], "a=b=c"),
        (&["a=\"x y\""], "a=\"x y\""),
        (&["a="], "a="),
        (&["a", "=1", ""], ""),
        (&["a=1", "b=2", "a=3"], "a=3; b=2"),
        (&["a=1; HttpOnly; SameSite=Lax; Priority=High"], "a=1"),
        (&["a=\x012"], ""),
    ] {
        assert_eq!(sent_after(fields), expected, "{fields:?}");
    }
}

#[test]
fn paths_limit_and_order_cookies() {
    for (fields, expected) in [
        (&["a=1; Path=/a"][..], "a=1"),
        (&["a=1; Path=/a/"], "a=1"),
        (&["a=1; Path=/a/b"], "a=1"),
        (&["a=1; Path=/a/b/c", "b=2; Path=/aa"], ""),
        // Without a valid Path, the folder of the request is the path.
        (&["a=1; Path=x"], "a=1"),
        (&["a=1; Path=/", "b=2", "c=3; Path=/a"], "b=2; c=3; a=1"),
        // The same name with another path is another cookie.
        (&["a=1; Path=/", "a=2; Path=/a"], "a=2; a=1"),
    ] {
        assert_eq!(sent_after(fields), expected, "{fields:?}");
    }
    let mut jar = CookieJar::default();
    jar.receive(b"a=1", &scope("/login"), TIME_S, NOW);
    assert_eq!(sent(&jar, &scope("/other/page"), NOW), "a=1");
    jar.receive(b"b=2", &scope("/api/login"), TIME_S, NOW);
    assert_eq!(sent(&jar, &scope("/api"), NOW), "b=2; a=1");
    assert_eq!(sent(&jar, &scope("/apis"), NOW), "a=1");
}

#[test]
fn cookies_of_other_domains_are_ignored() {
    for (field, expected) in [
        ("a=1; Domain=app.example.test", "a=1"),
        ("a=1; Domain=.EXAMPLE.test", "a=1"),
        ("a=1; Domain=", "a=1"),
        ("a=1; Domain=other.test", ""),
        ("a=1; Domain=ample.test", ""),
        ("a=1; Domain=x.app.example.test", ""),
    ] {
        assert_eq!(sent_after(&[field]), expected, "{field}");
    }
    let mut jar = CookieJar::default();
    let at = |host: &'static [u8]| CookieScope { host, ..scope("/") };
    jar.receive(b"a=1; Domain=example.test", &at(b"app.example.test"), TIME_S, NOW);
    jar.receive(b"b=2", &at(b"app.example.test"), TIME_S, NOW);
    assert_eq!(sent(&jar, &at(b"www.example.test"), NOW), "a=1");
    let mut jar = CookieJar::default();
    jar.receive(b"a=1; Domain=0.0.1", &at(b"127.0.0.1"), TIME_S, NOW);
    jar.receive(b"b=2; Domain=127.0.0.1", &at(b"127.0.0.1"), TIME_S, NOW);
    assert_eq!(sent(&jar, &at(b"127.0.0.1"), NOW), "b=2");
}

#[test]
fn expired_cookies_are_removed() {
    for (fields, expected) in [
        (&["a=1", "a=; Max-Age=0"][..], ""),
        (&["a=1", "a=; Max-Age=-1"], ""),
        (&["a=1", "a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], ""),
        (&["a=1; Max-Age=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], "a=1"),
        (&["a=1; Max-Age=x"], "a=1"),
        (&["a=1; Max-Age=99999999999999999999"], "a=1"),
        (&["a=1; Expires=Fri, 31 Dec 2100 00:00:00 GMT"], "a=1"),
        (&["a=1; Expires=never"], "a=1"),
        (&["a=1; Expires=Wed, 31 Dec 2025 23:59:59 GMT"], ""),
        (&["a=1; Expires=Thu, 01 Jan 2026 00:00:01 GMT"], "a=1"),
        (&["a=1", "a=; Max-Age=0; Path=/"], "a=1"),
    ] {
        assert_eq!(sent_after(fields), expected, "{fields:?}");
    }
    let mut jar = CookieJar::default();
    jar.receive(b"a=1; Max-Age=2", &scope("/"), TIME_S, NOW);
    assert_eq!(sent(&jar, &scope("/"), NOW.plus(1_999_999_999)), "a=1");
    assert_eq!(sent(&jar, &scope("/"), NOW.plus(2_000_000_000)), "");
    let date = seconds_since_epoch(b"Tue, 01 Jan 2030 00:00:00 GMT").unwrap();
    jar.receive(b"a=1; Expires=Mon, 31 Dec 2029 23:00:00 GMT", &scope("/"), date, NOW);
    assert_eq!(sent(&jar, &scope("/"), NOW), "", "an hour before the server's Date");
}

#[test]
fn secure_cookies_need_tls() {
    let plain = CookieScope { transport: CookieTransport::Plain, ..scope("/") };
    let mut jar = CookieJar::default();
    jar.receive(b"a=1; Secure", &plain, TIME_S, NOW);
    assert_eq!(sent(&jar, &plain, NOW), "");
    jar.receive(b"a=1; Secure", &scope("/"), TIME_S, NOW);
    assert_eq!(sent(&jar, &scope("/"), NOW), "a=1");
}

#[test]
fn prefixes_of_names_need_their_attributes() {
    for (field, expected) in [
        ("__Secure-a=1; Secure", "__Secure-a=1"),
        ("__Secure-a=1; Secure; Domain=example.test", "__Secure-a=1"),
        ("__Secure-a=1", ""),
        ("__secure-a=1", ""),
        ("__Host-a=1; Secure; Path=/", "__Host-a=1"),
        ("__Host-a=1; Secure; Path=/; Domain=", "__Host-a=1"),
        ("__Host-a=1; Path=/", ""),
        ("__Host-a=1; Secure", ""),
        ("__Host-a=1; Secure; Path=/a", ""),
        ("__HOST-a=1; Secure; Path=/; Domain=app.example.test", ""),
        ("__Host=1", "__Host=1"),
    ] {
        assert_eq!(sent_after(&[field]), expected, "{field}");
    }
}

#[test]
fn full_jar_drops_oldest_cookie() {
    let mut jar = CookieJar::default();
    for i in 0..=limits::COOKIES_PER_VISITOR {
        jar.receive(format!("c{i}=x").as_bytes(), &scope("/"), TIME_S, NOW);
    }
    let text = sent(&jar, &scope("/"), NOW);
    assert_eq!(text.split("; ").count(), limits::COOKIES_PER_VISITOR);
    assert!(text.starts_with("c1=x; c2=x"), "{text}");
    let long = format!("long={}", "x".repeat(limits::COOKIE_BYTES));
    jar.receive(long.as_bytes(), &scope("/"), TIME_S, NOW);
    assert!(!sent(&jar, &scope("/"), NOW).contains("long"));
}

proptest! {
    /// Whatever a server sends, the jar stays bounded and the field of a request stays one line.
    #[test]
    fn any_field_keeps_jar_bounded(fields in vec(vec(any::<u8>(), 0..60), 0..200)) {
        let mut jar = CookieJar::default();
        for field in &fields {
            jar.receive(field, &scope("/a/b"), TIME_S, NOW);
        }
        prop_assert!(jar.cookies.len() <= limits::COOKIES_PER_VISITOR);
        let mut out = Vec::new();
        jar.put(&scope("/a/b"), NOW, b"", &mut out);
        let is_safe = |byte: &u8| (*byte >= b' ' || *byte == b'\t') && *byte != 0x7F;
        prop_assert!(out.iter().all(is_safe));
    }

    /// The jar sends the last value of each cookie that was not deleted.
    #[test]
    fn jar_equals_map_of_last_values(
        events in vec((0..6u8, proptest::option::of(0..100u8)), 0..60),
    ) {
        let mut jar = CookieJar::default();
        let mut expected: Vec<(u8, u8)> = Vec::new();
        for (name, value) in events {
            let field = match value {
                Some(value) => format!("n{name}={value}; Path=/"),
                None => format!("n{name}=; Max-Age=0; Path=/"),
            };
            jar.receive(field.as_bytes(), &scope("/"), TIME_S, NOW);
            let known = expected.iter().position(|(known, _)| *known == name);
            match (known, value) {
                (Some(at), Some(value)) => expected[at].1 = value,
                (Some(at), None) => drop(expected.remove(at)),
                (None, Some(value)) => expected.push((name, value)),
                (None, None) => {}
            }
        }
        let pairs: Vec<String> = expected.iter().map(|(n, v)| format!("n{n}={v}")).collect();
        prop_assert_eq!(sent(&jar, &scope("/"), NOW), pairs.join("; "));
    }
}
