//! Converts the options of a curl command to requests.

use base64::Engine as _;
use dyno_config::quotation::{plain, quote_header};

use super::form::{BOUNDARY, FORM_TYPE, FormPart, encode_multipart};
use super::jar::{JarUse, LiteralCookies};
use super::options::{OptionKind, parse_word};
use super::shell::{ShellWord, into_text};
use crate::ReadFile;
use crate::import::{
    BASE64, ChangeKind, Changes, ImportOrder, ImportedRequest, Url, check_header, check_method,
    encode_form_value, read_file,
};

/// curl 7.88 sends `Expect: 100-continue` for bodies above this size, and for every upload.
const EXPECTED_BODY_BYTES: usize = 1 << 20;

/// One command: the values of its options.
#[derive(Default)]
pub struct CurlCommand {
    line: usize,
    method: Option<String>,
    /// Headers of -H. `None` as value: curl does not send the header.
    headers: Vec<(String, Option<String>)>,
    /// Headers of other options, such as -A.
    option_headers: Vec<(&'static str, String)>,
    cookies: Vec<String>,
    /// Cookie files of `-b` and `-c`.
    jar: JarUse,
    data: Option<Vec<u8>>,
    json: bool,
    get: bool,
    head: bool,
    globoff: bool,
    form: Vec<FormPart>,
    /// Files to upload. Each follows the number of its line in the script, counted from 1.
    uploads: Vec<(usize, String)>,
    /// URLs. Each follows the number of its line in the script, counted from 1.
    urls: Vec<(usize, String)>,
    /// Long names and values of options that affect connections.
    options: Vec<(String, String)>,
    /// Long names of options without effect on a load.
    ignored: Vec<&'static str>,
}

impl CurlCommand {
    pub fn parse(
        line: usize,
        words: Vec<ShellWord>,
        read: ReadFile,
    ) -> Result<CurlCommand, String> {
        let mut command = CurlCommand { line, ..CurlCommand::default() };
        let mut words = words.into_iter();
        while let Some(ShellWord { line, bytes }) = words.next() {
            let located = |error| format!("line {line}: {error}");
            let (options, mut attached) = parse_word(&bytes).map_err(located)?;
            for (kind, name) in options {
                let takes_value = matches!(kind, OptionKind::Value | OptionKind::IgnoredValue);
                let mut next = || attached.take().or_else(|| words.next().map(|word| word.bytes));
                let value = if takes_value { next() } else { Some(Vec::new()) };
                let missing = || {
                    located(format!(
                        "--{name}: needs a value\nhint: write the value after the option"
                    ))
                };
                let value = value.ok_or_else(missing)?;
                command.apply((kind, name, line), value, read).map_err(located)?;
            }
        }
        Ok(command)
    }

