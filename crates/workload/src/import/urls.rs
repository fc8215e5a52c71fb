//! A URL per line, with an optional method before it.

use super::{Changes, ImportedRequest, Imports, method_and_url, require_requests};

/// Reads a list of URLs: `URL` or `METHOD URL` a line; empty lines, and all after a `#` that begins
/// a word, do not count. `Err`: a line is neither, or there is none.
pub fn urls(text: &str) -> Result<Imports, String> {
    let mut requests = Vec::new();
    for (i, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let place = format!("line {}", i + 1);
        // A URL holds no blanks, so that a # after one cannot be a fragment.
        let words: Vec<&str> =
            line.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
        requests.push(match words[..] {
            [] => continue,
            [url] => ImportedRequest::new(place, "GET", url).normalize()?,
            _ => method_and_url(place, &words.join(" "))?.normalize()?,
        });
    }
    require_requests(
        requests,
        Changes::default(),
        "the list has no URLs; write one a line, like http://localhost:8080/",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_url_with_or_without_a_method() {
        let text = "\u{feff}# these\r\nhttp://a/\r\n\n  POST\tHTTPS://b:1?y=#z  # why\n";
        let read: Vec<_> = urls(text)
            .unwrap()
            .requests
            .into_iter()
            .map(|r| [r.place, r.method, r.url].join(" "))
            .collect();
        assert_eq!(read, ["line 2 GET http://a/", "line 4 POST https://b:1/?y="]);
    }

    #[test]
    fn wrong_lines_are_named_with_the_right_spelling() {
        let wrong = r#"
localhost:80/x → line 2: "localhost:80/x" is not an absolute URL; write http://localhost:80/x
htp://a/b → line 2: "htp://a/b" begins with htp://; write http://a/b or https://a/b
http://:80/x → line 2: "http://:80/x" names no host; write http://localhost:80/x
http://u:p@a/ → line 2: the URL "http://u:p@a/" holds credentials; put them into an Authorization header
get http://a → line 2: expected a method in capitals and a URL, found "get http://a"; write it like GET http://a
A http://a b → line 2: expected a method in capitals and a URL, found "A http://a b"; write it like GET http://
# nothing → the list has no URLs; write one a line, like http://localhost:8080/
"#;
        for case in wrong.trim().lines() {
            let (line, begin) = case.split_once(" → ").unwrap();
            let error = urls(&format!("\n{line}\n")).unwrap_err();
            assert!(error.starts_with(begin), "{line} says {error}");
        }
    }
}
