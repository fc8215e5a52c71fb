//! Texts at the end of the help of each command: examples, remarks and exit statuses.

pub const ROOT: &str = "\
Examples:
  dyno load http://127.0.0.1:8080/ -c 64 -d 10s    load one URL
  dyno run suites/hello.toml                       run a suite: from a file to a report
  dyno explain still_warming                       explain a caveat of a result

Exit status: 0 the result is valid, 1 it is not, 2 wrong usage or a bad file, 3 the machine or a
server failed, or the work was ended early, 141 the output pipe was closed.";

pub const DOCTOR: &str = "\
Example:
  dyno doctor

Reports omit what is marked --, and name it as missing. The line below says how to get it.

Exit status: 0 for any finding, 2 wrong usage, 141 the output pipe was closed.";

pub const RUN: &str = "\
Examples:
  dyno run suites/hello.toml
  dyno run suites/hello.toml --only go-nethttp --repeats 5
  dyno run --resume runs/hello-20260102-030405

The line of a step names its limiter and its most severe caveat; `dyno explain CODE` explains them.

Exit status: 0 the run is valid, 1 some of it is not, 2 wrong usage or a faulty suite,
3 the machine or a subject failed, or the run was ended early, 141 the output pipe was closed.";

pub const PLAN: &str = "\
Examples:
  dyno plan suites/hello.toml
  dyno plan suites/hello.toml --only nginx --repeats 5
  dyno plan suites/hello.toml --format json | jq .trials
  dyno plan suites/two-percent.toml --budget 30m

Builds and starts nothing. The options are those of `dyno run`. --budget chooses the repeats and
the load duration that detect the smallest difference in that time. It uses the variance of an
earlier run of the suite, the pilot.

Exit status: 0 the plan is printed, 2 wrong usage or a faulty suite,
141 the output pipe was closed.";

pub const SUBJECTS: &str = "\
Examples:
  dyno subjects list
  dyno subjects build rust-hyper
  dyno subjects check nginx node-http
  dyno subjects check --all --subjects my/subjects

docs/guides/your-server.md shows how to add one.

Exit status: 0 all is well, 1 a check failed, 2 wrong usage or a faulty subject.toml,
3 the machine or a subject failed, or it was ended early, 141 the output pipe was closed.";

pub const EXPLAIN: &str = "\
Examples:
  dyno explain
  dyno explain still_warming
  dyno explain server cpu
  dyno explain 3

Case, hyphens and underscores do not matter.

Exit status: 0 the explanation is printed, 2 the code is unknown, 141 the output pipe was closed.";

pub const CALIBRATE: &str = "\
Examples:
  dyno calibrate
  dyno calibrate --format json -o calibration.json
  dyno calibrate --verdicts --only lock-sleep,wait-condition

`dyno load` quotes the ceilings that are measured here.

Exit status: 0 measured and kept, 1 a verdict with high confidence is wrong (--verdicts),
2 wrong usage, 3 the machine failed, or it was ended early: no ceilings are kept then.";

pub const COMPARE: &str = "\
Examples:
  dyno compare runs/before runs/after
  dyno compare runs/hello-20260102-030405:nginx runs/hello-20260102-030405:h2o
  dyno compare runs/before runs/after --fail-on 'cpu_us_per_request>+3%,p99>+10%'
  dyno compare --rev main --rev HEAD suite.toml --format junit -o compare.xml

Ratios are B ÷ A. Two subjects of one run are compared in pairs of repeats. Subjects of two runs
are compared by name. A verdict needs five repeats of each. Runs that differ in more than their
servers (machine, dyno, load, limits, back ends) are refused.

--rev measures the server of a suite in two revisions of its Git repository. Each is checked out
in a temporary work tree and built, and both are loaded in turns. The suite, its files and the
back ends are those of the present work tree. The run is kept.

Exit status: 0 every gate is held, 1 a gate is missed, 2 wrong usage, no run, or runs that differ,
3 a gate is undecided and none is missed (0 with --undecided pass), 141 the output pipe was closed.
With --rev also: 1 a revision has incorrect responses or no valid step, 3 the machine or the server
failed, or the comparison was ended early.";

pub const PROFILE: &str = "\
Examples:
  dyno profile runs/hello-20260102-030405
  dyno profile runs/hello-20260102-030405 --trial 3 | less
  dyno profile runs/hello-20260102-030405 --trial 3 --format pprof -o h2o.pb.gz
  dyno profile runs/after --trial 3 --beside runs/before --format html -o difference.html

A run has profiles if its suite says `profile = true` under [observe], or with
`dyno run --observe default,profile`.

Exit status: 0 it is written, 2 wrong usage, no run, or no such profile,
141 the output pipe was closed.";

pub const REPORT: &str = "\
Examples:
  dyno report runs/hello-20260102-030405
  dyno report runs/hello-20260102-030405 --format csv -o trials.csv

Exit status: that of the run: 0 it is valid, 1 some of it is not, 3 the machine or a subject failed,
or it was ended early; 2 wrong usage or no run, 141 the output pipe was closed.";

pub const WATCH: &str = "\
Examples:
  dyno watch --port 8080
  dyno watch --pid 4711 --duration 30s --report server.html
  dyno watch --cgroup /sys/fs/cgroup/system.slice/nginx.service --format json

The server is not changed, and any client may load it.

Exit status: 0 it was observed, 2 wrong usage or no such server, 3 the server ended,
141 the output pipe was closed.";

/// The end of the short help of `dyno load`.
pub const LOAD_SHORT: &str = "All options, with examples: dyno load --help";

pub const LOAD: &str = "\
Examples:
  dyno load http://127.0.0.1:8080/plaintext                     64 connections for 10 s, closed loop
  dyno load http://127.0.0.1:8080/ -c 256 -p 16 -d 15s          pipelined
  dyno load http://127.0.0.1:8080/ -r 5k --arrival poisson      open loop, 5,000 random requests/s
  dyno load http://127.0.0.1:8080/ -r 1k..20k -d 60s            a ramp
  dyno load http://127.0.0.1:8080/ --find 'p99<5ms'             highest rate with a p99 below 5 ms
  dyno load http://127.0.0.1:8080/ -n 100k --format json        so many requests, result as JSON
  dyno load https://127.0.0.1:8443/ -k                          TLS, certificate not verified
  dyno load http://127.0.0.1:8080 --request '80 GET /items/{rand:1..1000}' \\
    --request '20 POST /items {\"n\":{seq}}'
  dyno load --curl \"curl -H 'Accept: text/html' http://127.0.0.1:8080/\"
  dyno load --import session.har                                what a browser asked for
  dyno load http://127.0.0.1:8080/ --save runs                  and keep it, for dyno report

Placeholders in paths, header values and bodies: {seq}, {rand:1..100}, {uuid}, {csv:users.csv:name}.
Imported requests are sent as they were recorded.
Times: 250us, 500ms, 10s, 2m, 1h. Numbers: 5000, 5k, 1.5M.

Exit status: 0 the result is valid, 1 it is not, 2 wrong usage or a bad file,
3 the load could not begin, was ended early, or a result could not be written,
141 the output pipe was closed.";
