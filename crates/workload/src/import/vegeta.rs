//! Imports the targets of vegeta, in both of its formats
//! (<https://github.com/tsenart/vegeta#-format>).

use std::collections::BTreeMap;

use base64::Engine as _;
use dyno_config::quotation::{plain, quote_header};
use serde::Deserialize;

use super::{
    BASE64, Changes, ImportedRequest, Imports, ReadFile, check_header, json_error_text, read_file,
    read_method_and_url, require_requests,
};

/// Reads vegeta's targets: JSON lines if the first character is `{`, otherwise blocks of
/// `METHOD URL`, headers and `@body-file`. `Err`: a line is wrong, a body cannot be read, or there
/// are no targets.
pub fn vegeta(text: &str, read: ReadFile) -> Result<Imports, String> {
    let text = text.trim_start_matches('\u{feff}');
    let mut targets = if text.trim_start().starts_with('{') {
        read_json_lines(text)?
    } else {
        read_blocks(text, read)?
    };
    targets
        .iter_mut()
        .for_each(|target| target.count_tool_headers(&["User-Agent", "Accept-Encoding"]));
    require_requests(
        targets,
        Changes::default(),
        "the file has no targets\nhint: write a target like GET http://localhost:8080/",
    )
}

/// Reads blocks of `METHOD URL`, headers and `@body-file`.
fn read_blocks(text: &str, read: ReadFile) -> Result<Vec<ImportedRequest>, String> {
    let (mut targets, mut current) = (Vec::new(), None);
    for (i, line) in
        text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.starts_with('#'))
    {
        let location = format!("line {}", i + 1);
        match current.as_mut() {
            _ if line.is_empty() => targets.extend(current.take()),
            // As in vegeta, a target can follow another target without an empty line.
            Some(target) if !begins_with_method(line) => {
                add_line(target, line, read).map_err(|error| format!("{location}: {error}"))?;
            }
            _ => targets.extend(current.replace(read_method_and_url(location, line)?)),
        }
    }
    targets.extend(current);
    targets.into_iter().map(ImportedRequest::normalize).collect()
}

fn begins_with_method(line: &str) -> bool {
    line.split_once([' ', '\t'])
        .is_some_and(|(word, _)| word.bytes().all(|b| b.is_ascii_uppercase()))
}

/// Adds the header or the body of a line.
fn add_line(target: &mut ImportedRequest, line: &str, read: ReadFile) -> Result<(), String> {
    if let Some(path) = line.strip_prefix('@') {
        if target.body.is_some() {
            return Err(format!("the target has a second body\nhint: remove @{path}"));
        }
        target.body = Some(read_file(path, read)?);
        return Ok(());
    }
    match line.split_once(':').map(|(name, value)| (name.trim(), value.trim())) {
        Some((name, value)) if !value.is_empty() => {
            check_header(name, value)?;
            target.headers.push((name.into(), value.into()));
        }
        Some((name, _)) => {
            let name = plain(name);
            return Err(format!("header {name}: has no value\nhint: write it like {name}: value"));
        }
        None => {
            return Err(format!(
                "expected a header (Name: value) or a body (@file), found {}\nhint: end each \
                 target with an empty line",
                quote_header(line)
            ));
        }
    }
    Ok(())
}

fn read_json_lines(text: &str) -> Result<Vec<ImportedRequest>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(i, line)| {
            let location = format!("line {}", i + 1);
            read_json_target(&location, line)
                .map_err(|error| format!("{location}: {error}"))?
                .normalize()
        })
        .collect()
}

/// A line of JSON. Unknown keys are refused, although vegeta ignores them: a misspelt key would
/// silently change the load.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    method: String,
    url: String,
    header: Option<BTreeMap<String, Vec<String>>>,
    body: Option<String>,
}

