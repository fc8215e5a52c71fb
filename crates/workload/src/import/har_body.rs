//! Restores the bodies of a HAR's requests: the recorded bytes, if the file has them.

use base64::Engine as _;
use dyno_config::quotation::quote;

use super::har_members::{NameValue, PostData};
use super::{BASE64, ChangeKind, ImportedRequest, encode_form_value};

/// Returns the body of a request. `sent_bytes`: the recorded length of the body. `None`: the
/// request has no body.
pub(super) fn body(
    data: &PostData,
    sent_bytes: Option<u64>,
    imported: &mut ImportedRequest,
) -> Result<Option<Vec<u8>>, String> {
    let body = match (data.encoding.as_deref(), data.text.as_str()) {
        (_, "") if data.params.is_empty() => None,
        (_, "") if data.mime_type.starts_with("multipart/") => {
            return Err(
                "the posted form has no recorded text\nhint: save the HAR with a tool that stores \
                 the text of forms"
                    .into(),
            );
        }
        (_, "") => Some(from_params(&data.params, imported)),
        (None | Some(""), text) => Some(from_text(text, data, sent_bytes, imported)),
        (Some("base64"), text) => Some(BASE64.decode(text).map_err(|error| {
            format!("postData.text: not base64: {error}\nhint: save the HAR again")
        })?),
        (Some(other), _) => {
            return Err(format!(
                "postData.encoding {}: unknown encoding\nhint: use \"base64\"",
                quote(other)
            ));
        }
    };
    count_length_difference(body.as_deref(), sent_bytes, imported);
    Ok(body)
}

/// Counts a body whose length differs from the recorded length. Causes are files that are missing
/// from a form's text, compressed bodies that were unpacked, and a wrong charset.
fn count_length_difference(
    body: Option<&[u8]>,
    sent_bytes: Option<u64>,
    imported: &mut ImportedRequest,
) {
    let location = imported.location.clone();
    match (body, sent_bytes) {
        (None, Some(1..)) => imported.changes.add(ChangeKind::MissingBody, &location),
        (Some(body), Some(sent)) if body.len() as u64 != sent => {
            imported.changes.add(
                ChangeKind::BodyLength,
                &format!("{location} ({sent} bytes recorded, {} sent)", body.len()),
            );
        }
        _ => {}
    }
}

/// Returns the bytes of a text in a HAR. The recorded length or the charset determines the
/// encoding, and UTF-8 is the default.
fn from_text(
    text: &str,
    data: &PostData,
    sent_bytes: Option<u64>,
    imported: &mut ImportedRequest,
) -> Vec<u8> {
    let utf8 = text.as_bytes().to_vec();
    if text.is_ascii() || sent_bytes == Some(utf8.len() as u64) {
        return utf8;
    }
    let latin1: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
    let charset = charset(data, imported);
    let is_latin1 = ["iso-8859-1", "latin1", "iso8859-1", "iso_8859-1"].contains(&charset.as_str());
    match latin1 {
        // Browsers write each byte of a binary body as one character.
        Some(bytes) if sent_bytes == Some(bytes.len() as u64) => return bytes,
        Some(bytes) if sent_bytes.is_none() && is_latin1 => return bytes,
        _ => {}
    }
    if !["", "utf-8", "utf8"].contains(&charset.as_str()) {
        let location = format!("{} ({charset})", imported.location);
        imported.changes.add(ChangeKind::Charset, &location);
    }
    utf8
}

/// Returns the charset of the body in lower case; empty: no charset is named.
fn charset(data: &PostData, imported: &ImportedRequest) -> String {
    let header =
        imported.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let media_type =
        header.map_or(data.mime_type.as_str(), |(_, value)| value).to_ascii_lowercase();
    let charset = media_type.split(';').find_map(|part| part.trim().strip_prefix("charset="));
    charset.unwrap_or_default().trim_matches(['"', '\'', ' ']).to_string()
}

/// Encoding of the names and values of a form in a HAR: tools differ, and the format does not
/// specify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormEncoding {
    /// Percent-encoded, as they were sent.
    Encoded,
    /// Not encoded, as the user typed them.
    Decoded,
    /// The encoded and the decoded text are equal, except for a `+`.
    Either,
}

impl FormEncoding {
    fn detect(params: &[NameValue]) -> FormEncoding {
        let texts = || params.iter().flat_map(|pair| [pair.name.as_bytes(), pair.value.as_bytes()]);
        let has_escape = |text: &[u8]| (0..text.len()).any(|i| is_escape(&text[i..]));
        let has_bare_percent =
            |text: &[u8]| (0..text.len()).any(|i| text[i] == b'%' && !is_escape(&text[i..]));
        // Every form encoder encodes all other characters.
        let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"*-._~+".contains(b);
        if texts().any(has_bare_percent) {
            FormEncoding::Decoded
        } else if texts().any(has_escape) {
            FormEncoding::Encoded
        } else if texts().flatten().all(is_plain) {
            FormEncoding::Either
        } else {
            FormEncoding::Decoded
        }
    }
}