    fn apply(
        &mut self,
        (kind, name, line): (OptionKind, &'static str, usize),
        value: Vec<u8>,
        read: ReadFile,
    ) -> Result<(), String> {
        match (kind, name) {
            (_, "cookie-jar") => {
                self.jar.written = Some(into_text(value)?);
                Ok(())
            }
            (OptionKind::IgnoredFlag | OptionKind::IgnoredValue, _) => {
                self.ignored.push(name);
                Ok(())
            }
            (OptionKind::Refused, _) => {
                let hint = "remove the option, or put its effect into the URL or a header (-H)";
                Err(format!("--{name}: not supported\nhint: {hint}"))
            }
            (_, "data" | "data-ascii" | "data-binary" | "data-raw" | "data-urlencode" | "json") => {
                read_data(name, value, read).map(|data| self.add_data(name, &data))
            }
            (_, "url") => {
                self.urls.push((line, into_text(value)?));
                Ok(())
            }
            (_, "upload-file") => {
                self.uploads.push((line, into_text(value)?));
                Ok(())
            }
            (OptionKind::Flag | OptionKind::Value, _) => {
                self.apply_text(name, into_text(value)?, read)
            }
        }
    }

    fn apply_text(
        &mut self,
        name: &'static str,
        value: String,
        read: ReadFile,
    ) -> Result<(), String> {
        match name {
            "request" => {
                check_method(&value)?;
                self.method = Some(value);
            }
            "get" => self.get = true,
            "head" => self.head = true,
            "globoff" => self.globoff = true,
            "header" => self.headers.push(parse_header(&value)?),
            "form" => self.form.push(FormPart::parse(&value, read)?),
            "form-string" => self.form.push(FormPart::literal(&value)?),
            "compressed" => {
                self.set_option_header("Accept-Encoding", "deflate, gzip, br, zstd".into());
            }
            "user-agent" => self.set_option_header("User-Agent", value),
            "referer" => self.set_option_header("Referer", value.trim_end_matches(";auto").into()),
            "cookie" if value.contains('=') => self.cookies.push(value),
            // `jar::order` refuses files that no earlier command writes.
            "cookie" => self.jar.read = Some(value),
            "user" if value.contains(':') => self.set_user(&value),
            "user" => {
                let message = "-u: has no password, and curl would ask for it\nhint: write -u \
                               'user:password'";
                return Err(message.into());
            }
            "cert" if value.contains(':') => {
                let message = "--cert: a password of the key is not supported\nhint: write the key \
                               without its password to a file, and name it with --key";
                return Err(message.into());
            }
            "oauth2-bearer" => self.set_option_header("Authorization", format!("Bearer {value}")),
            "range" => self.set_option_header("Range", format!("bytes={}", curl_range(value)?)),
            "max-time" | "connect-timeout"
                if !value.parse::<f64>().is_ok_and(|s| s.is_finite() && s >= 0.0) =>
            {
                return Err(format!(
                    "--{name} {}: not a number of seconds\nhint: write it like 2.5",
                    plain(&value)
                ));
            }
            // dyno never follows redirects, and accepts a status of 3xx by default. These options
            // therefore have no effect.
            "location" => self.ignored.push("location"),
            "location-trusted" => self.ignored.push("location-trusted"),
            _ => self.set_option(name, value),
        }
        Ok(())
    }

    /// Stores an option with an effect on a load. As in curl, only the last value of an option
    /// applies, but every `--resolve` applies.
    fn set_option(&mut self, name: &str, value: String) {
        let is_replaced =
            |other: &str| other == name || (name.starts_with("http") && other.starts_with("http"));
        self.options.retain(|(other, _)| name == "resolve" || !is_replaced(other));
        self.options.push((name.into(), value));
    }

    /// Stores the header of an option. The last header of the same name applies.
    fn set_option_header(&mut self, name: &'static str, value: String) {
        self.option_headers.retain(|(other, _)| *other != name);
        self.option_headers.push((name, value));
    }

    /// Stores the credentials of `-u`. As in curl, a token of `--oauth2-bearer` applies instead of
    /// them, whichever option is first.
    fn set_user(&mut self, credentials: &str) {
        let is_token = |(name, value): &(&str, String)| {
            *name == "Authorization" && value.starts_with("Bearer ")
        };
        if !self.option_headers.iter().any(is_token) {
            let value = format!("Basic {}", BASE64.encode(credentials));
            self.set_option_header("Authorization", value);
        }
    }

    fn add_data(&mut self, name: &str, more: &[u8]) {
        self.json |= name == "json";
        match &mut self.data {
            // Like curl, data after empty data begins with the separator.
            Some(data) => {
                data.extend((name != "json").then_some(b'&'));
                data.extend_from_slice(more);
            }
            None => self.data = Some(more.to_vec()),
        }
    }

    /// Returns the cookies that the command names.
    pub fn jar_use(&self) -> JarUse {
        let is_cookie = |(name, value): &(String, Option<String>)| {
            name.eq_ignore_ascii_case("cookie") && value.is_some()
        };
        let has_text = !self.cookies.is_empty() || self.headers.iter().any(is_cookie);
        let literal = if has_text { LiteralCookies::Some } else { LiteralCookies::None };
        JarUse { line: self.line, requests: self.urls.len(), literal, ..self.jar.clone() }
    }

    /// Returns one request for each URL.
    pub fn into_requests(
        mut self,
        order: ImportOrder,
        read: ReadFile,
    ) -> Result<Vec<ImportedRequest>, String> {
        if order == ImportOrder::Random && self.jar.written.is_some() {
            self.ignored.push("cookie-jar");
        }
        let query = if self.get { self.data.take() } else { None };
        let mut requests = Vec::new();
        for (i, (line, url)) in self.urls.iter().enumerate() {
            let number =
                if self.urls.len() > 1 { format!(", URL {}", i + 1) } else { String::new() };
            let location = format!("line {}{number}", self.line);
            // A command can span several lines. The error names the line of the URL.
            let url_error = |error| format!("line {line}{number}: {error}");
            let expanded_url = self.expand_url(url, query.as_deref()).map_err(url_error)?;
            Url::parse(&expanded_url).map_err(url_error)?;
            let upload = self.uploads.get(i);
            let request = self.request(expanded_url, upload.map(|(_, path)| path), read);
            let error_line = upload.map_or(self.line, |(line, _)| *line);
            let mut request =
                request.map_err(|error| format!("line {error_line}{number}: {error}"))?;
            if url.contains('#') {
                request.changes.add(ChangeKind::Fragment, &location);
            }
            requests.push(ImportedRequest { location, ..request }.normalize()?);
        }
        match requests.first_mut() {
            // Counted once per command, even with several URLs.
            Some(first) => {
                self.ignored
                    .iter()
                    .for_each(|name| first.changes.add(ChangeKind::Option, &format!("--{name}")));
            }
            None => {
                return Err(format!(
                    "line {}: the command has no URL\nhint: add a URL, such as http://localhost/",
                    self.line
                ));
            }
        }
        Ok(requests)
    }

    fn request(
        &self,
        mut url: String,
        upload: Option<&String>,
        read: ReadFile,
    ) -> Result<ImportedRequest, String> {
        let form = if self.json { "application/json" } else { "application/x-www-form-urlencoded" };
        let (method, body, content_type) = match (&self.data, &self.form[..], upload) {
            // --json sets the type even if --get moves the data into the query.
            (None, [], None) => {
                let content_type = self.json.then(|| form.into());
                (if self.head { "HEAD" } else { "GET" }, None, content_type)
            }
            _ if self.head => {
                return Err("-I: cannot be combined with a body\nhint: remove -I, or add -G".into());
            }
            _ if self.option_headers.iter().any(|(name, _)| *name == "Range") => {
                return Err(
                    "-r: cannot be combined with a body\nhint: write the header that curl \
                            would send, as -H 'Content-Range: …'"
                        .into(),
                );
            }
            (Some(data), [], None) => ("POST", Some(data.clone()), Some(form.into())),
            (None, parts, None) => {
                self.check_form_type()?;
                ("POST", Some(encode_multipart(parts)), Some(FORM_TYPE.to_string() + BOUNDARY))
            }
            (None, [], Some(path)) => {
                url = with_file_name(&url, path);
                ("PUT", Some(read_file(path, read)?), None)
            }
            _ => return Err("-d, -F and -T: cannot be combined\nhint: keep one of them".into()),
        };
        let mut request =
            ImportedRequest::new(String::new(), self.method.as_deref().unwrap_or(method), &url);
        request.headers = self.headers(content_type);
        (request.body, request.options) = (body, self.options.clone());
        request.changes = self.changes(&request);
        Ok(request)
    }

    /// Checks that no -H sets a Content-Type other than `multipart/form-data` for a form. A form
    /// has its own Content-Type with a boundary. curl would send the Content-Type of -H, and would
    /// write different headers into the parts of the form.
    fn check_form_type(&self) -> Result<(), String> {
        let is_other = |(name, value): &(String, Option<String>)| {
            let is_form =
                value.as_deref().is_some_and(|t| t.eq_ignore_ascii_case("multipart/form-data"));
            name.eq_ignore_ascii_case("content-type") && !is_form
        };
        if self.headers.iter().any(is_other) {
            return Err("-F: cannot be combined with a -H Content-Type other than \
                        multipart/form-data\nhint: remove the header. dyno sends \
                        multipart/form-data"
                .into());
        }
        Ok(())
    }

    /// Returns the differences from the request that curl sends.
    fn changes(&self, request: &ImportedRequest) -> Changes {
        let mut changes = Changes::default();
        // `-H 'Name:'` removes a header, and so does an empty value of an option, such as `-A ''`.
        let is_removed = |name: &str| {
            let is_removal = |(header, value): &(String, Option<String>)| {
                header.eq_ignore_ascii_case(name) && value.is_none()
            };
            self.headers.iter().any(is_removal)
                || self.option_headers.iter().any(|(header, _)| *header == name)
        };
        for name in ["User-Agent", "Accept"] {
            if !request.has_header(name) && !is_removed(name) {
                changes.add(ChangeKind::ToolHeader, name);
            }
        }
        if is_removed("Host") {
            changes.add(ChangeKind::HostHeader, "");
        }
        let is_long = request.body.as_ref().is_some_and(|body| body.len() > EXPECTED_BODY_BYTES);
        if (is_long || !self.uploads.is_empty())
            && !request.has_header("expect")
            && !is_removed("expect")
        {
            changes.add(ChangeKind::ToolHeader, "Expect");
        }
        if !self.form.is_empty() {
            changes.add(ChangeKind::Boundary, "");
        }
        let path = request.url.split('?').next().unwrap_or_default();
        // The first three parts are the scheme, an empty text and the host.
        let has_dots = path.split('/').skip(3).any(|part| matches!(part, "." | ".."));
        if has_dots && !self.ignored.contains(&"path-as-is") {
            changes.add(ChangeKind::DotSegments, path);
        }
        changes
    }

    /// Returns the URL that curl would request: with a scheme, without escapes of its globbing, and
    /// with the data of -G.
    fn expand_url(&self, url: &str, query: Option<&[u8]>) -> Result<String, String> {
        let url = url.split('#').next().unwrap_or_default();
        let url = if url.contains("://") { url.to_string() } else { format!("http://{url}") };
        let mut url = ascii_path(&if self.globoff { url } else { unescape_globs(&url)? });
        if let Some(query) = query.filter(|query| !query.is_empty()) {
            let separator = if url.contains('?') { "&" } else { "?" };
            url.push_str(if url.ends_with(['?', '&']) { "" } else { separator });
            url.push_str(&into_text(query.to_vec())?);
        }
        Ok(url)
    }

    /// Returns the headers of other options, then the headers of -H. A header of -H replaces the
    /// header of the same name from another option.
    fn headers(&self, content_type: Option<String>) -> Vec<(String, String)> {
        let mut option_headers = self.option_headers.clone();
        option_headers.push(("Cookie", self.cookies.join(";")));
        option_headers
            .push(("Accept", if self.json { "application/json".into() } else { String::new() }));
        option_headers.push(("Content-Type", content_type.unwrap_or_default()));
        // A form needs its own Content-Type, which has the boundary, so -H does not replace it.
        let applies =
            |name: &str| self.form.is_empty() || !name.eq_ignore_ascii_case("content-type");
        let is_replaced = |name: &str| {
            self.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name) && applies(n))
        };
        option_headers.retain(|(name, value)| !value.is_empty() && !is_replaced(name));
        let option_headers = option_headers.into_iter().map(|(name, value)| (name.into(), value));
        let headers = self.headers.iter().filter(|(name, _)| applies(name));
        option_headers
            .chain(headers.filter_map(|(name, value)| Some((name.clone(), value.clone()?))))
            .collect()
    }
}

