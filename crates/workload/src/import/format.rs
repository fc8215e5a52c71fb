//! The formats from which requests are imported, and the detection of a file's format.

use std::path::Path;

use super::urls::words_before_comment;
use super::{Imports, curl, har, urls, vegeta};
use crate::ReadFile;

/// A format of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportFormat {
    Curl,
    Har,
    Vegeta,
    Urls,
}

impl ImportFormat {
    /// Guesses the format of a file. A name that ends in `.har`, or JSON with a `log`, means HAR.
    /// Other JSON, and blocks with headers or bodies, are vegeta's. A text that begins with `curl`
    /// has commands. Anything else is a list of URLs.
    #[must_use]
    pub fn guess(path: &Path, text: &str) -> ImportFormat {
        if path.extension().is_some_and(|end| end.eq_ignore_ascii_case("har")) {
            return ImportFormat::Har;
        }
        // The readers skip a byte-order mark, too.
        let text = text.trim_start_matches('\u{feff}');
        let lines = || {
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
        };
        let first = lines().next().unwrap_or_default();
        if first.starts_with('{') {
            let json = serde_json::from_str::<serde_json::Value>(text);
            let is_har = json.is_ok_and(|json| json.get("log").is_some());
            return if is_har { ImportFormat::Har } else { ImportFormat::Vegeta };
        }
        let first_word = first.trim_start_matches("$ ").split_ascii_whitespace().next();
        if first_word.and_then(|word| word.rsplit('/').next()) == Some("curl") {
            return ImportFormat::Curl;
        }
        if lines().all(is_url_line) { ImportFormat::Urls } else { ImportFormat::Vegeta }
    }

    /// The name of the format, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ImportFormat::Curl => "curl",
            ImportFormat::Har => "har",
            ImportFormat::Vegeta => "vegeta",
            ImportFormat::Urls => "urls",
        }
    }

    /// Reads the requests of a text in this format. `Err`: message for the user that names the line
    /// or the entry.
    pub fn read(self, text: &str, read: ReadFile<'_>) -> Result<Imports, String> {
        match self {
            ImportFormat::Curl => curl(text, read),
            ImportFormat::Har => har(text),
            ImportFormat::Vegeta => vegeta(text, read),
            ImportFormat::Urls => urls(text),
        }
    }
}

/// Whether a line can be in a list of URLs: a URL, or a method and a URL. A header of vegeta whose
/// value is a URL is none.
fn is_url_line(line: &str) -> bool {
    let is_url = |word: &str| {
        let scheme = word.split_once("://").map(|(scheme, _)| scheme);
        scheme.is_some_and(|scheme| scheme.bytes().all(|b| b.is_ascii_alphanumeric()))
    };
    match words_before_comment(line)[..] {
        [url] => is_url(url),
        [method, url] => !method.ends_with(':') && is_url(url),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guess_depends_on_first_line() {
        for (text, format) in [
            ("{\"log\":{\"entries\":[]}}", ImportFormat::Har),
            ("{\"method\":\"GET\",\"url\":\"http://h/\"}\n", ImportFormat::Vegeta),
            ("# c\nGET http://h/\nX-A: b\n", ImportFormat::Vegeta),
            ("curl http://h/", ImportFormat::Curl),
            ("$ curl http://h/", ImportFormat::Curl),
            ("http://h/\n\nhttp://h/b\n", ImportFormat::Urls),
            ("GET http://h/\n", ImportFormat::Urls),
            ("http://h/ # start page\nPOST http://h/b #\n", ImportFormat::Urls),
            ("GET http://h/\nReferer: http://h/a\n", ImportFormat::Vegeta),
            ("GET http://h/\nReferer:http://h/a\n", ImportFormat::Vegeta),
            ("GET http://h/\nX-A: b http://h/a\n", ImportFormat::Vegeta),
            ("curl\thttp://h/", ImportFormat::Curl),
            ("/usr/bin/curl http://h/", ImportFormat::Curl),
            ("\u{feff}{\"log\":{\"entries\":[]}}", ImportFormat::Har),
            ("\u{feff}curl http://h/", ImportFormat::Curl),
        ] {
            assert_eq!(ImportFormat::guess(Path::new("-"), text), format, "{text}");
        }
    }

    #[test]
    fn guess_by_har_extension_and_error_names_field() {
        assert_eq!(ImportFormat::guess(Path::new("x.HAR"), "{}"), ImportFormat::Har);
        assert!(har("{}").unwrap_err().contains("not a HAR file: missing field `log`"));
    }

    #[test]
    fn read_accepts_example_of_each_format() {
        let no_files = |_: &str| Err("no files here".to_string());
        for (format, text) in [
            (ImportFormat::Curl, "curl http://h/"),
            (
                ImportFormat::Har,
                "{\"log\":{\"entries\":[{\"request\":{\"method\":\"GET\",\"url\":\
                 \"http://h/\"}}]}}",
            ),
            (ImportFormat::Vegeta, "GET http://h/\nX-A: b\n"),
            (ImportFormat::Urls, "http://h/"),
        ] {
            assert_eq!(ImportFormat::guess(Path::new("-"), text), format);
            let requests = format
                .read(text, &no_files)
                .unwrap_or_else(|error| panic!("{}: {error}", format.name()))
                .requests;
            assert_eq!(
                (requests.len(), requests[0].url.as_str()),
                (1, "http://h/"),
                "{}",
                format.name()
            );
        }
    }
}
