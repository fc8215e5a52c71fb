//! Tests of the requests, changes and errors of curl commands.

use super::options::OptionKind;
use super::*;
use crate::import::curl::form::BOUNDARY;
use crate::import::{ImportOrder, ImportedRequest};

fn read(path: &str) -> Result<Vec<u8>, String> {
    match path {
        "dir/a.txt" => Ok(b"1\r\n2\n".to_vec()),
        "b.bin" | "ä b+(~).bin" | "c\\b.bin" => Ok(vec![0, 255]),
        _ => Err("no such file".into()),
    }
}

/// Returns all requests, each as `METHOD URL | Name: value | … | body`.
fn show_requests(command: &str) -> String {
    let show = |r: ImportedRequest| {
        let mut parts = vec![format!("{} {}", r.method, r.url)];
        parts.extend(r.headers.iter().map(|(n, v)| format!("{n}: {v}")));
        parts.extend(r.body.map(|body| String::from_utf8_lossy(&body).into_owned()));
        parts.join(" | ")
    };
    let requests = curl(command, &read).unwrap_or_else(|error| panic!("{command:?}: {error}"));
    requests.requests.into_iter().map(show).collect::<Vec<_>>().join(" + ")
}

/// Checks lines of `command → requests`. ⏎, ␍ and ␉ stand for line feed, carriage return and tab,
/// and FORM for the Content-Type of -d.
fn check(cases: &str) {
    for case in cases.trim().lines() {
        let form = "Content-Type: application/x-www-form-urlencoded";
        let case =
            case.replace('⏎', "\n").replace('␍', "\r").replace('␉', "\t").replace("FORM", form);
        let (command, expected) = case.split_once(" → ").unwrap();
        assert_eq!(show_requests(command), expected, "{command}");
    }
}

#[test]
fn words_split_as_in_bash() {
    check(
        r#"
curl 'http://a/it'\''s' → GET http://a/it's
curl "http://a/\"\\\$\`\d$'" → GET http://a/"\$`\d$'
curl http://a/"b"'c'$'d'\&e#f → GET http://a/bcd&e
$ curl \␍⏎  a/b \⏎ -H "X: 1\⏎2" # 'c → GET http://a/b | X: 12
⏎⏎/usr/bin/curl a -H X:\ \$'␉'y → GET http://a | X: $␉y
a:80/b → GET http://a:80/b
-X PUT ''a"" → PUT http://a
curl a -H 'X;' -H "Y: ⏎ " --data-raw z → POST http://a | FORM | X:  | z
curl a;curl b & → GET http://a + GET http://b
"#,
    );
}

#[test]
fn ansi_quotes_give_any_byte() {
    check(
        r#"
curl a -A $'\'\\\"\?\t\x41\x9Z\u00e4\u41\ud83d\ude00!' → GET http://a | User-Agent: '\"?␉A␉ZäA😀!
curl a --data-raw $'{\n\r\u0021'\n → POST http://a | FORM | {⏎␍!n
"#,
    );
    assert_eq!(
        curl(r"curl a -d $'\xff\x00'x", &read).unwrap().requests[0].body,
        Some(vec![255, 0, b'x'])
    );
}

#[test]
fn script_with_several_commands_and_urls_read() {
    let text = "curl http://a/ -d 1 ;\n# then\ncurl \\\n b c && curl d/ &\ncurl --url e\n";
    let places: Vec<_> = curl(text, &read)
        .unwrap()
        .requests
        .into_iter()
        .map(|r| (r.location, r.method, r.url))
        .collect();
    let expected = [
        ("line 1", "POST", "http://a/"),
        ("line 3, URL 1", "GET", "http://b"),
        ("line 3, URL 2", "GET", "http://c"),
        ("line 4", "GET", "http://d/"),
        ("line 5", "GET", "http://e"),
    ];
    assert_eq!(places, expected.map(|(p, m, u)| (p.into(), m.into(), u.into())));
}

