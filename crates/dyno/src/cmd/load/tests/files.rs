//! Tests the files and the metrics of loads of the simulated world.

use std::net::TcpStream;
use std::time::Duration;

use dyno_contract::client;
use dyno_lab::load::Watch as _;
use dyno_model::Times;

use super::*;

/// A load of 500 requests in 1 s, after 100 in its warm-up.
const OPEN_LOOP: [&str; 9] = [URL, "-r", "500", "-d", "1s", "-w", "200ms", "--interval", "200ms"];

#[test]
fn stream_and_histograms_are_complete() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let read = |name: &str| fs::read_to_string(at(name)).unwrap();
    let [stream, hgrm, hlog, csv] = ["stream", "hgrm", "hlog", "csv"].map(at);
    let files = ["--stream", &stream, "--hgrm", &hgrm, "--hlog", &hlog, "-o", &csv];
    let words = [&OPEN_LOOP[..], &files, &["--format", "csv"]].concat();
    let simulated = Simulated::new(&words, &server_model());
    let Simulated { load, record } = &simulated;
    let stream = load.open_stream(&Preparation::default()).unwrap();
    let (args, spec, config) = (&load.args, &load.spec, &load.config);
    let mut watch = watch::LoadWatch::new(args, spec, config, stream, Arc::default()).unwrap();
    record.intervals.iter().for_each(|interval| watch.interval(interval));
    watch.end(true).unwrap();
    write_result(&load.plan(), args, &simulated.result()).unwrap();
    write_histograms(args, record).unwrap();

    let lines = read("stream");
    let stream: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!([&stream[0]["schema"], &stream[0]["type"]], ["dyno.stream/1", "begin"]);
    assert_eq!(stream[0]["config"]["rate"], 500.0);
    let of_phase = |phase: &'static str| stream.iter().filter(move |l| l["phase"] == phase);
    let ok =
        |phase: &'static str| of_phase(phase).map(|line| line["ok"].as_u64().unwrap()).sum::<u64>();
    assert_eq!([ok("warmup"), ok("measured") + ok("drain")], [100, 500]);
    let histogram = |line: &Value| serde_json::from_value(line["response_time_hdr"].clone());
    let after_warmup = of_phase("measured").chain(of_phase("drain"));
    let times: Vec<Times> = after_warmup.map(|line| histogram(line).unwrap()).collect();
    let times = Times::merge(&times);
    assert_eq!(times.count(), 500);

    let rows = read("csv");
    assert!(rows.starts_with("phase,start_s,end_s,ok,failed"), "{rows}");
    assert_eq!(rows.lines().filter(|line| line.starts_with("measured,")).count(), 5, "{rows}");
    assert!(read("hgrm").contains("Total count    =          500]"), "{}", read("hgrm"));
    let log = read("hlog");
    let is_measured =
        |line: &&str| !line.starts_with(['#', '"']) && !line.starts_with("Tag=warmup");
    let histogram = |line: &str| serde_json::from_value(line.rsplit(',').next().unwrap().into());
    let logged: Vec<Times> =
        log.lines().filter(is_measured).map(|line| histogram(line).unwrap()).collect();
    assert_eq!(Times::merge(&logged), times, "the log and the stream have the same counts");
}

#[test]
fn metrics_follow_load() {
    let Simulated { load, record } = Simulated::new(&OPEN_LOOP, &server_model());
    let mut metrics =
        outputs::Metrics::serve("127.0.0.1:0".parse().unwrap(), &load.config).unwrap();
    let addr = metrics.page.url.trim_start_matches("http://").trim_end_matches("/metrics");
    let addr = addr.to_string();
    let fetch = || {
        let stream = TcpStream::connect(&addr).unwrap();
        let page = client::get(stream, "/metrics", Duration::from_secs(60)).unwrap();
        String::from_utf8(page.body).unwrap()
    };
    let ok = |page: &str| {
        let is_ok =
            |l: &&str| l.starts_with("dyno_exchanges_total{") && l.contains("outcome=\"ok\"");
        page.lines().find(is_ok).unwrap().rsplit(' ').next().unwrap().to_string()
    };
    assert_eq!(ok(&fetch()), "0");
    let (first, rest) = record.intervals.split_at(2);
    first.iter().for_each(|interval| metrics.interval(interval));
    assert_eq!(ok(&fetch()), "200");
    rest.iter().for_each(|interval| metrics.interval(interval));
    let page = fetch();
    assert_eq!(ok(&page), "600");
    assert!(page.ends_with("# EOF\n") && page.contains("dyno_response_time_seconds{"), "{page}");
    // A quantile needs 20 responses above it.
    assert!(page.contains("quantile=\"0.5\"") && !page.contains("quantile=\"0.9999\""), "{page}");
}

#[test]
fn other_histogram_is_written_if_one_fails() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("times.hlog");
    let files = ["--hgrm", "/dev/full", "--hlog", log.to_str().unwrap()];
    let words = [&[URL, "-n", "100"], &files[..]].concat();
    let Simulated { load, record } = Simulated::new(&words, &server_model());
    let error = write_histograms(&load.args, &record).unwrap_err();
    assert!(error.to_string().starts_with("/dev/full: cannot be written"), "{error:#}");
    assert_eq!(exit_status(&error), Exit::Failed);
    assert!(log.exists());
}

/// In CI such a text is shared. A file has no colours.
#[test]
fn text_withholds_values_of_secret_headers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result");
    let secret = ["http://127.0.0.1:1/?page=abc125xyz", "-H", "X-Api-Key: abc125xyz"];
    let words = [&secret[..], &["-n", "10", "-o", path.to_str().unwrap()]].concat();
    let simulated = Simulated::new(&words, &server_model());
    let load = &simulated.load;
    write_result(&load.plan(), &load.args, &simulated.result()).unwrap();
    let mismatch = mismatch_error(&load.plan(), "GET /?page=abc125xyz has no response", false);
    for text in [fs::read_to_string(path).unwrap(), mismatch.to_string()] {
        assert!(text.contains("page=(withheld)") && !text.contains("abc125xyz"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
}
