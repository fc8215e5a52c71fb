//! Tests that the message of each mistake in a suite names its line and column, and prints that
//! line with the wrong value underlined.

use std::path::Path;

use super::SuiteFile;

/// Returns a suite of two valid subjects and one valid workload, in seven lines, followed by
/// `keys`.
fn suite(keys: &str) -> String {
    format!(
        "subjects = [\"null\", \"go\"]\n\n[[workloads]]\nname = \"first\"\npath = \
         \"/first\"\nheaders = {{ A = \"1\" }}\n\n{keys}"
    )
}

/// Returns the error message of a suite.
fn error_message(source: &str) -> String {
    SuiteFile::parse(Path::new("s.toml"), source, &[]).expect_err(source).to_string()
}

/// Returns the expected output, with `underlined` marked in the line of this number.
fn expected(source: &str, line: usize, underlined: &str, message: &str) -> String {
    let text = source.lines().nth(line - 1).unwrap();
    let column = text[..text.find(underlined).expect(text)].chars().count();
    let (blank, indent) = (" ".repeat(line.to_string().len()), " ".repeat(column));
    let carets = "^".repeat(underlined.chars().count());
    format!(
        "s.toml:{line}:{}: {message}\n{blank} |\n{line} | {text}\n{blank} | {indent}{carets}",
        column + 1
    )
}

