//! Tests that each option of each tool has an equivalent or a reason.

use clap::CommandFactory as _;

use super::*;
use crate::cli::Cli;

/// The options of each tool, from its own help (wrk 4.2, wrk2 4.0, hey 0.1.4, oha 1.8,
/// h2load 1.64, vegeta 12.12, k6 1.0, ab 2.4, autocannon 8, bombardier 1.2, fortio 1.69). `help` is
/// omitted, because it is the same in all tools.
const LISTS: [(&str, &str); 11] = [
    (
        "wrk",
        "-c --connections -d --duration -t --threads -s --script -H --header --latency --timeout \
         -v --version",
    ),
    (
        "wrk2",
        "-c --connections -d --duration -t --threads -s --script -H --header -L --latency -U \
         --u_latency -B --batch_latency --timeout -v --version -R --rate",
    ),
    (
        "hey",
        "-n -c -q -z -o -m -H -t -A -d -D -T -a -x -U -h2 -host -disable-compression \
         -disable-keepalive -disable-redirects -cpus -enable-tmpl",
    ),
    (
        "oha",
        "-n -c -p -z -w -q --burst-delay --burst-rate --rand-regex-url --urls-from-file \
         --max-repeat --dump-urls --latency-correction --no-tui -j --json --output-format --fps -m \
         --method -H --proxy-header -t --connect-timeout -A -d -D -Z -F -T -a --http-version \
         --http2 --host -x --proxy-http-version --proxy-http2 --disable-compression -r --redirect \
         --disable-keepalive --no-pre-lookup --ipv6 --ipv4 --cacert --cert --key --insecure \
         --connect-to --disable-color --no-color --unix-socket --vsock-addr \
         --stats-success-breakdown --db-url --debug -o --output -u --time-unit -V --version",
    ),
    (
        "h2load",
        "-n --requests -c --clients -t --threads -i --input-file -m --max-concurrent-streams -w \
         --window-bits -W --connection-window-bits -H --header --ciphers --tls13-ciphers -p \
         --no-tls-proto -d --data -r --rate --rate-period -D --duration --warm-up-time -T \
         --connection-active-timeout -N --connection-inactivity-timeout --timing-script-file -B \
         --base-uri --npn-list --alpn-list --h1 --header-table-size --encoder-header-table-size \
         --log-file --qlog-file-base --connect-to --rps --groups --no-udp-gso \
         --max-udp-payload-size --ktls --sni --ech-config-list -v --verbose --version",
    ),
    (
        "vegeta",
        "-body -cert -chunked -connect-to -connections -dns-ttl -duration -format -h2c -header \
         -http2 -insecure -keepalive -key -laddr -lazy -max-body -max-connections -max-workers \
         -name -output -prometheus-addr -proxy-header -rate -redirects -resolvers -root-certs \
         -session-tickets -targets -timeout -unix-socket -workers -cpus -profile -version --rate \
         --workers",
    ),
    (
        "k6",
        "-u --vus -d --duration -i --iterations -s --stage --execution-segment \
         --execution-segment-sequence -p --paused --no-setup --no-teardown --max-redirects --batch \
         --batch-per-host --rps --user-agent --http-debug --insecure-skip-tls-verify \
         --no-connection-reuse --no-vu-connection-reuse --min-iteration-duration -w --throw \
         --blacklist-ip --block-hostnames --summary-trend-stats --summary-time-unit --system-tags \
         --tag --console-output --discard-response-bodies --local-ips --dns \
         --include-system-env-vars --compatibility-mode -t --type -e --env --no-thresholds \
         --no-summary --summary-export --traces-output -o --out -l --linger --no-usage-report -a \
         --address -c --config --log-output --log-format -q --quiet -v --verbose --no-color \
         --summary-mode --profiling-enabled --secret-source --new-machine-readable-summary",
    ),
    (
        "ab",
        "-n -c -t -s -b -B -p -u -T -v -w -i -x -y -z -C -H -A -P -X -V -k -d -S -q -l -g -e -r -m \
         -I -Z -f -E",
    ),
    (
        "autocannon",
        "-c --connections -p --pipelining -d --duration -a --amount -L --sampleInt -S --socketPath \
         -w --workers -W --warmup --on-port -m --method -t --timeout -T --title -b --body -F \
         --form -i --input -H --headers --har -B --bailout -M --maxConnectionRequests -O \
         --maxOverallRequests -r --connectionRate -R --overallRate -C --ignoreCoordinatedOmission \
         -D --reconnectRate -n --no-progress -l --latency -I --idReplacement -j --json -f \
         --forever -s --servername -x --excludeErrorStats -E --expectBody --renderStatusCodes \
         --cert --key --ca --debug -v --version",
    ),
    (
        "bombardier",
        "--version -c --connections -t --timeout -l --latencies -m --method -b --body -f \
         --body-file -s --stream --cert --key -k --insecure -a --disableKeepAlives -H --header -n \
         --requests -d --duration -r --rate --fasthttp --http1 --http2 -p --print -q --no-print -o \
         --format",
    ),
    (
        "fortio",
        "-H -L -P -X -a -abort-on -allow-initial-errors -base-url -c -cacert -cert -compression \
         -connection-reuse -content-type -curl -curl-stdout-headers -data-dir -gomaxprocs -grpc \
         -h2 -halfclose -health -http1.0 -httpbufferkb -httpccch -https-insecure -jitter -json -k \
         -keepalive -key -labels -log-errors -loglevel -n -nocatchup -offset -p -payload \
         -payload-file -payload-size -ping -profile -qps -quiet -r -resolve -runid -s \
         -sequential-warmup -stdclient -t -timeout -uniform -user",
    ),
];