fn read_json_target(location: &str, line: &str) -> Result<ImportedRequest, String> {
    let describe = |error| {
        let example = r#"{"method": "GET", "url": "http://localhost/", "header": {"A": ["b"]}, "body": "YQ=="}"#;
        format!(
            "not a target: {}\nhint: write one target per line, such as {example}",
            json_error_text(&error)
        )
    };
    let target: Target = serde_json::from_str(line).map_err(describe)?;
    let mut imported = ImportedRequest::new(location.into(), &target.method, &target.url);
    let headers = target.header.unwrap_or_default().into_iter();
    imported.headers = headers
        .flat_map(|(name, values)| values.into_iter().map(move |v| (name.clone(), v)))
        .collect();
    let body =
        target.body.filter(|body| !body.is_empty()).map(|body| BASE64.decode(body)).transpose();
    imported.body = body
        .map_err(|error| format!("body: not base64: {error}\nhint: encode it with base64 -w0"))?;
    Ok(imported)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> Result<Vec<u8>, String> {
        if path == "dir/body.bin" { Ok(vec![0, 255, b'\n']) } else { Err("no such file".into()) }
    }

    fn show_requests(text: &str) -> Vec<String> {
        let show = |r: ImportedRequest| {
            let headers: String = r.headers.iter().map(|(n, v)| format!(" {n}={v}")).collect();
            format!("{}: {} {}{headers} {:?}", r.location, r.method, r.url, r.body)
        };
        vegeta(text, &read).unwrap().requests.into_iter().map(show).collect()
    }

    #[test]
    fn blocks_accept_headers_bodies_and_comments() {
        let text = "# all\n\n GET http://a:1/ \r\n X-A: 1:2\n# between\nx-a:2\n\n\n\
                    SUBSCRIBE https://b\nPOST http://c/d\n@dir/body.bin\n";
        let expected = [
            "line 3: GET http://a:1/ X-A=1:2 x-a=2 None",
            "line 9: SUBSCRIBE https://b None",
            "line 10: POST http://c/d Some([0, 255, 10])",
        ];
        assert_eq!(show_requests(text), expected);
    }

    #[test]
    fn json_lines_accept_header_lists_and_base64_bodies() {
        let text = "\n \
                    {\"method\":\"POST\",\"url\":\"http://a/\",\"header\":{\"X\":[\"1\",\"2\"]},\"body\":\"Rk9P\"}\n\n{\"method\":\"GET\",\"url\":\"http://b/\",\"header\":null,\"body\":\"\"}";
        assert_eq!(
            show_requests(text),
            ["line 2: POST http://a/ X=1 X=2 Some([70, 79, 79])", "line 4: GET http://b/ None"]
        );
    }

    #[test]
    fn framing_headers_removed() {
        let text = "POST http://a/\nContent-Length: 9\ntransfer-encoding: chunked\nHost: b";
        assert_eq!(show_requests(text), ["line 1: POST http://a/ Host=b None"]);
    }

    #[test]
    fn vegeta_error_has_line_and_hint() {
        let invalid = r#"
⏎get http://a → line 2: expected a method in capitals and a URL, found "get http://a"⏎hint: write it like GET http://a
http://a/ → line 1: expected a method in capitals and a URL, found "http://a/"⏎hint: write it like GET http://a/
GET http://a/⏎⏎X: 1 → line 3: expected a method in capitals and a URL, found "X: 1"
GET a/b → line 1: URL "a/b": not an absolute URL⏎hint: write http://a/b
GET http://:6060/ → line 1: URL "http://:6060/": has no host⏎hint: write http://localhost:6060/
GET http://a/⏎Authorization → line 2: expected a header (Name: value) or a body (@file), found "Authorization"
GET http://a/⏎X: → line 2: header X: has no value⏎hint: write it like X: value
GET http://a/⏎x y: 1 → line 2: header "x …": not a header name
GET http://a/⏎@x → line 2: x: cannot be read: no such file⏎hint: check the path
GET http://a/⏎@dir/body.bin⏎@x → line 3: the target has a second body⏎hint: remove @x
 ⏎# x⏎ → the file has no targets⏎hint: write a target like GET http://localhost:8080/
FIRST⏎{"headers": {}} → line 2: not a target: unknown field `headers`, expected one of `method`, `url`, `header`
FIRST⏎{"method": "GET"} → line 2: not a target: missing field `url`⏎hint: write one target per line, such as {"method"
{"method": "A", "url": "b", "body": 1} → line 1: not a target: invalid type: integer, expected
{"method": "A", "url": "b", "body": "?"} → line 1: body: not base64: Invalid
{"method": "A", "url": "b", "header": {"X": "1"}} → line 1: not a target: invalid type: string, expected
{"method": "A", "url": "b"} → line 1: URL "b": not an absolute URL⏎hint: write http://b
{⏎} → line 1: not a target: EOF
"#;
        for case in invalid.trim_matches('\n').lines() {
            let (text, begin) = case.split_once(" → ").unwrap();
            let text = text
                .replace("FIRST", r#"{"method": "GET", "url": "http://a/"}"#)
                .replace('⏎', "\n");
            let error = vegeta(&text, &read).unwrap_err();
            assert!(error.starts_with(&begin.replace('⏎', "\n")), "{text}: {error}");
        }
    }

    #[test]
    fn errors_quote_no_secret() {
        for text in [
            "GET http://a/\nX-Api-Key s3cret",
            "GET http://me:s3cret@a/",
            "get http://a/?token=s3cret",
            "GET http://a/\nBearer s3cret: x",
            "{\"method\": \"GET\", \"url\": \"http://a/\", \"header\": \"s3cret\"}",
        ] {
            let error = vegeta(text, &read).unwrap_err();
            assert!(error.starts_with("line ") && !error.contains("s3cret"), "{text}: {error}");
        }
    }
}
