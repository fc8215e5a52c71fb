//! Imports HAR 1.2 files of browsers and proxies
//! (<http://www.softwareishard.com/blog/har-12-spec/>).

use serde::Deserialize;
use serde_json::Value;

use super::har_body::body;
use super::har_members::{NameValue, PostData};
use super::{
    ChangeKind, Changes, ImportedRequest, Imports, Url, is_one_of, json_error_text,
    require_requests,
};

/// Headers that belong to the recorded connection, not to the request (RFC 9110 §7.6.1).
const HOP_BY_HOP: [&str; 7] =
    ["connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "http2-settings"];

/// Reads the requests of a HAR in order. Requests with other schemes than http and https (data, ws,
/// extensions) are omitted, but positions such as "entry 2" include them. `Err`: the text is not a
/// HAR, an entry is invalid, or no request is left.
pub fn har(text: &str) -> Result<Imports, String> {
    let har: Har = serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|error| {
        let (line, column, message) = (error.line(), error.column(), json_error_text(&error));
        format!(
            "line {line}, column {column}: not a HAR file: {message}\nhint: save one from the \
             browser's network tab"
        )
    })?;
    let (mut requests, mut changes) = (Vec::new(), Changes::default());
    for (i, entry) in har.log.entries.into_iter().enumerate() {
        requests.extend(import_entry(&format!("entry {}", i + 1), entry, &mut changes)?);
    }
    if requests.len() > 1 {
        requests.iter().for_each(|_| changes.add(ChangeKind::Timing, ""));
    }
    require_requests(
        requests,
        changes,
        "the HAR has no requests over http or https\nhint: record some requests, and save the HAR \
         again",
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
    /// Read separately, so that an error can name its entry.
    request: Value,
    /// The recorded response, which is read leniently: if there was no response, tools write
    /// arbitrary content.
    #[serde(default)]
    response: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<NameValue>,
    post_data: Option<PostData>,
    // Read leniently: the headers and the URL usually have the same data.
    #[serde(default)]
    cookies: Value,
    #[serde(default)]
    query_string: Value,
    #[serde(default)]
    http_version: Value,
    #[serde(default)]
    body_size: Value,
}

/// Returns the request of an entry; `None`: the entry is omitted.
fn import_entry(
    location: &str,
    entry: Entry,
    changes: &mut Changes,
) -> Result<Option<ImportedRequest>, String> {
    let request: Request = serde_json::from_value(entry.request).map_err(|error| {
        format!("{location}: not a request: {}\nhint: save the HAR again", json_error_text(&error))
    })?;
    let scheme = request.url.split_once(':').map_or("", |(scheme, _)| scheme);
    if !is_one_of(scheme, &["http", "https"]) {
        changes.add(
            ChangeKind::Entry,
            &format!("{location} ({})", scheme.chars().take(20).collect::<String>()),
        );
        return Ok(None);
    }
    // CONNECT opens a tunnel through a proxy, and is no request to the server.
    if request.method.eq_ignore_ascii_case("CONNECT") {
        changes.add(ChangeKind::Entry, &format!("{location} (CONNECT)"));
        return Ok(None);
    }
    let mut imported = ImportedRequest::new(location.into(), &request.method, &request.url);
    imported.status = recorded_status(&entry.response);
    if let (None, Some(status)) =
        (imported.status, entry.response.get("status").and_then(Value::as_i64))
    {
        imported.changes.add(ChangeKind::MissingStatus, &format!("{location} (status {status})"));
    }
    let sent_bytes = sent_bytes(&request);
    add_headers(&mut imported, &request);
    let data = request.post_data.unwrap_or_default();
    imported.body =
        body(&data, sent_bytes, &mut imported).map_err(|error| format!("{location}: {error}"))?;
    if imported.body.is_some() && !imported.has_header("content-type") && !data.mime_type.is_empty()
    {
        imported.changes.add(ChangeKind::TypeHeader, &data.mime_type);
        imported.headers.push(("Content-Type".into(), data.mime_type));
    }
    imported.normalize().map(Some)
}

/// Adds the headers to the request, without the connection's headers. Data of the entry that is
/// added or omitted is counted as a change.
fn add_headers(imported: &mut ImportedRequest, request: &Request) {
    let authority = Url::parse(&request.url).map_or("", |url| url.authority);
    // dyno writes Host itself, so a recorded Host that equals the host of the URL is omitted.
    let is_derived = |pair: &&NameValue| {
        pair.name.eq_ignore_ascii_case("host") && pair.value.eq_ignore_ascii_case(authority)
    };
    let headers = request.headers.iter().filter(|pair| !is_derived(pair));
    imported.headers = headers.map(|pair| (pair.name.clone(), pair.value.clone())).collect();
    imported.remove_headers(ChangeKind::PseudoHeader, |name, _| name.starts_with(':'));
    imported.remove_headers(ChangeKind::ConnectionHeader, |name, _| is_one_of(name, &HOP_BY_HOP));
    let cookies: Vec<NameValue> =
        serde_json::from_value(request.cookies.clone()).unwrap_or_default();
    if !cookies.is_empty() && !imported.has_header("cookie") {
        cookies
            .iter()
            .for_each(|cookie| imported.changes.add(ChangeKind::CookieHeader, &cookie.name));
        let pairs: Vec<String> =
            cookies.iter().map(|cookie| format!("{}={}", cookie.name, cookie.value)).collect();
        imported.headers.push(("Cookie".into(), pairs.join("; ")));
    }
    let query: Vec<NameValue> =
        serde_json::from_value(request.query_string.clone()).unwrap_or_default();
    if !request.url.split('#').next().unwrap_or_default().contains('?') {
        query.iter().for_each(|pair| imported.changes.add(ChangeKind::QueryString, &pair.name));
    }
    let version = request.http_version.as_str().unwrap_or_default().to_ascii_lowercase();
    if is_one_of(
        &version,
        &["h3", "http/3", "http/3.0", "h3-29", "http/2+quic/43", "quic", "http/1.0", "http/0.9"],
    ) {
        imported.changes.add(ChangeKind::Protocol, &version);
    }
}

/// Returns the recorded length of the body in bytes; `None`: the length is not recorded.
fn sent_bytes(request: &Request) -> Option<u64> {
    let header =
        request.headers.iter().find(|pair| pair.name.eq_ignore_ascii_case("content-length"));
    let header = header.and_then(|pair| pair.value.trim().parse().ok());
    // Browsers write -1 for an unknown length, and some always write 0.
    header.or_else(|| request.body_size.as_u64().filter(|size| *size > 0))
}

/// Returns the status of the recorded response. `None`: no final response. Browsers record a
/// missing response as status 0.
fn recorded_status(response: &Value) -> Option<u16> {
    let status = response.get("status")?.as_u64()?;
    u16::try_from(status).ok().filter(|status| (200..600).contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Imports a HAR with these requests.
    fn import_requests(requests: &[&str]) -> Result<Vec<ImportedRequest>, String> {
        import_har(requests).map(|imports| imports.requests)
    }

    fn import_har(requests: &[&str]) -> Result<Imports, String> {
        let entries: Vec<_> =
            requests.iter().map(|r| format!(r#"{{"time": 1, "request": {r}}}"#)).collect();
        har(&format!(
            "\u{feff}{{\"log\": {{\"version\": \"1.2\", \"entries\": [{}]}}}}",
            entries.join(",")
        ))
    }

    /// Imports a request with these members. Returns its headers and body.
    fn import_members(members: &str) -> Result<String, String> {
        let mut all = import_requests(&[&format!(
            r#"{{"method": "POST", "url": "https://A.b:1/x", {members}}}"#
        )])?;
        let ImportedRequest { headers, body, .. } = all.remove(0);
        let headers: Vec<_> = headers.into_iter().map(|(n, v)| format!("{n}={v}")).collect();
        Ok(format!(
            "{} {:?}",
            headers.join(" "),
            body.map(|body| String::from_utf8_lossy(&body).into_owned())
        ))
    }

    #[test]
    fn connection_and_derived_headers_removed() {
        let names =
            "host :method accept-encoding Connection content-length Transfer-Encoding X-A TE";
        let with = |value: &str| {
            let pair = |name: &str| format!(r#"{{"name": "{name}", "value": "{value}"}}"#);
            import_members(&format!(
                r#""headers": [{}]"#,
                names.split(' ').map(pair).collect::<Vec<_>>().join(",")
            ))
        };
        assert_eq!(with("a.b:1").unwrap(), "accept-encoding=a.b:1 X-A=a.b:1 None");
        assert_eq!(with("a.b").unwrap(), "host=a.b accept-encoding=a.b X-A=a.b None");
    }

    #[test]
    fn body_from_text_base64_or_params() {
        let params =
            r#""params": [{"name": "a b", "value": "ü&"}, {"name": "c", "fileName": "d"}]"#;
        let posted = |data: &str| import_members(&format!(r#""headers": [], "postData": {data}"#));
        assert_eq!(posted(r#"{"text": "ä"}"#).unwrap(), r#" Some("ä")"#);
        assert_eq!(posted(r#"{"text": "4oKs", "encoding": "base64"}"#).unwrap(), r#" Some("€")"#);
        assert_eq!(posted(&format!("{{{params}}}")).unwrap(), r#" Some("a+b=%C3%BC%26&c=")"#);
        assert_eq!(posted(&format!(r#"{{"text": "x", {params}}}"#)).unwrap(), r#" Some("x")"#);
        assert_eq!(posted(r#"{"mimeType": "a/b", "text": "", "params": []}"#).unwrap(), " None");
        assert_eq!(posted("null").unwrap(), " None");
        let error = |data: &str| posted(data).unwrap_err();
        assert!(error(r#"{"text": "x", "encoding": "rot13"}"#).contains("hint: use \"base64\""));
        assert!(
            error(r#"{"text": "?", "encoding": "base64"}"#)
                .starts_with("entry 1: postData.text: not base64")
        );
        assert!(
            error(&format!(r#"{{"mimeType": "multipart/form-data", {params}}}"#))
                .contains("the posted form has no recorded text")
        );
    }

    #[test]
    fn body_type_replaces_missing_header() {
        let data = r#""postData": {"mimeType": "text/x", "text": "1"}"#;
        assert_eq!(import_members(data).unwrap(), r#"Content-Type=text/x Some("1")"#);
        let with_header = r#""headers": [{"name": "content-type", "value": "text/y"}]"#;
        assert_eq!(
            import_members(&format!("{with_header}, {data}")).unwrap(),
            r#"content-type=text/y Some("1")"#
        );
    }

    #[test]
    fn other_schemes_omitted_and_counted() {
        let urls = [
            "data:text/plain,x",
            "wss://a/",
            "HTTP://a/#b",
            "chrome-extension://x/y.js",
            "blob:http://a/1",
        ];
        let requests =
            urls.map(|url| format!(r#"{{"method": "GET", "url": "{url}", "headers": []}}"#));
        let requests = requests.each_ref().map(String::as_str);
        let imported = import_requests(&requests).unwrap();
        assert_eq!(
            (imported.len(), imported[0].location.as_str(), imported[0].url.as_str()),
            (1, "entry 3", "http://a/")
        );
        assert!(import_requests(&requests[..2]).unwrap_err().contains("no requests over http"));
        let tunnel = r#"{"method": "CONNECT", "url": "https://a:443/", "headers": []}"#;
        assert_eq!(import_requests(&[tunnel, requests[2]]).unwrap().len(), 1);
    }

    #[test]
    fn recorded_status_imported_if_valid() {
        let entry = |response: &str| {
            let entry =
                format!(r#"{{"request": {{"method": "GET", "url": "http://a/"}} {response}}}"#);
            har(&format!(r#"{{"log": {{"entries": [{entry}]}}}}"#)).unwrap().requests[0].status
        };
        assert_eq!(entry(r#", "response": {"status": 404}"#), Some(404));
        assert_eq!(entry(r#", "response": {"status": 0}"#), None);
        assert_eq!(entry(r#", "response": {"status": "x"}"#), None);
        assert_eq!(entry(""), None);
    }

    #[test]
    fn unrecorded_status_listed_as_change() {
        let lines = |status: &str| {
            let entry = format!(
                r#"{{"request": {{"method": "GET", "url": "http://a/"}}, "response": {{"status": {status}}}}}"#
            );
            har(&format!(r#"{{"log": {{"entries": [{entry}]}}}}"#)).unwrap().changes.lines()
        };
        for status in ["0", "-1", "101", "999"] {
            let lines = lines(status).join("\n");
            assert!(lines.contains("without a recorded final status"), "{status}: {lines}");
            assert!(lines.contains(&format!("(status {status})")), "{status}: {lines}");
        }
        assert_eq!(lines("404"), [""; 0]);
    }

    #[test]
    fn invalid_har_error_has_position() {
        assert!(
            har("{\n\"log\": 3}")
                .unwrap_err()
                .starts_with("line 2, column 8: not a HAR file: invalid type")
        );
        assert!(har("curl http://a/").unwrap_err().contains("network tab"));
        let error =
            import_requests(&[r#"{"method": "GET", "url": "data:"}"#, r#"{"method": "GET"}"#])
                .unwrap_err();
        assert!(error.starts_with("entry 2: not a request: missing field `url`"), "{error}");
        assert!(
            import_requests(&[r#"{"method": "GET", "url": "http://a/ b"}"#])
                .unwrap_err()
                .contains("percent-encode")
        );
    }

    /// Returns the lines of the changes to requests with these members.
    fn changes(members: &[&str]) -> Vec<String> {
        let request =
            |members: &&str| format!(r#"{{"method": "POST", "url": "https://a/x", {members}}}"#);
        let requests: Vec<String> = members.iter().map(request).collect();
        import_har(&requests.iter().map(String::as_str).collect::<Vec<_>>())
            .unwrap()
            .changes
            .lines()
    }

    #[test]
    fn removed_headers_listed_per_kind() {
        let members = r#""headers": [{"name": ":path", "value": "/x"}, {"name": "TE", "value": "trailers"},
            {"name": "Connection", "value": "close"}, {"name": "Content-Length", "value": "0"}, {"name": "Host", "value": "a"}]"#;
        assert_eq!(
            changes(&[members, members]),
            [
                "import: pseudo-header fields omitted, because dyno writes them itself (2): :path",
                "import: headers omitted, because they belong to the recorded connection (4): \
                 connection, te",
                "import: headers omitted, because dyno writes Content-Length itself (2): \
                 content-length",
                "import: requests not sent at their recorded times (2)",
            ]
        );
        assert_eq!(changes(&[r#""headers": []"#]), [""; 0]);
    }

    #[test]
    fn cookies_query_and_version_used_or_listed() {
        let members = r#""cookies": [{"name": "a", "value": "1"}, {"name": "b", "value": "2=3"}],
            "queryString": [{"name": "q", "value": "1"}], "httpVersion": "h3""#;
        assert_eq!(import_members(members).unwrap(), "Cookie=a=1; b=2=3 None");
        let lines = changes(&[members]);
        for (line, words) in lines.iter().zip([
            "made from `cookies`",
            "URL does not contain them (1): q",
            "(dyno sends them over the protocol of the load) (1): h3",
        ]) {
            assert!(line.contains(words), "{line}");
        }
        assert_eq!(lines.len(), 3, "{lines:?}");
        let with_header = r#""cookies": [{"name": "a", "value": "1"}], "headers": [{"name": "cookie", "value": "a=1"}]"#;
        assert_eq!(changes(&[with_header]), [""; 0]);
        let urls = [
            r#"{"method": "GET", "url": "wss://a/"}"#,
            r#"{"method": "GET", "url": "http://a/#b"}"#,
        ];
        let lines = import_har(&urls).unwrap().changes.lines();
        assert!(lines[0].ends_with("not over http or https (1): entry 1 (wss)"), "{lines:?}");
        assert!(lines[1].contains("URL fragments omitted") && lines.len() == 2, "{lines:?}");
    }
}