fn load() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    command.find_subcommand("load").cloned().unwrap()
}

fn error(words: &[&str]) -> clap::Error {
    let words: Vec<OsString> = ["dyno", "load"].iter().chain(words).map(OsString::from).collect();
    Cli::read(&words).expect_err("the command must be refused")
}

fn has(load: &clap::Command, typed: &str) -> bool {
    match (typed.strip_prefix("--"), typed.strip_prefix('-')) {
        (Some(long), _) => load.get_arguments().any(|arg| arg.get_long() == Some(long)),
        (None, Some(short)) => {
            short.chars().count() == 1
                && load.get_arguments().any(|arg| arg.get_short() == short.chars().next())
        }
        (None, None) => false,
    }
}

#[test]
fn options_of_every_tool_have_equivalent() {
    let load = load();
    for (name, list) in LISTS {
        let tool = TOOLS.iter().find(|tool| tool.name == name).unwrap();
        for typed in list.split_whitespace() {
            let equivalence = equivalent(tool, typed)
                .unwrap_or_else(|| panic!("{name} {typed} has no equivalent"));
            let dashed = if typed.starts_with("--") { typed.into() } else { format!("-{typed}") };
            let is_here = has(&load, typed) || tool.spelling == Spelling::Go && has(&load, &dashed);
            assert!(equivalence != SAME || is_here, "{name} {typed}: there is no such option here");
            if !has(&load, typed) && equivalence != SAME {
                let failure = error(&["http://127.0.0.1:1/", typed]);
                let text = failure.to_string();
                assert!(
                    text.contains(equivalence) && text.contains(name),
                    "{name} {typed}: {text}"
                );
                assert_eq!(failure.exit_code(), 2, "{name} {typed}");
            }
        }
    }
}

#[test]
fn equivalents_name_existing_options() {
    let load = load();
    for tool in &TOOLS {
        for (names, equivalence) in
            tool.options.iter().filter(|(_, equivalence)| !equivalence.contains("curl"))
        {
            let words = equivalence.split([' ', ',', ';', '\'', '`', '(', ')']);
            for word in words.filter(|word| word.len() > 1 && word.starts_with('-')) {
                assert!(
                    has(&load, word) || word == "--version",
                    "{} {names}: there is no {word} here",
                    tool.name
                );
            }
        }
    }
}