#[test]
fn commands_of_browsers_read() {
    check(
        r#"
curl 'https://a.b/c?d=%20&e=\[1\]' \⏎  -H 'accept: */*' \⏎  -b 's=1; t="2"' \⏎  -H 'sec-ch-ua: "Not)A;B";v="8"' \⏎  --data-raw $'{"q":"it\'s\u0021"}' \⏎  --insecure ; → POST https://a.b/c?d=%20&e=[1] | Cookie: s=1; t="2" | FORM | accept: */* | sec-ch-ua: "Not)A;B";v="8" | {"q":"it's!"}
curl 'http://a/' --compressed -X 'POST' -H 'Content-Type: text/plain' --data-binary 'é' → POST http://a/ | Accept-Encoding: deflate, gzip, br, zstd | Content-Type: text/plain | é
"#,
    );
}

#[test]
fn data_options_joined_read_and_encoded() {
    check(
        r"
curl a -d x=1 -dy --data-raw @z --data-ascii '' → POST http://a | FORM | x=1&y&@z&
curl a -d '' -d x → POST http://a | FORM | &x
curl a -d @dir/a.txt --data-binary @dir/a.txt → POST http://a | FORM | 12&1␍⏎2⏎
curl a --data-urlencode 'a b=c d&ü' --data-urlencode '=~=' --data-urlencode n@dir/a.txt → POST http://a | FORM | a b=c+d%26%C3%BC&~%3D&n=1%0D%0A2%0A
curl a --json '{}' --json @dir/a.txt → POST http://a | Accept: application/json | Content-Type: application/json | {}1␍⏎2⏎
curl a -H 'content-type: x' -H accept: --json 1 → POST http://a | content-type: x | 1
curl a -XGET -d 1 -H content-type: → GET http://a | 1
curl 'a?b#c' -G -d d --data-urlencode 'e= ' → GET http://a/?b&d&e=+
curl a? -IGd d → HEAD http://a/?d
curl -G --json {} a → GET http://a/?{} | Accept: application/json | Content-Type: application/json
curl a/ä/b?ö=ü → GET http://a/%c3%a4/b?ö=ü
curl a/ -T dir/a.txt → PUT http://a/a.txt | 1␍⏎2⏎
curl a/b -T dir/a.txt -X POST → POST http://a/b | 1␍⏎2⏎
",
    );
}

#[test]
fn form_encoded_as_multipart() {
    let text = "curl a -H content-type:multipart/form-data -F 'a\"=b;type=x/y; z=1' -F 'c=\";d\"' \
                --form-string e=@f -F 'g=@dir/a.txt' -F 'h=@b.bin;filename=\"i;j.PNG\"' -F \
                k=@b.bin";
    let b = BOUNDARY;
    let part = |head: &str, body: &str| {
        format!("--{b}\r\nContent-Disposition: form-data; name={head}\r\n\r\n{body}\r\n")
    };
    let parts = [
        part("\"a%22\"\r\nContent-Type: x/y; z=1", "b"),
        part("\"c\"", ";d"),
        part("\"e\"", "@f"),
        part("\"g\"; filename=\"a.txt\"\r\nContent-Type: text/plain", "1\r\n2\n"),
        part("\"h\"; filename=\"i;j.PNG\"\r\nContent-Type: image/png", "\0\u{fffd}"),
        part("\"k\"; filename=\"b.bin\"\r\nContent-Type: application/octet-stream", "\0\u{fffd}"),
    ];
    let body = format!("{}--{b}--\r\n", parts.concat());
    assert_eq!(
        show_requests(text),
        format!("POST http://a | Content-Type: multipart/form-data; boundary={b} | {body}")
    );
}

#[test]
fn header_option_replaces_headers_of_other_options() {
    check(
        r"
curl a -u me:pw --oauth2-bearer t → GET http://a | Authorization: Bearer t
curl a --oauth2-bearer t -u me:pw → GET http://a | Authorization: Bearer t
curl a -u me:p:w -r0-9 -A x -A y -e 'z;auto' -b c=1 -b d=2 → GET http://a | Authorization: Basic bWU6cDp3 | Range: bytes=0-9 | User-Agent: y | Referer: z | Cookie: c=1;d=2
curl a --compressed -H 'Accept-Encoding: br' -A x -H user-agent: -u a: -H 'authorization: z' → GET http://a | Accept-Encoding: br | authorization: z
curl a -A '' -H 'Host: b' -H Content-Length:3 -H 'X: 1' -H 'X: 2' -H Y: → GET http://a | Host: b | X: 1 | X: 2
",
    );
}