/// Parses `Name: value`. `Name;` is a header with an empty value, and `Name:` removes a header.
fn parse_header(text: &str) -> Result<(String, Option<String>), String> {
    if let Some(path) = text.strip_prefix('@') {
        return Err(format!(
            "-H @{}: headers cannot be read from a file\nhint: write each one as -H 'Name: value'",
            plain(path)
        ));
    }
    match (text.split_once(':'), text.trim_end().strip_suffix(';')) {
        (Some((name, value)), _) if value.trim().is_empty() => Ok((name.trim().into(), None)),
        (Some((name, value)), _) => {
            let (name, value) = (name.trim(), value.trim());
            check_header(name, value)?;
            Ok((name.into(), Some(value.into())))
        }
        (None, Some(name)) => Ok((name.trim().into(), Some(String::new()))),
        (None, None) => Err(format!(
            "header {}: has no colon\nhint: write -H 'Name: value'",
            quote_header(text)
        )),
    }
}

/// Returns the range that curl sends. If the value has no dash, curl sends its first number and a
/// dash.
fn curl_range(text: String) -> Result<String, String> {
    if text.contains('-') || !text.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(text);
    }
    let digits = text.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    let error = |_| format!("-r {}: not a range\nhint: write it like 0-499", plain(&text));
    digits.parse::<i64>().map(|start| format!("{start}-")).map_err(error)
}

