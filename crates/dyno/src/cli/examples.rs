//! Texts at the end of the help of each command: examples, remarks and exit statuses.

pub const ROOT: &str = "\
Examples:
  dyno load http://127.0.0.1:8080/ -c 64 -d 10s    load one URL
  dyno run suites/hello.toml                       measure the servers of a suite file
  dyno explain still_warming                       explain a caveat of a result

Exit status: 0 the result is valid, 1 the result is not valid, 2 wrong usage or a bad file,
3 the machine or a server failed, or the work was ended early, 141 the output pipe was closed.";

pub const DOCTOR: &str = "\
Example:
  dyno doctor

Measurements marked -- are not possible here, and reports list them as missing. The line below such
a measurement shows how to enable it.

Exit status: 0 also if problems are found, 2 wrong usage, 141 the output pipe was closed.";

pub const RUN: &str = "\
Examples:
  dyno run suites/hello.toml
  dyno run suites/hello.toml --only go-nethttp --repeats 5
  dyno run --resume runs/hello-20260102-030405

dyno prints one line per step, which is one load of one server. The line names what limited the
step, and the most severe caveat (a warning about its result). `dyno explain CODE` explains both.

Exit status: 0 the run is valid, 1 some steps are not valid, 2 wrong usage or an invalid suite file,
3 the machine or a server failed, or the run was ended early, 141 the output pipe was closed.";

pub const PLAN: &str = "\
Examples:
  dyno plan suites/hello.toml
  dyno plan suites/hello.toml --only nginx --repeats 5
  dyno plan suites/hello.toml --format json | jq .trials
  dyno plan suites/two-percent.toml --budget 30m

`dyno plan` builds and starts nothing. It accepts the options of `dyno run`, except `--resume`,
`--anyway` and `--wait-quiet`. `--budget 30m` is for a run of 30 minutes: dyno chooses the number of
repeats and the length of the loads, so that the run can detect the smallest possible difference.
The choice depends on the variance between the repeats of an earlier run of the suite (the pilot
run).

Exit status: 0 the plan is printed, 2 wrong usage or an invalid suite file,
141 the output pipe was closed.";

pub const SUBJECTS: &str = "\
Examples:
  dyno subjects list
  dyno subjects build rust-hyper
  dyno subjects check nginx node-http
  dyno subjects check --all --subjects my/subjects

A subject is a server that dyno can build and start. To add one, see docs/guides/your-server.md.

Exit status: 0 no problem was found, 1 a check failed, 2 wrong usage or an invalid subject.toml,
3 the machine or a server failed, or the work was ended early, 141 the output pipe was closed.";

pub const EXPLAIN: &str = "\
Examples:
  dyno explain
  dyno explain still_warming
  dyno explain server cpu
  dyno explain 3

In codes, case, hyphens and underscores do not matter.

Exit status: 0 the explanation is printed, 2 the code is unknown, 141 the output pipe was closed.";

pub const CALIBRATE: &str = "\
Examples:
  dyno calibrate
  dyno calibrate --format json -o calibration.json
  dyno calibrate --verdicts --only lock-sleep,wait-condition

The result of `dyno load` shows the highest rate that `dyno calibrate` measured, so that you see
how close the load came to the limit of dyno itself.

Exit status: 0 the result is valid, 1 a load was disturbed, or a verdict with high confidence is
wrong (--verdicts), 2 wrong usage, 3 the machine failed, or the work was ended early and no rates
were saved.";

pub const COMPARE: &str = "\
Examples:
  dyno compare runs/before runs/after
  dyno compare runs/hello-20260102-030405:nginx runs/hello-20260102-030405:h2o
  dyno compare runs/before runs/after --fail-on 'cpu_us_per_request>+3%,p99>+10%'
  dyno compare --rev main --rev HEAD suite.toml --format junit -o compare.xml

Ratios are B ÷ A. If two servers (subjects) of one run are compared, each repeat of A is compared
with the same repeat of B. In two runs, servers with the same name are compared. dyno needs five
repeats of each server to decide which is better. dyno refuses to compare runs that differ in the
machine, the version of dyno, the requests, the load, the limits, the environment or the back ends.