#[test]
fn load_options_imported() {
    let text = "curl -sSLk --resolve a:1:b -o/dev/null -w '%{http_code}' a --http2 --resolve c:2:d \
                -m 9 --max-time=2.5 --cacert x -E y --key z --unix-socket /s --connect-timeout 1 \
                --http1.1 -# --retry 3 -4 --";
    let options = curl(text, &read).unwrap().requests.remove(0).options;
    let options: Vec<_> = options.iter().map(|(n, v)| format!("{n}={v}")).collect();
    let expected = "insecure= resolve=a:1:b resolve=c:2:d max-time=2.5 cacert=x cert=y key=z \
                    unix-socket=/s connect-timeout=1 http1.1=";
    assert_eq!(options.join(" "), expected);
}

#[test]
fn brackets_literal_only_if_escaped_or_globoff() {
    check(
        r"
curl 'http://[::1]:80/a[]\{b\}' → GET http://[::1]:80/a[]{b}
curl -g 'a/{b}[1-2]\[' → GET http://a/{b}[1-2]\[
",
    );
}

/// Lines of `command → beginning of the error`.
const WRONG: &str = r#"
# → no curl command found⏎hint: paste a command, such as curl http://localhost:8080/
curl -s → line 1: the command has no URL⏎hint: add a URL
wget a → line 1: expected curl, found "wget"⏎hint: quote words with blanks
curl a⏎ -H X:1 → line 2: expected curl, found "-H"⏎hint: quote words with blanks, ; or &, and end each line
curl \⏎ 'a⏎⏎ → line 2: the quote ' is not closed⏎hint: add the closing quote
curl a \⏎ -d "$HOME" → line 2: $HOME…: would be expanded by a shell⏎hint: write the result
curl `a` → line 1: `a…: would be expanded by a shell
curl a?b=1&c=2 → line 1: &: is an operator of the shell⏎hint: quote the word
curl a | jq → line 1: |: is an operator
curl a 2>/dev/null → line 1: >: is an operator
curl a -d $'\ud83dx' → line 1: \u: has no character after it⏎hint: write it like \u00e4
curl a -d $'\q' → line 1: \q: unknown escape in $'…'
curl ^"a^" → the command was copied for Windows⏎hint: choose
curl a --heder x → line 1: --heder: unknown option of curl⏎hint: did you mean --header?
curl a -sy → line 1: --speed-time: needs a value⏎hint: write the value after the option
curl a -sü → line 1: -ü: unknown option of curl⏎hint: remove the option
curl a --silent=1 → line 1: --silent: takes no value⏎hint: remove the = and the text after it
curl a --proxy x → line 1: --proxy: not supported⏎hint: remove the option, or put its effect into the URL or a header
curl a -H @x → line 1: -H @x: headers cannot be read from a file⏎hint: write each one
curl a -H x → line 1: header "x": has no colon⏎hint: write -H 'Name: value'
curl a -H 'x y: z' → line 1: header "x …": not a header name
curl a -H $'x: y\nz: 1' → line 1: header x: the value has a line break or NUL⏎hint: remove
curl a -H $'x: \xff' → line 1: "x: �": not UTF-8⏎hint: save the text as UTF-8
curl a -b jar → line 1: -b: cookies cannot be read from a file⏎hint: write -b
curl a -u me → line 1: -u: has no password, and curl would ask for it⏎hint: write -u 'user:password'
curl a --cert c.pem:pw → line 1: --cert: a password of the key is not supported⏎hint: write the key
curl http://u:p@a/ → line 1: URL "http://…@a/": has credentials
curl a -m soon → line 1: --max-time soon: not a number of seconds⏎hint: write it like 2.5
curl \⏎ a \⏎ -d @x → line 3: x: cannot be read: no such file⏎hint: check the path
curl a -d @- → line 1: standard input cannot be read here⏎hint: save the input to a file
curl a -F x → line 1: -F "x": not a field⏎hint: write it like -F name=value
curl a -F 'x=@b.bin,c' → line 1: -F x="@b.bin,c": not supported⏎hint: write it
curl a -F 'x=1;encoder=y' → line 1: -F: unknown suffix ";encoder=y"⏎hint: use ;type= or ;filename=
curl a -d x -F y=z → line 1: -d, -F and -T: cannot be combined⏎hint: keep one of them
curl a -I -d x → line 1: -I: cannot be combined with a body⏎hint: remove -I, or add -G
curl a/[1-9] b → line 1, URL 1: in curl, brackets in a URL stand for several URLs⏎hint: write each URL separately, or add -g
curl b ftp://a → line 1, URL 2: URL "ftp://a": ftp:// is not supported⏎hint: write http://a or https://a
curl 'a b' → line 1: URL "http://a b": has a blank or control character⏎hint: percent-encode it
curl a -X 'GE T' → line 1: method "GE T": not an HTTP method⏎hint: write GET, POST or another one
"#;

#[test]
fn invalid_command_error_has_line_and_hint() {
    for case in WRONG.trim().lines() {
        let (command, begin) = case.split_once(" → ").unwrap();
        let error = curl(&command.replace('⏎', "\n"), &read).unwrap_err();
        assert!(error.starts_with(&begin.replace('⏎', "\n")), "{command}: {error}");
    }
}

#[test]
fn ignored_options_listed_as_changes() {
    let text = "curl -sSL -c jar -o/dev/null --retry 3 -4 http://a/x/../y#z https://a/ -H \
                'Content-Length: 3' -F a=b -b c=d\ncurl -sA '' http://b/ -H Accept: -H Host:";
    let lines = curl(text, &read).unwrap().changes.lines();
    let expected = [
        "import: headers omitted, because dyno writes Content-Length itself (2): content-length",
        "import: headers that the tool adds itself, and dyno does not (add them with -H) (4): \
         Accept, User-Agent",
        "import: Host headers sent although the command removes them, because HTTP/1.1 requires \
         one (RFC 9112 §3.2) (1)",
        "import: URL fragments omitted, because no client sends them (1): line 1, URL 1",
        "import: paths with . or .. sent as written (the tool would shorten them) (1): \
         http://a/x/../y",
        "import: form boundaries that are the same in every request (the tool makes a new one \
         for each request) (2)",
        "import: options of curl that have no effect on a load (8): --cookie-jar, --ipv4, \
         --location, --output, --retry, --show-error, --silent",
    ];
    assert_eq!(lines, expected);
}

/// The expected URLs are those that curl 7.88.1 sends.
#[test]
fn upload_name_is_escaped_before_query() {
    let url = |command: &str| {
        let requests = curl(command, &read).unwrap().requests;
        requests.into_iter().map(|request| request.url).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(url("curl -T b.bin 'http://a/x/?a=/%2F'"), "http://a/x/b.bin?a=/%2F");
    assert_eq!(url("curl -T b.bin 'http://a/x?a=/'"), "http://a/x?a=/");
    assert_eq!(url("curl -T 'ä b+(~).bin' http://a"), "http://a/%c3%a4%20b%2b%28~%29.bin");
    assert_eq!(url("curl -T b.bin http://a/%2Fä%zz/"), "http://a/%2f%c3%a4%zz/b.bin");
    assert_eq!(url("curl -T 'c\\b.bin' http://a/"), "http://a/b.bin");
}

#[test]
fn range_without_dash_has_one_appended() {
    for (range, sent) in
        [("5", "5-"), ("5,7", "5-"), ("007x", "7-"), ("-5", "-5"), ("1-2,4", "1-2,4")]
    {
        assert_eq!(
            show_requests(&format!("curl -r {range} http://a/")),
            format!("GET http://a/ | Range: bytes={sent}")
        );
    }
}

/// Curl sends other headers in these cases.
#[test]
fn headers_that_curl_changes_are_refused() {
    for (command, begin) in [
        ("curl -F a=x -H 'Content-Type: multipart/mixed' a", "-F: cannot be combined"),
        ("curl -F a=x -H 'content-type: application/json' a", "-F: cannot be combined"),
        ("curl -F a=x -H Content-Type: a", "-F: cannot be combined"),
        ("curl -F a=x -H 'Content-Type: multipart/form-data; boundary=b' a", "-F: cannot"),
        ("curl -r 5 -d x a", "-r: cannot be combined with a body"),
        ("curl -r 5 -T b.bin a", "-r: cannot be combined with a body"),
        ("curl -r 99999999999999999999 a", "-r 99999999999999999999: not a range"),
    ] {
        let error = curl(command, &read).unwrap_err();
        assert!(error.contains(begin), "{command}: {error}");
    }
}

/// Curl sends `Expect` before every upload, of any size.
#[test]
fn upload_lists_missing_expect_header() {
    let lines = |command: &str| curl(command, &read).unwrap().changes.lines().join("\n");
    assert!(
        lines("curl -A x -H 'Accept: y' -T b.bin a/").contains("(add them with -H) (1): Expect")
    );
    assert_eq!(lines("curl -A x -H 'Accept: y' -H Expect: -T b.bin a/"), "");
}

#[test]
fn every_option_applied_listed_or_refused() {
    let parse = |name: &str| super::options::parse_word(format!("--{name}").as_bytes());
    // These two change only how data and the URL are read.
    let names = super::options::names().filter(|(_, name)| !["get", "globoff"].contains(name));
    for (kind, name) in names {
        assert!(parse(name).is_ok(), "{name}");
        let value = match name {
            "header" => "X: y",
            "user" | "form" | "form-string" | "cookie" => "a=b:c",
            "max-time" | "connect-timeout" => "1",
            "upload-file" => "b.bin",
            _ => "v",
        };
        let takes_value = matches!(kind, OptionKind::Value | OptionKind::IgnoredValue);
        let words = if takes_value { format!("--{name} '{value}'") } else { format!("--{name}") };
        let plain = curl("curl http://a/b", &read).unwrap();
        match curl(&format!("curl http://a/b {words}"), &read) {
            Ok(imports) => assert_ne!(imports, plain, "{name} has no effect and is not listed"),
            Err(error) => {
                assert!(kind == OptionKind::Refused && error.contains(name), "{name}: {error}");
            }
        }
    }
}

#[test]
fn error_names_line_of_its_word() {
    for (command, begin) in [
        ("curl \\\n -s \\\n ftp://a", "line 3: URL \"ftp://a\""),
        ("curl http://a \\\n http://b/[1-2]", "line 2, URL 2: in curl, brackets"),
        ("curl http://a \\\n -X 'G T'", "line 2: method \"G T\": not"),
        ("curl http://a \\\n -H 'A B: c'", "line 2: header \"A …\": not"),
        ("curl http://a \\\n \\\n -T no.bin", "line 3: no.bin: cannot be read"),
        ("curl \\\n http://a -s \\\n -F a=b -d c", "line 1: -d, -F and -T"),
    ] {
        let error = curl(command, &|_| Err("no such file".into())).unwrap_err();
        assert!(error.starts_with(begin), "{command}: {error}");
    }
}

#[test]
fn errors_quote_no_secret() {
    for command in [
        "curl http://a -H 'Authorization Bearer s3cret'",
        "curl http://a -H 'X-Api-Key s3cret: x'",
        "curl http://a -F 'password=<s3cret'",
        "curl http://a -F 'password=a;s3cret'",
        "curl http://a -b s3cret",
        "curl http://me:s3cret@a/",
        "curl ftp://me:s3cret@a/",
        "curl 'http://a/?token=s3cret x'",
        "curl 'gopher://a/?token=s3cret'",
        "curl http://a; TOKEN=s3cret",
        "curl http://a -X 'Bearer s3cret7'",
    ] {
        let error = curl(command, &|_| Err("no such file".into())).unwrap_err();
        assert!(!error.contains("s3cret"), "{command}: {error}");
    }
}

#[test]
fn commands_with_shared_jar_keep_their_order() {
    let script = "curl -c jar -d user=ann http://a/login\ncurl -b jar http://a/home\ncurl -b jar \
                  http://a/home";
    let imports = curl(script, &read).unwrap();
    assert_eq!(imports.order, ImportOrder::Sequence);
    let urls: Vec<&str> = imports.requests.iter().map(|request| &*request.url).collect();
    assert_eq!(urls, ["http://a/login", "http://a/home", "http://a/home"]);
    let lines = imports.changes.lines().join("\n");
    assert!(!lines.contains("--cookie-jar") && lines.contains("without -c"), "{lines}");
    assert_eq!(
        curl("curl -c jar http://a/ http://b/", &read).unwrap().order,
        ImportOrder::Sequence
    );
    for script in [
        "curl http://a/ http://b/",
        "curl -c jar -b sid=1 http://a/ http://b/",
        "curl -c jar -H 'cookie: sid=1' http://a/ http://b/",
        "curl -b '' http://a/\ncurl http://b/",
    ] {
        assert_eq!(curl(script, &read).unwrap().order, ImportOrder::Random, "{script}");
    }
}
