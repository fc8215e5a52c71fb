//! HAR 1.2, as browsers and proxies save it (<http://www.softwareishard.com/blog/har-12-spec/>).

use base64::Engine as _;
use serde::Deserialize;

use super::{BASE64, Imported, Url, form_encoded, is_one_of, json_error, some};

/// Headers that belong to the connection on which a request was seen, not to the request (RFC 9110 §7.6.1).
const HOP_BY_HOP: [&str; 7] =
    ["connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "http2-settings"];

/// Reads the requests of a HAR in their order. Those to other schemes than http and https (data, ws, extensions) are
/// left out, but count in "entry 2". `Err`: it is no HAR, an entry is wrong, or none is left.
pub fn har(text: &str) -> Result<Vec<Imported>, String> {
    let har: Har = serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|error| {
        let (line, column, message) = (error.line(), error.column(), json_error(&error));
        format!("line {line}, column {column}: this is not a HAR ({message}); save one from the browser's network tab")
    })?;
    let entries = har.log.entries.into_iter().enumerate();
    let requests = entries.filter_map(|(i, entry)| imported(&format!("entry {}", i + 1), entry).transpose());
    some(
        requests.collect::<Result<_, _>>()?,
        "the HAR has no requests over http or https; record some, and save it anew",
    )
}

#[derive(Deserialize)]
struct Har {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    /// Read on its own, so that an error can name its entry.
    request: serde_json::Value,
    /// The recorded response. It is read leniently: a request that was never answered has anything here.
    #[serde(default)]
    response: serde_json::Value,
}

#[derive(Deserialize)]
struct Request {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Pair>,
    #[serde(rename = "postData")]
    post_data: Option<PostData>,
}