--rev measures the server of a suite in two revisions of its Git repository. Each revision is
checked out in a temporary work tree and built. The load alternates between the two servers. The
suite, its files and the back ends come from the current work tree. The run is saved.

Each condition of --fail-on is a gate. Exit status: 0 every gate is held, 1 a gate is missed,
2 wrong usage, no such run, or runs that differ, 3 a gate is undecided and none is missed (0 with
--undecided pass), 141 the output pipe was closed. With --rev also: 1 a revision has incorrect
responses or no valid result, 3 the machine or a server failed, or the comparison was ended early.";

pub const PROFILE: &str = "\
Examples:
  dyno profile runs/hello-20260102-030405
  dyno profile runs/hello-20260102-030405 --trial 3 | less
  dyno profile runs/hello-20260102-030405 --trial 3 --format pprof -o h2o.pb.gz
  dyno profile runs/after --trial 3 --beside runs/before --format html -o difference.html

A run has profiles if its suite says `profile = true` under [observe], or with
`dyno run --observe default,profile`.

Exit status: 0 the profile is written, 2 wrong usage, no such run, or no such profile,
141 the output pipe was closed.";

pub const REPORT: &str = "\
Examples:
  dyno report runs/hello-20260102-030405
  dyno report runs/hello-20260102-030405 --format csv -o trials.csv
  dyno report runs/hello-20260102-030405 --format prometheus -o /var/lib/node_exporter/dyno.prom

Exit status: 0 the run is valid, 1 some steps are not valid, 2 wrong usage or no such run, 3 the
machine or a server failed, or the run was ended early, 141 the output pipe was closed.";

pub const WATCH: &str = "\
Examples:
  dyno watch --port 8080
  dyno watch --pid 4711 --duration 30s --report server.html
  dyno watch --cgroup /sys/fs/cgroup/system.slice/nginx.service --format json

dyno does not change the server, and sends no requests to it. Any client may load it.

Exit status: 0 the server was observed, 2 wrong usage or no such server, 3 the server ended, or
the user ended the work before --duration was over, 141 the output pipe was closed.";

/// The end of the short help of `dyno load`.
pub const LOAD_SHORT: &str = "All options, with examples: dyno load --help";

pub const LOAD: &str = "\
Examples:
  dyno load http://127.0.0.1:8080/plaintext                     64 connections for 10 s, closed loop
  dyno load http://127.0.0.1:8080/ -c 256 -p 16 -d 15s          pipelined
  dyno load http://127.0.0.1:8080/ -r 5k --arrival poisson      open loop, 5,000/s at random times
  dyno load http://127.0.0.1:8080/ -r 1k..20k -d 60s            a ramp
  dyno load http://127.0.0.1:8080/ --find 'p99<5ms'             highest rate with a p99 below 5 ms
  dyno load http://127.0.0.1:8080/ -n 100k --format json        100,000 requests, result as JSON
  dyno load https://127.0.0.1:8443/ -k                          TLS, certificate not verified
  dyno load http://127.0.0.1:8080 --request '80 GET /items/{rand:1..1000}' \\
    --request '20 POST /items {\"n\":{seq}}'
  dyno load --curl \"curl -H 'Accept: text/html' http://127.0.0.1:8080/\"
  dyno load --import session.har                                requests recorded by a browser
  dyno load http://127.0.0.1:8080/ --save runs                  save the load for dyno report

Placeholders in paths, header values and bodies: {seq}, {rand:1..100}, {uuid}, {csv:users.csv:name}.
Imported requests are sent as they were recorded.
Times: 250us, 500ms, 10s, 2m, 1h. Numbers: 5000, 5k, 1.5M.

Exit status: 0 the result is valid, 1 the result is not valid, 2 wrong usage or a bad file,
3 the load could not begin or was ended early, or a result could not be written,
141 the output pipe was closed.";