/// Returns the bytes of a data option.
fn read_data(name: &str, value: Vec<u8>, read: ReadFile) -> Result<Vec<u8>, String> {
    match (name, value.strip_prefix(b"@")) {
        ("data-urlencode", _) => encode_data(&into_text(value)?, read),
        ("data-raw", _) | (_, None) => Ok(value),
        (_, Some(path)) => {
            let mut bytes = read_file(&into_text(path.to_vec())?, read)?;
            // curl removes these bytes for `--data`, but not for `--data-binary` and `--json`.
            if matches!(name, "data" | "data-ascii") {
                bytes.retain(|byte| !b"\r\n\0".contains(byte));
            }
            Ok(bytes)
        }
    }
}

/// Encodes `content`, `=content`, `name=content`, `@file` or `name@file`. The name is not encoded.
fn encode_data(value: &str, read: ReadFile) -> Result<Vec<u8>, String> {
    let (name, content) = match (value.split_once('='), value.split_once('@')) {
        (Some((name, content)), _) => (name, content.into()),
        (None, Some((name, path))) => (name, read_file(path, read)?),
        (None, None) => ("", value.into()),
    };
    let separator = if name.is_empty() { "" } else { "=" };
    Ok(format!("{name}{separator}{}", encode_form_value(&content)).into_bytes())
}

