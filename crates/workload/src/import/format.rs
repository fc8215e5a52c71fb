//! The formats from which requests are imported.

use std::path::Path;

use super::{Imports, curl, har, urls, vegeta};
use crate::ReadFile;

/// A format of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Curl,
    Har,
    Vegeta,
    Urls,
}

impl Format {
    /// Guesses the format of a file, by its name if that ends in `.har`, else by how it begins:
    /// JSON with a `log` is a HAR, other JSON and blocks with headers or bodies are vegeta's, lines
    /// that begin with `curl` are commands, and everything else is a list.
    #[must_use]
    pub fn guess(path: &Path, text: &str) -> Format {
        if path.extension().is_some_and(|end| end.eq_ignore_ascii_case("har")) {
            return Format::Har;
        }
        let lines = || {
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
        };
        let first = lines().next().unwrap_or_default();
        if first.starts_with('{') {
            let json = serde_json::from_str::<serde_json::Value>(text);
            let is_har = json.is_ok_and(|json| json.get("log").is_some());
            return if is_har { Format::Har } else { Format::Vegeta };
        }
        if first.trim_start_matches("$ ").starts_with("curl ") {
            return Format::Curl;
        }
        let is_url_line = |line: &str| {
            line.split_ascii_whitespace().next_back().is_some_and(|w| w.contains("://"))
        };
        if lines().all(is_url_line) { Format::Urls } else { Format::Vegeta }
    }

    /// Its name, in small letters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Format::Curl => "curl",
            Format::Har => "har",
            Format::Vegeta => "vegeta",
            Format::Urls => "urls",
        }
    }

    /// Reads the requests of a text in this format. `Err`: a sentence that names the line or the
    /// entry.
    pub fn read(self, text: &str, read: ReadFile<'_>) -> Result<Imports, String> {
        match self {
            Format::Curl => curl(text, read),
            Format::Har => har(text),
            Format::Vegeta => vegeta(text, read),
            Format::Urls => urls(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_detected_by_their_beginning() {
        for (text, format) in [
            ("{\"log\":{\"entries\":[]}}", Format::Har),
            ("{\"method\":\"GET\",\"url\":\"http://h/\"}\n", Format::Vegeta),
            ("# c\nGET http://h/\nX-A: b\n", Format::Vegeta),
            ("curl http://h/", Format::Curl),
            ("$ curl http://h/", Format::Curl),
            ("http://h/\n\nhttp://h/b\n", Format::Urls),
            ("GET http://h/\n", Format::Urls),
        ] {
            assert_eq!(Format::guess(Path::new("-"), text), format, "{text}");
        }
    }

    #[test]
    fn a_file_that_is_called_a_har_is_one_and_says_what_it_lacks() {
        assert_eq!(Format::guess(Path::new("x.HAR"), "{}"), Format::Har);
        assert!(har("{}").unwrap_err().contains("this is not a HAR (missing field `log`)"));
    }

    #[test]
    fn each_format_reads_its_own() {
        let none = |_: &str| Err("no files here".to_string());
        for (format, text) in [
            (Format::Curl, "curl http://h/"),
            (
                Format::Har,
                "{\"log\":{\"entries\":[{\"request\":{\"method\":\"GET\",\"url\":\
                 \"http://h/\"}}]}}",
            ),
            (Format::Vegeta, "GET http://h/\nX-A: b\n"),
            (Format::Urls, "http://h/"),
        ] {
            assert_eq!(Format::guess(Path::new("-"), text), format);
            let requests = format
                .read(text, &none)
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