#[test]
fn refused_options_of_other_tools_have_status_2() {
    for (_, list) in LISTS {
        for typed in list.split_whitespace().filter(|typed| typed.len() > 2) {
            for words in [vec![typed], vec![typed, "x"]] {
                let words = [vec!["http://127.0.0.1:1/"], words].concat();
                let words: Vec<OsString> =
                    ["dyno", "load"].iter().chain(&words).map(OsString::from).collect();
                if let Err(error) = Cli::read(&words) {
                    assert_eq!(error.exit_code(), 2, "{typed}: {error}");
                }
            }
        }
    }
    for typed in ["-h2", "-h2c", "-host", "-hosts", "-http2", "-headers", "-khost", "-h=x", "-help"]
    {
        assert_eq!(error(&["http://127.0.0.1:1/", typed]).exit_code(), 2, "{typed}");
    }
    for typed in ["-h", "--help", "-kh", "-hk"] {
        assert_eq!(error(&[typed]).exit_code(), 0, "{typed}");
    }
}

#[test]
fn options_with_another_meaning_have_hints() {
    let message = |words: &[&str]| error(&[&["http://h/"], words].concat()).to_string();
    for (words, parts) in [
        (
            ["-m", "POST"],
            ["in dyno, -m is --streams", "-m in hey, oha, ab, autocannon, bombardier: use -X"],
        ),
        (["-t", "30s"], ["in dyno, -t is --threads", "use --timeout"]),
        (["-d", "{\"a\":1}"], ["in dyno, -d is --duration", "use -b TEXT"]),
        (["-p", "post.json"], ["in dyno, -p is --pipeline", "-p in ab: use --body-file FILE"]),
        (
            ["-r", "-n"],
            ["-r: needs a value\nhint: in dyno, -r is --rate", "errors do not end a load"],
        ),
        (["-rate", "100"], ["--rate", "two dashes"]),
        (["-duration=10s", "-k"], ["--duration", "two dashes"]),
        (["-workers=10", "-k"], ["-c for connections", "-workers in vegeta: "]),
        (["-body", "x"], ["--body-file FILE", "-body in vegeta: "]),
        (["http://b/", "-k"], ["http://b/: is a second URL", "--import FILE"]),
    ] {
        let text = message(&words);
        assert!(parts.iter().all(|part| text.contains(part)), "{words:?}: {text}");
    }
}

#[test]
fn letters_with_another_meaning_here_are_documented() {
    let load = load();
    let docs = include_str!("../../../../docs/reference/other-tools.md");
    for tool in &TOOLS {
        for (names, equivalence) in
            tool.options.iter().filter(|(_, equivalence)| *equivalence != SAME)
        {
            for name in names.split(' ').filter(|name| name.chars().count() == 1) {
                let row = format!("| `-{name}` |");
                let row = docs.lines().find(|line| line.starts_with(&row)).unwrap_or_default();
                let is_documented = !has(&load, &format!("-{name}")) || row.contains(tool.name);
                assert!(
                    is_documented,
                    "docs/reference/other-tools.md lacks -{name} of {} ({equivalence})",
                    tool.name
                );
            }
        }
    }
}

#[test]
fn bare_duration_is_in_seconds() {
    for (words, ns) in
        [(["-d2", "http://h/"], 2_000_000_000), (["-d0.5", "http://h/"], 500_000_000)]
    {
        let words: Vec<OsString> =
            ["dyno", "load"].iter().chain(&words).map(OsString::from).collect();
        let crate::cli::Command::Load(args) = Cli::read(&words).unwrap().command else { panic!() };
        assert_eq!(args.settings.load.duration_ns, ns);
    }
}
