//! Imports a list of URLs: one per line, with an optional method before it.

use super::{Changes, ImportedRequest, Imports, read_method_and_url, require_requests};

/// Reads a list of URLs, each line `URL` or `METHOD URL`. Empty lines, and the rest of a line after
/// a word that begins with `#`, are ignored. `Err`: a line has another form, or the list is
/// empty.
pub fn urls(text: &str) -> Result<Imports, String> {
    let mut requests = Vec::new();
    for (i, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let location = format!("line {}", i + 1);
        let words = words_before_comment(line);
        requests.push(match words[..] {
            [] => continue,
            [url] => ImportedRequest::new(location, "GET", url).normalize()?,
            _ => read_method_and_url(location, &words.join(" "))?.normalize()?,
        });
    }
    require_requests(
        requests,
        Changes::default(),
        "the list has no URLs\nhint: write one URL per line, such as http://localhost:8080/",
    )
}

/// The words of a line up to one that begins with `#`. A URL has no blanks, so this `#` cannot
/// begin its fragment.
pub(super) fn words_before_comment(line: &str) -> Vec<&str> {
    line.split_whitespace().take_while(|word| !word.starts_with('#')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_accepts_lines_with_and_without_method() {
        let text = "\u{feff}# these\r\nhttp://a/\r\n\n  POST\tHTTPS://b:1?y=#z  # why\n";
        let read: Vec<_> = urls(text)
            .unwrap()
            .requests
            .into_iter()
            .map(|r| [r.location, r.method, r.url].join(" "))
            .collect();
        assert_eq!(read, ["line 2 GET http://a/", "line 4 POST https://b:1/?y="]);
    }

    #[test]
    fn urls_error_has_line_and_hint() {
        let wrong = r#"
localhost:80/x → line 2: URL "localhost:80/x": not an absolute URL⏎hint: write http://localhost:80/x
htp://a/b → line 2: URL "htp://a/b": htp:// is not supported⏎hint: write http://a/b or https://a/b
http://:80/x → line 2: URL "http://:80/x": has no host⏎hint: write http://localhost:80/x
http://u:p@a/ → line 2: URL "http://…@a/": has credentials⏎hint: put them into an Authorization header
get http://a → line 2: expected a method in capitals and a URL, found "get http://a"⏎hint: write it like GET http://a
A http://a b → line 2: expected a method in capitals and a URL, found "A http://a b"⏎hint: write it like GET http://
# nothing → the list has no URLs⏎hint: write one URL per line, such as http://localhost:8080/
"#;
        for case in wrong.trim().lines() {
            let (line, begin) = case.split_once(" → ").unwrap();
            let error = urls(&format!("\n{line}\n")).unwrap_err();
            assert!(error.starts_with(&begin.replace('⏎', "\n")), "{line}: {error}");
        }
    }
}
