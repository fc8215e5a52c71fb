//! Tests secret members of JSON objects in texts that are not one JSON value.

use proptest::prelude::*;

use super::*;

#[test]
fn members_in_texts_that_are_not_json_are_withheld() {
    for (text, redacted) in [
        // Placeholders.
        (
            r#"{"id":{seq},"credentials":{"value":"a","n":7}}"#,
            r#"{"id":{seq},"credentials":{"value":"(withheld)","n":7}}"#,
        ),
        (r#"{"id":{seq},"password":{"n":7}}"#, r#"{"id":{seq},"password":{"n":(withheld)}}"#),
        (
            r#"{"id":{seq},"h":[{"value":"a","name":"token"}]}"#,
            r#"{"id":{seq},"h":[{"value":"(withheld)","name":"token"}]}"#,
        ),
        (
            r#"{"id":{seq},"auth":{"key":"a","mode":"b"}}"#,
            r#"{"id":{seq},"auth":{"key":"(withheld)","mode":"b"}}"#,
        ),
        (
            r#"{"id":{seq},"auth":{"login":{"password":{"v":"a"}},"key":"b"}}"#,
            r#"{"id":{seq},"auth":{"login":{"password":{"v":"(withheld)"}},"key":"(withheld)"}}"#,
        ),
        (
            r#"{"password":[["a"],["b"]],{x}}"#,
            r#"{"password":[["(withheld)"],["(withheld)"]],{x}}"#,
        ),
        // Several values.
        (
            r#"{"token":{"v":"a"}} {"token":{"v":"b"}}"#,
            r#"{"token":{"v":"(withheld)"}} {"token":{"v":"(withheld)"}}"#,
        ),
        // Line ends.
        ("got {\"token\"\r\n : \n\"a\"}", "got {\"token\"\r\n : \n\"(withheld)\"}"),
        ("{\"token\":\n[\"a\",\n\"b\"]\n}{", "{\"token\":\n[\"(withheld)\",\n\"(withheld)\"]\n}{"),
        ("{\"password\":\n[\"a\"]}", "{\"password\":[\"(withheld)\"]}"),
        ("{{\"password\":\n[\"a\"]}", "{{\"password\":\n[\"(withheld)\"]}"),
        (r#"{\"token\"\n:\n\"a\"}"#, r#"{\"token\"\n:\n\"(withheld)\"}"#),
    ] {
        assert_eq!(Secrets::default().fields(text), redacted);
    }
    for plain in [
        r#"{seq} {"session": {"theme": "dark", "n": [1]}, "name": "a", "value": "b"}"#,
        r#"usage {"tokens": {"prompt": 12, "completion": 30}, "auth": ["basic"]}"#,
        r#"{"token": {csv:users.csv:2}, "password": {rand:1000..9999}}"#,
        "missing \"token\":\nListening on port",
    ] {
        assert_eq!(Secrets::default().fields(plain), plain);
        assert_eq!(Secrets::default().log(plain), plain);
    }
}

/// Blanks of JSON (RFC 8259 §2).
fn blanks() -> impl Strategy<Value = String> {
    "[ \t\r\n]{0,3}"
}

/// A text in quotation marks, with escapes, that contains `core`.
fn quoted(core: &'static str) -> impl Strategy<Value = String> {
    let part = || {
        let parts = prop_oneof![
            "[a-zA-Z0-9 ,:;{}\\[\\]/+_.-]",
            Just("\\\"".to_string()),
            Just("\\\\".to_string()),
            Just("\\n".to_string()),
            Just("\\u00e9".to_string()),
        ];
        prop::collection::vec(parts, 0..4).prop_map(|parts| parts.concat())
    };
    (part(), part()).prop_map(move |(before, after)| format!("\"{before}{core}{after}\""))
}

/// Returns containers of values, with random blanks.
fn nested(leaf: BoxedStrategy<String>, depth: u32) -> BoxedStrategy<String> {
    leaf.prop_recursive(depth, 12, 3, |inner| {
        let item = (blanks(), inner, blanks()).prop_map(|(a, item, b)| a + &item + &b).boxed();
        let member = (blanks(), "[a-z]{1,4}", blanks(), item.clone())
            .prop_map(|(a, name, b, value)| format!("{a}\"{name}\"{b}:{value}"));
        prop_oneof![
            prop::collection::vec(item, 1..3).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec(member, 1..3).prop_map(|all| format!("{{{}}}", all.join(","))),
        ]
    })
    .boxed()
}

/// An object with a secret member among others.
fn object_with_secret() -> impl Strategy<Value = String> {
    const NAMES: [&str; 5] = ["token", "password", "apiKey", "client_secret", "pass\\u0077ord"];
    let secret = prop_oneof![quoted("Zq81"), Just("900817263".to_string())].boxed();
    let secret = nested(secret, 3);
    let plain = prop_oneof![
        quoted("w"),
        Just("null".to_string()),
        Just("-1.5e3".to_string()),
        Just("{seq}".to_string()),
        Just("{csv:users.csv:2}".to_string()),
    ];
    let others = || {
        let other = (blanks(), "[a-z]{1,3}", blanks(), nested(plain.clone().boxed(), 2))
            .prop_map(|(a, name, b, value)| format!("{a}\"x{name}\"{b}:{value}"));
        prop::collection::vec(other, 0..3)
    };
    let member = (blanks(), prop::sample::select(&NAMES[..]), blanks(), blanks(), secret)
        .prop_map(|(a, name, b, c, value)| format!("{a}\"{name}\"{b}:{c}{value}"));
    (others(), member, others(), blanks()).prop_map(|(before, member, after, end)| {
        let all: Vec<String> = before.into_iter().chain([member]).chain(after).collect();
        format!("{{{}{end}}}", all.join(","))
    })
}

proptest! {
    #[test]
    fn secret_member_in_any_text_is_withheld(
        objects in prop::collection::vec(nested(object_with_secret().boxed(), 2), 1..4),
        before in "[ -~\n]{0,12}",
        between in blanks(),
        after in "[ -~\n]{0,12}",
        is_quoted in any::<bool>(),
    ) {
        let mut text = objects.join(&between);
        if is_quoted {
            text = serde_json::Value::from(text).to_string();
        }
        let text = format!("{before}{text}{after}");
        for redacted in [Secrets::default().fields(&text), Secrets::default().log(&text)] {
            let is_left = redacted.contains("Zq81") || redacted.contains("900817263");
            prop_assert!(!is_left, "{text}\n{redacted}");
        }
    }
}