/// Removes the backslashes that escape brackets in curl's globbing. `Err`: the URL has brackets
/// that curl would expand to several URLs.
fn unescape_globs(url: &str) -> Result<String, String> {
    // Neither the brackets of an IPv6 address nor an empty pair are a glob.
    let path = Url::parse(url).map_or(0, |parts| url.len() - parts.rest.len());
    let escapes = ["\\[", "\\]", "\\{", "\\}"];
    let bare =
        escapes.iter().fold(url[path..].replace("[]", ""), |url, escape| url.replace(escape, ""));
    if bare.contains(['[', ']', '{', '}']) {
        return Err(
            "in curl, brackets in a URL stand for several URLs\nhint: write each URL separately, \
             or add -g"
                .into(),
        );
    }
    Ok(escapes.iter().fold(url.into(), |url: String, escape| url.replace(escape, &escape[1..])))
}

/// Escapes non-ASCII characters in the path, as curl does. The query is not changed.
fn ascii_path(url: &str) -> String {
    let (path, query) = url.split_at(url.find('?').unwrap_or(url.len()));
    // The host is not changed.
    let start = Url::parse(path).map_or(path.len(), |parts| path.len() - parts.rest.len());
    let mut escaped = path[..start].to_string();
    for byte in path[start..].bytes() {
        match byte.is_ascii() {
            true => escaped.push(char::from(byte)),
            false => escaped.push_str(&format!("%{byte:02x}")),
        }
    }
    escaped + query
}

/// Appends the name of an uploaded file to a URL whose path ends with a slash, before its query, as
/// curl does. As in curl, this also changes the escapes in the path to lower case.
fn with_file_name(url: &str, upload: &str) -> String {
    let (start, query) = url.split_at(url.find('?').unwrap_or(url.len()));
    let Ok(parts) = Url::parse(start) else { return url.into() };
    if !parts.rest.is_empty() && !parts.rest.ends_with('/') {
        return url.into();
    }
    let (host, path) = start.split_at(start.len() - parts.rest.len());
    let slash = if path.is_empty() { "/" } else { "" };
    let name = upload.rsplit(['/', '\\']).next().unwrap_or(upload);
    format!("{host}{}{slash}{}{query}", lowercase_escapes(path), escape_file_name(name))
}

/// Escapes all bytes that are not unreserved (RFC 3986 §2.3).
fn escape_file_name(name: &str) -> String {
    let escape = |byte: u8| match byte {
        b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02x}"),
    };
    name.bytes().map(escape).collect()
}

/// Returns a path whose escapes have lower-case digits.
fn lowercase_escapes(path: &str) -> String {
    let mut parts = path.split('%');
    let mut lower = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let is_escape = part.len() >= 2 && part.bytes().take(2).all(|b| b.is_ascii_hexdigit());
        let end = if is_escape { 2 } else { 0 };
        lower.push('%');
        lower.push_str(&part[..end].to_ascii_lowercase());
        lower.push_str(&part[end..]);
    }
    lower
}