fn is_escape(text: &[u8]) -> bool {
    matches!(text, [b'%', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit())
}

fn from_params(params: &[NameValue], imported: &mut ImportedRequest) -> Vec<u8> {
    let encoding = FormEncoding::detect(params);
    let has_plus = params.iter().any(|pair| pair.name.contains('+') || pair.value.contains('+'));
    let note = match encoding {
        FormEncoding::Encoded => " (assumed to be encoded)",
        FormEncoding::Decoded => " (assumed to be unencoded)",
        FormEncoding::Either if has_plus => " (+ is sent unchanged)",
        FormEncoding::Either => "",
    };
    imported.changes.add(ChangeKind::FormParams, &format!("{}{note}", imported.location.clone()));
    let encode = |text: &str, extra: &[u8]| match encoding {
        FormEncoding::Decoded => encode_form_value(text.as_bytes()),
        FormEncoding::Encoded | FormEncoding::Either => escape_encoded(text, extra),
    };
    let pair =
        |pair: &NameValue| format!("{}={}", encode(&pair.name, b"="), encode(&pair.value, b""));
    params.iter().map(pair).collect::<Vec<_>>().join("&").into_bytes()
}

/// Encodes those bytes of an already encoded text that a form cannot have, and the bytes in
/// `extra`.
fn escape_encoded(text: &str, extra: &[u8]) -> String {
    let byte = |&b: &u8| match b {
        b' ' => "+".into(),
        b if b.is_ascii_graphic() && b != b'&' && !extra.contains(&b) => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    text.as_bytes().iter().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the body of a request with this `postData` and headers, and the notes about it.
    fn posted(data: &str, headers: &[(&str, &str)], sent_bytes: Option<u64>) -> (Vec<u8>, String) {
        let data: PostData = serde_json::from_str(data).unwrap();
        let mut imported = ImportedRequest::new("entry 1".into(), "POST", "http://a/");
        imported.headers = headers.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect();
        let body = body(&data, sent_bytes, &mut imported).unwrap();
        (body.unwrap_or_default(), imported.changes.lines().join("\n"))
    }

    #[test]
    fn encoded_params_not_encoded_again() {
        let form = |pairs: &[(&str, &str)]| {
            let params: Vec<_> =
                pairs.iter().map(|(n, v)| serde_json::json!({ "name": n, "value": v })).collect();
            let (body, note) =
                posted(&serde_json::json!({ "params": params }).to_string(), &[], None);
            (String::from_utf8(body).unwrap(), note)
        };
        let cases: [(&[(&str, &str)], &str, &str); 8] = [
            (
                &[("field%5B1%5D", "value%5B1%5D"), ("field%5B2%5D", "a+b c")],
                "field%5B1%5D=value%5B1%5D&field%5B2%5D=a+b+c",
                "(assumed to be encoded)",
            ),
            (
                &[("a", "x%26y=z"), ("b&", "c\u{e4}")],
                "a=x%26y=z&b%26=c%C3%A4",
                "(assumed to be encoded)",
            ),
            (&[("a b", "\u{fc}&"), ("c", "")], "a+b=%C3%BC%26&c=", "(assumed to be unencoded)"),
            (&[("a", "100%"), ("b", "%41")], "a=100%25&b=%2541", "(assumed to be unencoded)"),
            (&[("a", "x+y z")], "a=x%2By+z", "(assumed to be unencoded)"),
            (&[("mail", "me@a.b")], "mail=me%40a.b", "(assumed to be unencoded)"),
            (&[("q", "a+b")], "q=a+b", "(+ is sent unchanged)"),
            (&[("q", "ab")], "q=ab", "entry 1"),
        ];
        for (pairs, expected, note_end) in cases {
            let (body, note) = form(pairs);
            assert_eq!(body, expected, "{pairs:?}");
            assert!(
                note.contains("bodies made from postData.params") && note.ends_with(note_end),
                "{note}"
            );
        }
    }

    #[test]
    fn text_becomes_recorded_bytes() {
        let text = r#"{"text": "\u00e4\u00ff"}"#;
        assert_eq!(posted(text, &[], Some(2)), (vec![0xe4, 0xff], String::new()));
        assert_eq!(posted(text, &[], Some(4)).0, "\u{e4}\u{ff}".as_bytes());
        let latin = [("content-type", "text/plain; charset=ISO-8859-1")];
        assert_eq!(posted(text, &latin, None), (vec![0xe4, 0xff], String::new()));
        let (body, note) =
            posted(r#"{"text": "\u20ac", "mimeType": "a/b; charset=\"koi8-r\""}"#, &[], None);
        assert!(body == "\u{20ac}".as_bytes() && note.ends_with("entry 1 (koi8-r)"), "{note}");
        // A text that equals the params is the sent body.
        let both = r#"{"text": "a=%5B", "params": [{"name": "a", "value": "["}]}"#;
        assert_eq!(posted(both, &[], None), (b"a=%5B".to_vec(), String::new()));
    }

    #[test]
    fn body_of_other_length_listed_as_change() {
        let (_, note) = posted(r#"{"text": "{}"}"#, &[("content-encoding", "gzip")], Some(22));
        assert!(note.ends_with("entry 1 (22 bytes recorded, 2 sent)"), "{note}");
        let (_, note) = posted(r#"{"text": "e30=", "encoding": "base64"}"#, &[], Some(3));
        assert!(note.ends_with("entry 1 (3 bytes recorded, 2 sent)"), "{note}");
        let (body, note) = posted("{}", &[], Some(5));
        assert!(body.is_empty() && note.contains("bodies omitted, because the HAR"), "{note}");
        assert_eq!(posted("{}", &[], None).1, "");
    }
}