#[derive(Deserialize)]
struct Pair {
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PostData {
    #[serde(default)]
    mime_type: String,
    #[serde(default)]
    text: String,
    encoding: Option<String>,
    #[serde(default)]
    params: Vec<Pair>,
}

fn imported(place: &str, entry: Entry) -> Result<Option<Imported>, String> {
    let request: Request = serde_json::from_value(entry.request).map_err(|error| {
        format!("{place}: this is not a request ({}); save the HAR anew", json_error(&error))
    })?;
    if !request.url.split_once(':').is_some_and(|(scheme, _)| is_one_of(scheme, &["http", "https"])) {
        return Ok(None);
    }
    let mut imported = Imported::new(place.into(), &request.method, &request.url);
    let authority = Url::parse(&request.url).map_or("", |url| url.authority);
    let headers = request.headers.into_iter().filter(|header| is_kept(header, authority));
    imported.headers = headers.map(|header| (header.name, header.value)).collect();
    imported.status = recorded_status(&entry.response);
    if let Some(data) = request.post_data {
        imported.body = body(&data).map_err(|error| format!("{place}: {error}"))?;
        if imported.body.is_some() && !imported.has("content-type") && !data.mime_type.is_empty() {
            imported.headers.push(("Content-Type".into(), data.mime_type));
        }
    }
    imported.checked().map(Some)
}

/// `None`: nothing was answered, which browsers record as a status of 0.
fn recorded_status(response: &serde_json::Value) -> Option<u16> {
    let status = response.get("status")?.as_u64()?;
    u16::try_from(status).ok().filter(|status| (200..600).contains(status))
}

fn is_kept(header: &Pair, authority: &str) -> bool {
    let derived = header.name.eq_ignore_ascii_case("host") && header.value.eq_ignore_ascii_case(authority);
    !(derived || header.name.starts_with(':') || is_one_of(&header.name, &HOP_BY_HOP))
}

/// `None`: nothing was posted.
fn body(data: &PostData) -> Result<Option<Vec<u8>>, String> {
    match (data.encoding.as_deref(), data.text.as_str()) {
        (_, "") if data.params.is_empty() => Ok(None),
        (_, "") if data.mime_type.starts_with("multipart/") => {
            Err("the posted form came without its text; save the HAR with a tool that keeps it".into())
        }
        (_, "") => Ok(Some(params(&data.params).into_bytes())),
        (None | Some(""), text) => Ok(Some(text.into())),
        (Some("base64"), text) => BASE64
            .decode(text)
            .map(Some)
            .map_err(|error| format!("postData.text is not base64 ({error}); save the HAR anew")),
        (Some(other), _) => {
            Err(format!("postData.encoding is {other:?}; only \"base64\" is known, so write that"))
        }
    }
}

fn params(params: &[Pair]) -> String {
    let pair = |p: &Pair| format!("{}={}", form_encoded(p.name.as_bytes()), form_encoded(p.value.as_bytes()));
    params.iter().map(pair).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A HAR with these requests.
    fn har_of(requests: &[&str]) -> Result<Vec<Imported>, String> {
        let entries: Vec<_> = requests.iter().map(|r| format!(r#"{{"time": 1, "request": {r}}}"#)).collect();
        har(&format!("\u{feff}{{\"log\": {{\"version\": \"1.2\", \"entries\": [{}]}}}}", entries.join(",")))
    }

    /// Headers and body of a request with these members.
    fn read(members: &str) -> Result<String, String> {
        let mut all = har_of(&[&format!(r#"{{"method": "POST", "url": "https://A.b:1/x", {members}}}"#)])?;
        let Imported { headers, body, .. } = all.remove(0);
        let headers: Vec<_> = headers.into_iter().map(|(n, v)| format!("{n}={v}")).collect();
        Ok(format!(
            "{} {:?}",
            headers.join(" "),
            body.map(|body| String::from_utf8_lossy(&body).into_owned())
        ))
    }

    #[test]
    fn only_what_the_connection_does_not_decide_is_kept() {
        let names = "host :method accept-encoding Connection content-length Transfer-Encoding X-A TE";
        let with = |value: &str| {
            let pair = |name: &str| format!(r#"{{"name": "{name}", "value": "{value}"}}"#);
            read(&format!(r#""headers": [{}]"#, names.split(' ').map(pair).collect::<Vec<_>>().join(",")))
        };
        assert_eq!(with("a.b:1").unwrap(), "accept-encoding=a.b:1 X-A=a.b:1 None");
        assert_eq!(with("a.b").unwrap(), "host=a.b accept-encoding=a.b X-A=a.b None");
    }

    #[test]
    fn bodies_are_text_base64_or_params() {
        let params = r#""params": [{"name": "a b", "value": "ü&"}, {"name": "c", "fileName": "d"}]"#;
        let posted = |data: &str| read(&format!(r#""headers": [], "postData": {data}"#));
        assert_eq!(posted(r#"{"text": "ä"}"#).unwrap(), r#" Some("ä")"#);
        assert_eq!(posted(r#"{"text": "4oKs", "encoding": "base64"}"#).unwrap(), r#" Some("€")"#);
        assert_eq!(posted(&format!("{{{params}}}")).unwrap(), r#" Some("a+b=%C3%BC%26&c=")"#);
        assert_eq!(posted(&format!(r#"{{"text": "x", {params}}}"#)).unwrap(), r#" Some("x")"#);
        assert_eq!(posted(r#"{"mimeType": "a/b", "text": "", "params": []}"#).unwrap(), " None");
        assert_eq!(posted("null").unwrap(), " None");
        let error = |data: &str| posted(data).unwrap_err();
        assert!(error(r#"{"text": "x", "encoding": "rot13"}"#).contains("only \"base64\" is known"));
        assert!(error(r#"{"text": "?", "encoding": "base64"}"#).starts_with("entry 1: postData.text is not"));
        assert!(
            error(&format!(r#"{{"mimeType": "multipart/form-data", {params}}}"#))
                .contains("without its text")
        );
    }

    #[test]
    fn the_type_of_a_body_stands_in_for_a_missing_header() {
        let data = r#""postData": {"mimeType": "text/x", "text": "1"}"#;
        assert_eq!(read(data).unwrap(), r#"Content-Type=text/x Some("1")"#);
        let own = r#""headers": [{"name": "content-type", "value": "text/y"}]"#;
        assert_eq!(read(&format!("{own}, {data}")).unwrap(), r#"content-type=text/y Some("1")"#);
    }

    #[test]
    fn other_schemes_are_left_out_but_counted() {
        let urls =
            ["data:text/plain,x", "wss://a/", "HTTP://a/#b", "chrome-extension://x/y.js", "blob:http://a/1"];
        let requests = urls.map(|url| format!(r#"{{"method": "GET", "url": "{url}", "headers": []}}"#));
        let requests = requests.each_ref().map(String::as_str);
        let read = har_of(&requests).unwrap();
        assert_eq!((read.len(), read[0].place.as_str(), read[0].url.as_str()), (1, "entry 3", "http://a/"));
        assert!(har_of(&requests[..2]).unwrap_err().contains("no requests over http"));
    }

    #[test]
    fn the_recorded_status_is_kept_if_there_was_one() {
        let entry = |response: &str| {
            let entry = format!(r#"{{"request": {{"method": "GET", "url": "http://a/"}} {response}}}"#);
            har(&format!(r#"{{"log": {{"entries": [{entry}]}}}}"#)).unwrap()[0].status
        };
        assert_eq!(entry(r#", "response": {"status": 404}"#), Some(404));
        assert_eq!(entry(r#", "response": {"status": 0}"#), None);
        assert_eq!(entry(r#", "response": {"status": "x"}"#), None);
        assert_eq!(entry(""), None);
    }

    #[test]
    fn what_is_no_har_is_said_with_its_place() {
        assert!(
            har("{\n\"log\": 3}")
                .unwrap_err()
                .starts_with("line 2, column 8: this is not a HAR (invalid type")
        );
        assert!(har("curl http://a/").unwrap_err().contains("network tab"));
        let error = har_of(&[r#"{"method": "GET", "url": "data:"}"#, r#"{"method": "GET"}"#]).unwrap_err();
        assert!(error.starts_with("entry 2: this is not a request (missing field `url`)"), "{error}");
        assert!(
            har_of(&[r#"{"method": "GET", "url": "http://a/ b"}"#]).unwrap_err().contains("percent-encode")
        );
    }
}