/// `(lines after the seventh, number of the wrong line, underlined text, begin of the message)`.
const CASES: &[(&str, usize, &str, &str)] = &[
    ("[cost]\nper_vcpu_hour = -1.0", 9, "-1.0", "a price must be 0 or more"),
    ("[cost]\nper_vcpu_hour = 1.0\nper_gib_hour = -0.5", 10, "-0.5", "a price must be 0 or more"),
    (
        "[cost]\nper_vcpu_hour = 1.0\nutilisation = 1.5",
        10,
        "1.5",
        "`utilisation`: must be a number above 0",
    ),
    (
        "[cost]\nper_vcpu_hour = 1.0\nlifetime_hours = 0.0",
        10,
        "0.0",
        "`lifetime_hours`: must be above 0",
    ),
    (
        "[experiment]\nkind = \"dose\"\nvary = { cpu = [1, 2] }",
        10,
        "[1, 2]",
        "\"cpu\": cannot be varied",
    ),
    (
        "[load]\narrival = \"poisson\"",
        9,
        "\"poisson\"",
        "`arrival`: has no effect in a closed loop",
    ),
    ("[suite]\ntwin = \"gone\"", 9, "\"gone\"", "twin \"gone\": not one of"),
    // The second of two tables with the same key.
    (
        "[[workloads]]\npath = \"second\"",
        9,
        "\"second\"",
        "path \"second\": must begin with a slash",
    ),
    (
        "[[workloads]]\npath = \"/\"\nname = \"first\"",
        10,
        "\"first\"",
        "two workloads have the name \"first\"",
    ),
    ("[[workloads]]\npath = \"/\"\nstreams = 2", 10, "2", "`streams`: needs HTTP/2"),
    ("[[workloads]]\npath = \"/\"\nprotocol = \"h9\"", 10, "\"h9\"", "protocol \"h9\": unknown"),
    (
        "[[workloads]]\npath = \"/\"\nmethod = \"CONNECT\"",
        10,
        "\"CONNECT\"",
        "request \"root\": method CONNECT",
    ),
    (
        "[[workloads]]\npath = \"/\"\nbody = \"{rand:9}\"",
        10,
        "\"{rand:9}\"",
        "request \"root\": {rand:9}: not a range",
    ),
    (
        "[[workloads]]\nname = \"x\"\npath = \"/\"\nbody_file = \"no.bin\"",
        11,
        "\"no.bin\"",
        "no.bin: No such file",
    ),
    (
        "[[workloads]]\npath = \"/\"\nprotocol = \"h2\"\nstreams = [1, 0]",
        11,
        "0",
        "`streams`: must be at least 1",
    ),
    (
        "[[workloads]]\npath = \"/\"\nprotocol = \"h2\"\nstreams = []",
        11,
        "[]",
        "`streams`: the list must",
    ),
    (
        "[[workloads]]\npath = \"/\"\nprotocol = \"h2\"\nstreams = 2000000",
        11,
        "2000000",
        "`streams`: must be at most 1048576",
    ),
    ("[[workloads]]\npath = \"/\"\nrate = []", 10, "[]", "`rate`: the list must"),
    ("[[workloads]]\npath = \"/\"\nconections = 2", 10, "conections", "unknown key `conections`"),
    ("[[workloads]]\npath = \"/\"\ntimeout = \"1s\"", 10, "timeout", "unknown key `timeout`"),
    // A missing key is reported at the head of its table.
    ("[[workloads]]\nmethod = \"GET\"", 8, "[[workloads]]", "`path`: a request must have one"),
    (
        "[[workloads]]\npath = \"/x\"\n[[workloads]]\npath = \"/x\"",
        10,
        "[[workloads]]",
        "two workloads",
    ),
    ("[[subjects_]]", 8, "subjects_", "unknown key `subjects_`"),
    // Tables in one line, and in lists.
    (
        "[[workloads]]\npath = \"/\"\nheaders = { A = \"1\", Content-Length = \"3\" }",
        10,
        "\"3\"",
        "header \"Content-Length\"",
    ),
    (
        "[[workloads]]\npath = \"/\"\nheaders = { A = \"1\", B = \"{seq:1}\" }",
        10,
        "\"{seq:1}\"",
        "request \"root\": {seq:1}",
    ),
    (
        "[[workloads]]\npath = \"/\"\nheaders = { \"ä\" = \"1\" }",
        10,
        "\"1\"",
        "request \"root\": header name",
    ),
    (
        "[[workloads]]\npath = \"/\"\nexpect = { status = 200, body_sha256 = \"ab\" }",
        10,
        "\"ab\"",
        "request \"root\": \"ab\": not a SHA-256",
    ),
    (
        "[[workloads]]\npath = \"/\"\nexpect = { json = { \"/ok\" = 1, \"a\" = 2 } }",
        10,
        "2",
        "request \"root\": not a JSON pointer (RFC 6901): \"a\"",
    ),
    (
        "[[workloads]]\npath = \"/\"\nexpect = { headers = { Date = true, Server = false } }",
        10,
        "false",
        "an expected header must be `true`",
    ),
    (
        "[[workloads]]\npath = \"/\"\nexpect = { status = 200, boddy = \"\" }",
        10,
        "boddy",
        "unknown key `boddy`",
    ),
    (
        "[[workloads]]\npath = \"/\"\nexpect = { status = \"ok\" }",
        10,
        "\"ok\"",
        "invalid type: string \"ok\", expected a whole number from 0 to 65535, without quotes",
    ),
    (
        "[[workloads]]\nrequests = [{ path = \"/a\" }, { path = \"b\" }]",
        9,
        "\"b\"",
        "path \"b\": must begin",
    ),
    (
        "[[workloads]]\nrequests = [{ path = \"/a\" }, { weight = 2 }]",
        9,
        "{ weight = 2 }",
        "`path`: a request must have one",
    ),
    (
        "[[workloads]]\nrequests = [\n  { path = \"/a\" },\n  { path = \"/a/\" },\n]",
        11,
        "{ path = \"/a/\" }",
        "two requests have the name \"a\"",
    ),
    (
        "[[workloads]]\nrequests = [\n  { path = \"/a\" },\n  { path = \"/b\", name = \"a\" },\n]",
        11,
        "\"a\"",
        "two requests have the name \"a\"",
    ),
    (
        "[[workloads]]\nrequests = [\n  { path = \"/a\" },\n  { path = \"/b c\" },\n]",
        11,
        "\"/b c\"",
        "request \"b c\": path",
    ),
    (
        "[[workloads]]\nrequests = [{ path = \"/a\" }, { path = \"/\", weight = -1 }]",
        9,
        "-1",
        "invalid value: integer `-1`, expected a whole number from 0 to 4294967295",
    ),
    ("[[workloads]]\nrequests = []", 9, "[]", "`requests`: the list must have"),
    (
        "[[workloads]]\nrequests = [{ path = \"/a\", weight = 0 }]",
        9,
        "[{ path = \"/a\", weight = 0 }]",
        "at least one request must have a weight above 0",
    ),
    (
        "[[workloads]]\n[[workloads.requests]]\npath = \"/a\"\n[[workloads.requests]]\npath = \
         \"b\"",
        12,
        "\"b\"",
        "path \"b\": must begin",
    ),
    (
        "[[workloads]]\npath = \"/\"\n[workloads.expect]\njson = { \"a\" = 1 }",
        11,
        "1",
        "request \"root\": not a JSON pointer (RFC 6901): \"a\"",
    ),
    (
        "[[workloads]]\npath = \"/\"\nexpect.status = 1.5",
        10,
        "1.5",
        "invalid type: floating point `1.5`, expected a whole number from 0",
    ),
    (
        "[[workloads]]\npath = \"/\"\npage = { resources = [\"/a\", \"b\"] }",
        10,
        "\"b\"",
        "resource \"b\": must be a path",
    ),
    (
        "[[workloads]]\npath = \"/\"\npage = { resources = [\"/a*2\", \"/b c\"] }",
        10,
        "\"/b c\"",
        "request \"/b c\": path",
    ),
    (
        "[[workloads]]\npath = \"/\"\npage = { resources = [\"/a\"], connections = 65 }",
        10,
        "65",
        "`connections`: must be 1 to 64",
    ),
    (
        "[[workloads]]\npath = \"/\"\npage = { connections = 6 }",
        10,
        "{ connections = 6 }",
        "missing field `resources`",
    ),
    (
        "[[workloads]]\npath = \"/\\u00e9{csv:x.csv:1}\"",
        9,
        "x.csv",
        "request \"é{csv:x.csv:1}\": x.csv: No such file",
    ),
    // Sequences.
    ("[[workloads]]\nsteps = [{ path = \"/a\" }]", 9, "[{ path = \"/a\" }]", "`steps`: a sequence"),
    (
        "[[workloads]]\npath = \"/\"\ncookies = true",
        10,
        "true",
        "`cookies`: only the visitors of a sequence keep cookies",
    ),
    (
        "[[workloads]]\npath = \"/\"\nsteps = [{ path = \"/a\" }, { path = \"/b\" }]",
        10,
        "[{ path = \"/a\" }, { path = \"/b\" }]",
        "a workload has either a `path` or `steps`",
    ),
    (
        "[[workloads]]\nrequests = []\nsteps = [{ path = \"/a\" }, { path = \"/b\" }]",
        9,
        "[]",
        "`requests`: cannot be combined with `steps`",
    ),
    (
        "[[workloads]]\nsteps = [{ path = \"/a\" }, { path = \"/b\", weight = 3 }]",
        9,
        "3",
        "`weight`: has no effect in a step",
    ),
    (
        "[[workloads]]\npipeline = 2\nsteps = [{ path = \"/a\" }, { path = \"/b\" }]",
        9,
        "2",
        "`pipeline`: cannot be combined with `steps`",
    ),
    (
        "[[workloads]]\n[[workloads.steps]]\npath = \"/a\"\nextract = { t = { json = \"/t\" } \
         }\n[[workloads.steps]]\npath = \"/b\"",
        11,
        "{ json = \"/t\" }",
        "request \"a\": value \"t\": no later step uses it",
    ),
    (
        "[[workloads]]\n[[workloads.steps]]\npath = \"/a\"\n[[workloads.steps]]\npath = \
         \"/{extract.t}\"",
        12,
        "\"/{extract.t}\"",
        "request \"{extract.t}\": {extract.t}: no step extracts this value",
    ),
    (
        "[[workloads]]\n[[workloads.steps]]\npath = \"/a\"\nextract = { t = { jsn = \"/t\" } }",
        11,
        "jsn",
        "unknown key `jsn`",
    ),
    (
        "[[workloads]]\nrequests = [{ path = \"/a\", extract = { t = { json = \"/t\" } } }]",
        9,
        "{ json = \"/t\" }",
        "request \"a\": value \"t\": only steps of a sequence",
    ),
    // Other tables.
    ("[suite]\nrepeats = 0", 9, "0", "`repeats`: must be at least 1"),
    ("[suite]\nname = 1", 9, "1", "invalid type: integer `1`, expected a text in quotes"),
    (
        "[load]\nconnections = \"64\"",
        9,
        "\"64\"",
        "invalid type: string \"64\", expected a whole number from 0 to 4294967295, without quotes",
    ),
    (
        "[load]\nconnections = [1, \"64\"]",
        9,
        "\"64\"",
        "invalid type: string \"64\", expected a whole number",
    ),
    (
        "[load]\nconnections = { a = 1 }",
        9,
        "{ a = 1 }",
        "invalid type: map, expected a value, or a list of values",
    ),
    (
        "[load]\nconnections = -1",
        9,
        "-1",
        "invalid value: integer `-1`, expected a whole number from 0",
    ),
    (
        "[load]\nrate = true",
        9,
        "true",
        "a rate is a number of requests per second, or a text such as",
    ),
    ("[load]\nrate = [1, [2]]", 9, "[1, [2]]", "a rate is a number of requests per second"),
    (
        "[[workloads]]\npath = \"/\"\nexpect = { headers = { Date = 1 } }",
        10,
        "1",
        "an expected header must be `true` (present)",
    ),
    (
        "[[workloads]]\npath = \"/\"\nexpect = { status = 99 }",
        10,
        "99",
        "status 99: must be 200 to 599",
    ),
    ("[limits]\ncpus = 0", 9, "0", "`cpus`: must be a number of CPUs"),
    ("[limits]\nfiles = 0", 9, "0", "`files`: must be at least 5"),
    ("[limits]\nfiles = 4", 9, "4", "`files`: must be at least 5"),
    ("[limits]\nmemory = \"1\"", 9, "\"1\"", "`memory`: must be at least 1MiB"),
    ("[load]\nconnections = [1, 0, 2]", 9, "0", "`connections`: must be at least 1"),
    (
        "[load]\ncheck_one_in = 5",
        9,
        "5",
        "`check_one_in`: applies to an expected header, SHA-256, text, JSON or encoded body",
    ),
    (
        "[load]\nfirst_byte_timeout = \"10s\"",
        9,
        "\"10s\"",
        "`first_byte_timeout`: must be shorter than `timeout` (10s)",
    ),
    (
        "[load]\ntimeout = \"1s\"\nfirst_byte_timeout = \"2s\"",
        10,
        "\"2s\"",
        "`first_byte_timeout`: must be shorter than `timeout` (1s)",
    ),
    ("[load]\nramp_connections = \"0s\"", 9, "\"0s\"", "`ramp_connections`: must be at least 1ms"),
    ("[load]\nconnections = 0", 9, "0", "`connections`: must be at least 1"),
    ("[load]\nrate = [100, \"1k..\"]", 9, "\"1k..\"", "\"1k..\": not a rate"),
    (
        "[load]\nin_flight = [16, 100]\npipeline = 16",
        9,
        "100",
        "`in_flight`: 100 is not a multiple of 16",
    ),
    ("[load]\nmodel = \"open\"", 9, "\"open\"", "`model`: an open loop needs a rate"),
    ("[load]\nduration = \"1ms\"", 9, "\"1ms\"", "`duration`: must be at least 10ms"),
    (
        "[load]\ntimeout = \"1s\"\nduration = 5",
        10,
        "5",
        "invalid type: integer `5`, expected a text in quotes",
    ),
    (
        "[report]\nmarkers = [{ connections = 1, label = \"a\" }, { label = \"b\" }]",
        9,
        "{ label = \"b\" }",
        "missing field `connections`",
    ),
    ("[[backends]]\nname = \"db\"", 8, "[[backends]]", "missing field `use`"),
    ("[[backends]]\nuse = \"db\"\nname = \"1\"", 10, "\"1\"", "back end \"1\": its name must"),
    (
        "[[backends]]\nuse = \"db\"\n[[backends]]\nuse = \"db\"",
        10,
        "[[backends]]",
        "two back ends have the name \"db\"",
    ),
    ("[[backends]]\nuse = \"db\"\nmemory = \"1\"", 10, "\"1\"", "`memory`: must be at least 1MiB"),
    (
        "[[backends]]\nuse = \"db\"\nenv = { A = \"{prot}\" }",
        10,
        "\"{prot}\"",
        "unknown placeholder {prot}",
    ),
    (
        "[[workloads]]\npath = \"/\"\nconnections = [1, 0]",
        10,
        "0",
        "`connections`: must be at least 1",
    ),
    (
        "[[workloads]]\npath = \"/\"\nprotocol = \"h2c\"\npipeline = 2",
        11,
        "2",
        "`pipeline`: needs HTTP/1.1",
    ),
    ("[[workloads]]\npath = \"/\"\nrate = [100, \"x\"]", 10, "\"x\"", "\"x\": not a rate"),
    (
        "[[workloads]]\npath = \"/\"\nconnections = 3\n[load]\nin_flight = 4",
        10,
        "3",
        "`connections`: cannot be combined with `in_flight`",
    ),
    (
        "[[workloads]]\npath = \"/\"\nrate = 3\n[load]\nmodel = \"closed\"",
        10,
        "3",
        "`rate`: cannot be used in a closed loop, but [load]",
    ),
];

