//! Tests bodies that are changed in parts: numbers and members of JSON, and bytes that are not
//! UTF-8.

use super::*;

#[test]
fn json_keeps_digits_and_members_next_to_secret() {
    for (body, redacted) in [
        (
            r#"{"id":12345678901234567890123, "password":"a"}"#,
            r#"{"id":12345678901234567890123, "password":"(withheld)"}"#,
        ),
        (
            r#"{"n":1,"n":2,"password":"a","password":"b"}"#,
            r#"{"n":1,"n":2,"password":"(withheld)","password":"(withheld)"}"#,
        ),
        (r#"[{"n":1.50e3,"token":"a"}]"#, r#"[{"n":1.50e3,"token":"(withheld)"}]"#),
        (r#"{"n":"5","n":"6","q":"a:\"b\": 1"}"#, r#"{"n":"5","n":"6","q":"a:\"b\": 1"}"#),
        // The escapes hide the URL from a search of the text.
        (r#"{"n":1.0e0,"u":"http:\/\/u:pw@h\/"}"#, r#"{"n":1.0,"u":"http://u:(withheld)@h/"}"#),
    ] {
        assert_eq!(Secrets::default().fields(body), redacted);
    }
}

#[test]
fn value_with_bytes_that_are_not_utf8_is_withheld() {
    let part = |value: &[u8]| {
        let head: &[u8] = b"--x\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\n";
        [head, value, b"\r\n--x\r\n\xfe\r\n--x--"].concat()
    };
    let redact = |bytes: &[u8]| Secrets::default().bytes(bytes);
    assert_eq!(redact(&part(b"left\xffright\xc3")), part(MARK.as_bytes()));
    assert_eq!(redact(b"password=left\xffright&x=\xff"), b"password=(withheld)&x=\xff");
    assert_eq!(
        redact(b"\x00{\"password\":\"left\xffright\"}"),
        b"\x00{\"password\":\"(withheld)\"}"
    );
    // Private-use characters of the body remain.
    let private = [part("\u{f00ff}\u{10ffff}".as_bytes()), "\u{f00ff}\u{10ffff}".into()].concat();
    let kept = [part(MARK.as_bytes()), "\u{f00ff}\u{10ffff}".into()].concat();
    assert_eq!(redact(&private), kept);
    // The same value is erased elsewhere.
    let mut secrets = Secrets::default();
    let body = |value: &[u8]| dyno_model::plan::Body(part(value));
    let mut request = Request { body: Some(body(b"left1234\xff")), ..Request::default() };
    secrets.request(&mut request);
    request.body = Some(dyno_model::plan::Body(b"as left1234\xff".to_vec()));
    secrets.erase_from_request(&mut request);
    assert_eq!(request.body.unwrap().0, b"as (withheld)");
}