/// Lists all cases with unexpected output, so that one run shows every effect of a change.
fn check(cases: impl Iterator<Item = (String, usize, &'static str, &'static str)>) {
    let misses = cases.filter_map(|(source, line, underlined, begin)| {
        let text = error_message(&source);
        let without_hint = text.split("\nhint: ").next().unwrap();
        let message = without_hint.split_once(": ").unwrap().1.lines().next().unwrap();
        let is_expected = message.starts_with(begin)
            && without_hint == expected(&source, line, underlined, message);
        (!is_expected)
            .then(|| format!("{source}\n→ {text}\nexpected: line {line}, {underlined}, {begin}\n"))
    });
    let misses: Vec<_> = misses.collect();
    assert!(misses.is_empty(), "{}", misses.join("\n"));
}

#[test]
fn mistake_is_reported_at_its_line_and_column() {
    check(
        CASES.iter().map(|&(keys, line, underlined, begin)| (suite(keys), line, underlined, begin)),
    );
}

#[test]
fn mistake_in_subjects_is_located_in_texts_and_tables() {
    let cases = [
        ("subjects = [\"null\", \"../x\"]", 1, "\"../x\"", "subject \"..\": must be the name"),
        (
            "subjects = [\"null\", 7]",
            1,
            "7",
            "invalid type: integer `7`, expected a subject's name",
        ),
        ("subjects = []", 1, "[]", "`subjects`: must name"),
        (
            "[[subjects]]\nuse = \"a\"\n[[subjects]]\nuse = \"/b\"",
            4,
            "\"/b\"",
            "subject \"/b\": must be the name",
        ),
        (
            "[[subjects]]\nuse = \"a\"\n[[subjects]]\nvariant = \"b\"",
            3,
            "[[subjects]]",
            "missing field `use`",
        ),
        (
            "subjects = [{ use = \"a\" }, { use = \"b\", varient = \"c\" }]",
            1,
            "varient",
            "unknown key `varient`",
        ),
        (
            "subjects = [{ use = \"a\" }, { use = \"b\", env = { A = 1 } }]",
            1,
            "1",
            "invalid type: integer `1`",
        ),
        (
            "subjects = [{ use = \"a\", inherit = [\"A=B\"] }]",
            1,
            "[\"A=B\"]",
            "\"A=B\" is not the name of an",
        ),
    ];
    check(
        cases
            .into_iter()
            .map(|(source, line, underlined, begin)| (source.into(), line, underlined, begin)),
    );
}

#[test]
fn mistake_of_whole_file_has_no_line() {
    assert!(
        error_message("[suite]\nname = \"x\"")
            .starts_with("s.toml: `subjects`: must name at least one")
    );
}

#[test]
fn caret_is_aligned_after_tabs_and_carriage_returns() {
    let text = error_message("subjects = [\"null\"]\r\n[load]\r\n\tduration =\t\"ä\"\r\n");
    assert!(text.starts_with("s.toml:3:13: \"ä\": not a duration"), "{text}");
    assert!(
        text.contains("\n  |\n3 | \tduration =\t\"ä\"\n  | \t          \t^^^\nhint: "),
        "{text:?}"
    );
}
