//! Lists the options of other load generators, with their equivalents in dyno.

/// The way in which a tool spells its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// Letters after one dash, names after two.
    Gnu,
    /// Go's `flag`: names after one dash or two.
    Go,
}

/// A load generator.
pub struct LoadTool {
    pub name: &'static str,
    pub spelling: Spelling,
    /// Options without dashes, and their equivalent in dyno. Options with the same equivalent are
    /// separated by spaces.
    pub options: &'static [(&'static str, &'static str)],
}

/// The equivalent of an option with the same name and meaning in dyno.
pub const SAME: &str = "the same";

const SUMMARY: &str = "not needed, because the result always has the percentiles";
const QUIET: &str = "use --no-tui (standard output has only the result)";
const NO_REDIRECTS: &str = "not available, because dyno does not follow redirects, and counts them \
                            as normal responses";
const NO_PROXY: &str = "not available, because dyno loads a server, not a proxy";
const NO_COMPRESSION: &str =
    "not needed, because dyno requests compressed responses only with -H 'Accept-Encoding: …'";
const NO_CIPHERS: &str = "not available, because the TLS handshake chooses versions and ciphers";
const NO_SNI: &str = "use the name in the URL (dyno sends it as SNI), with --resolve \
                      HOST:PORT:ADDRESS";
const CONTENT_TYPE: &str = "use -H 'Content-Type: …'";
const ACCEPT: &str = "use -H 'Accept: …'";
const BASIC: &str = "use -H 'Authorization: Basic …'";
const HOST: &str = "use -H 'Host: …', or use the name in the URL, with --resolve HOST:PORT:ADDRESS";
const USER_AGENT: &str = "use -H 'User-Agent: …'";
const COOKIE: &str = "use -H 'Cookie: …', or keep cookies with --step and --cookies";
pub const METHOD: &str = "use -X METHOD";
const BODY: &str = "use -b TEXT";
const BODY_FILE: &str = "use --body-file FILE";
const NO_FORMS: &str = "use --curl \"curl -F … URL\", which builds the form";
pub const DURATION: &str = "use -d, such as -d 10s";
pub const TIMEOUT: &str = "use --timeout, such as --timeout 20s";
pub const IDLE_TIMEOUT: &str = "use --timeout to limit the time until the end of a response, or \
                                --first-byte-timeout to limit the time until its first byte";
const RATE: &str = "use -r, requests per second over all connections, such as -r 5k";
const STAGES: &str = "use -r with several rates, such as -r 1k@10s,1k..5k@30s";
const CONNECTIONS: &str = "use -c";
const REQUESTS: &str = "use -n";
const PIPELINE: &str = "use -p";
const STREAMS: &str = "use -m";
const WORKERS: &str = "use -c for connections, and -t for threads";
const THREADS: &str = "use -t for threads, and --cpus for their CPUs";
const NO_KEEPALIVE: &str = "use --requests-per-connection 1";
const KEEPALIVE: &str =
    "not needed, because connections stay open (--requests-per-connection 1 closes them)";
const HTTP1: &str = "use --protocol h1";
const HTTP2: &str = "use --protocol h2 with https://, or --protocol h2c with http://";
const H2C: &str = "use --protocol h2c";
const NO_HTTP3: &str = "not available, because dyno does not support HTTP/3";
const NO_HTTP10: &str = "not available, because dyno does not support HTTP/1.0 (to close each \
                         connection after one request, use --requests-per-connection 1)";
const PROTOCOL: &str = "use --protocol";
const INSECURE: &str = "use -k";
const CACERT: &str = "use --cacert FILE";
const CERT: &str = "use --cert FILE and --key FILE";
const TLS_SESSIONS: &str = "use --tls-resumption";
const RESOLVE: &str = "use --resolve HOST:PORT:ADDRESS";
const NO_DNS: &str =
    "not available, because dyno resolves a name once (--resolve can set the address)";
const SOURCE: &str = "use --source ADDRESS";
const UNIX: &str = "use --unix-socket PATH";
const IMPORT: &str = "use --import FILE";
const MIX: &str = "use --request for a mix of requests, or --import FILE (dyno has no scripts)";
const TEMPLATES: &str = "use placeholders such as {rand:1..100}, which need no option";
const JSON: &str = "use --format json";
const FORMAT: &str = "use --format text, json or csv";
pub const LOG: &str = "use --stream FILE for one line per interval, or --hlog FILE for histograms";
const METRICS: &str = "use --metrics ADDRESS";
const SAVE: &str = "use --save FOLDER, which stores the whole load for `dyno report`";
const EXPECT: &str = "use --expect-body TEXT or --expect-contains TEXT";
const NO_LIMIT: &str = "not available, because dyno reads each response completely";
const NO_ABORT: &str = "not available, because failures are counted and do not end the load. \
                        More than 1 % of failures make the result invalid";
const NO_LABELS: &str = "not available (to distinguish results, choose the name of the file with \
                         -o FILE, or of the folder with --save FOLDER)";
const NO_DEBUG: &str = "not available (try one request with curl -v)";
const NO_COLOR: &str = "set NO_COLOR=1 in the environment, or use -o FILE";
const VERSION: &str = "use `dyno --version`";
const OMISSION: &str = "not needed, because with -r dyno measures response times from the intended \
                        start of each request";
const WINDOW: &str = "use --window-bits N";
pub const WARMUP: &str = "use -w, such as -w 2s";
const BUFFERS: &str = "not available, because dyno leaves the sizes of socket buffers to the \
                       system";
const OF_SERVER: &str = "not available, because this option is not for a load over HTTP";

pub static TOOLS: [LoadTool; 12] = [
    LoadTool {
        name: "wrk",
        spelling: Spelling::Gnu,
        options: &[
            ("c connections t threads d duration H header timeout", SAME),
            ("s script", MIX),
            ("latency", SUMMARY),
            ("v version", VERSION),
        ],
    },
    LoadTool {
        name: "wrk2",
        spelling: Spelling::Gnu,
        options: &[
            ("c connections t threads d duration H header timeout rate", SAME),
            ("R", RATE),
            ("s script lua", MIX),
            ("L latency", SUMMARY),
            (
                "U u_latency u-latency",
                "not needed, because the result has both service time and response time",
            ),
            ("B batch_latency", OMISSION),
            ("P print_all_responses p print_realtime_stats", LOG),
            ("v version", VERSION),
        ],
    },
    LoadTool {
        name: "hey",
        spelling: Spelling::Go,
        options: &[
            ("n c H", SAME),
            ("q", "use -r, the rate of all connections (hey's rate is per worker), such as -r 5k"),
            ("z", DURATION),
            ("o", "use --format csv (in dyno, -o names the result file)"),
            ("m", METHOD),
            ("t", TIMEOUT),
            ("A", ACCEPT),
            ("d", BODY),
            ("D", BODY_FILE),
            ("T", CONTENT_TYPE),
            ("a", BASIC),
            ("U", IMPORT),
            ("x", NO_PROXY),
            ("h2", HTTP2),
            ("host", HOST),
            ("disable-compression", NO_COMPRESSION),
            ("disable-keepalive", NO_KEEPALIVE),
            ("disable-redirects", "not needed, because redirects are never followed"),
            ("cpus", THREADS),
            ("enable-tmpl", TEMPLATES),
        ],
    },
    LoadTool {
        name: "oha",
        spelling: Spelling::Gnu,
        options: &[
            (
                "n c H insecure cacert cert key connect-timeout no-tui unix-socket method o output",
                SAME,
            ),
            ("p parallel", STREAMS),
            ("z", DURATION),
            (
                "w wait-ongoing-requests-after-deadline",
                "not needed, because dyno waits for requests in flight at the end",
            ),
            ("q query-per-second", RATE),
            (
                "burst-delay burst-rate burst-requests",
                "use --trace FILE, which starts requests at the times in a file",
            ),
            ("rand-regex-url max-repeat dump-urls", TEMPLATES),
            ("urls-from-file", IMPORT),
            ("latency-correction", OMISSION),
            ("j json output-format", JSON),
            ("fps time-unit u disable-color no-color stats-success-breakdown", FORMAT),
            ("m", METHOD),
            ("t", TIMEOUT),
            ("A", ACCEPT),
            ("d", BODY),
            ("D body-path", BODY_FILE),
            ("Z body-path-lines", "use placeholders, such as -b '{csv:FILE:1}'"),
            ("F form", NO_FORMS),
            ("T", CONTENT_TYPE),
            ("a", BASIC),
            (
                "aws-session aws-sigv4",
                "not available (sign requests beforehand, and use --import FILE)",
            ),
            ("http-version", PROTOCOL),
            ("http2", HTTP2),
            ("host", HOST),
            ("x proxy-header proxy-http-version proxy-http2", NO_PROXY),
            ("disable-compression", NO_COMPRESSION),
            ("r redirect", NO_REDIRECTS),
            ("disable-keepalive", NO_KEEPALIVE),
            ("no-pre-lookup", NO_DNS),
            ("ipv4 ipv6", "use an IPv4 or IPv6 address in the URL, or --resolve HOST:PORT:ADDRESS"),
            ("connect-to", RESOLVE),
            (
                "vsock-addr",
                "not available, because dyno connects only over TCP, or over a Unix socket with \
                 --unix-socket PATH",
            ),
            ("db-url", SAVE),
            ("debug", NO_DEBUG),
            ("V version", VERSION),
        ],
    },
    LoadTool {
        name: "h2load",
        spelling: Spelling::Gnu,
        options: &[
            (
                "n requests c t threads m H header window-bits connection-window-bits \
                 header-table-size",
                SAME,
            ),
            ("clients", CONNECTIONS),
            ("i input-file", IMPORT),
            ("max-concurrent-streams", STREAMS),
            ("w", WINDOW),
            ("W", "use --connection-window-bits N"),
            ("ciphers tls13-ciphers groups", NO_CIPHERS),
            ("p no-tls-proto npn-list alpn-list", "use --protocol h1, h2 or h2c"),
            ("d data", BODY_FILE),
            (
                "r rate rate-period",
                "use --ramp-connections TIME (in dyno, -r is requests per second)",
            ),
            ("D", "use -d for the duration, such as -d 10s, and -w for the warm-up, such as -w 2s"),
            ("duration", SAME),
            ("warm-up-time", WARMUP),
            ("T connection-active-timeout N connection-inactivity-timeout", IDLE_TIMEOUT),
            (
                "timing-script-file",
                "use --trace FILE for the times, and --import FILE for the requests",
            ),
            (
                "B base-uri",
                "use --import FILE, and give the URL of the server (for a Unix socket, add \
                 --unix-socket PATH)",
            ),
            ("h1", HTTP1),
            (
                "encoder-header-table-size",
                "not available (--header-table-size limits the table that the server uses for its \
                 responses)",
            ),
            ("log-file qlog-file-base", LOG),
            ("connect-to", RESOLVE),
            (
                "rps",
                "use -r, the rate of all connections (h2load's rate is per client), such as -r 5k",
            ),
            ("sni", NO_SNI),
            (
                "ech-config-list ktls max-frame-size",
                "not available, because dyno has no options for these settings of TLS and HTTP/2",
            ),
            ("no-udp-gso max-udp-payload-size", NO_HTTP3),
            ("http3 http3-only", NO_HTTP3),
            ("v verbose", NO_DEBUG),
            ("V version", VERSION),
        ],
    },
    LoadTool {
        name: "vegeta",
        spelling: Spelling::Go,
        options: &[
            ("cert key duration header insecure output rate timeout unix-socket", SAME),
            ("body", "use --body-file FILE (in dyno, --body is the text itself)"),
            ("chunked", "not available, because dyno sends request bodies with Content-Length"),
            ("connections max-connections", CONNECTIONS),
            ("workers max-workers", WORKERS),
            ("connect-to", RESOLVE),
            ("dns-ttl resolvers", NO_DNS),
            ("format", "use --import-format (in dyno, --format is for the result)"),
            ("h2c", H2C),
            ("http2", HTTP2),
            ("keepalive", KEEPALIVE),
            ("laddr", SOURCE),
            ("lazy", "not needed, because --import FILE reads all targets before the load"),
            ("max-body", NO_LIMIT),
            ("name", NO_LABELS),
            ("prometheus-addr", METRICS),
            ("proxy-header", NO_PROXY),
            ("redirects", NO_REDIRECTS),
            ("root-certs", CACERT),
            ("session-tickets", TLS_SESSIONS),
            ("targets", IMPORT),
            ("cpus", THREADS),
            ("profile", NO_DEBUG),
            ("version", VERSION),
        ],
    },
    LoadTool {
        name: "k6",
        spelling: Spelling::Gnu,
        options: &[
            ("d duration", SAME),
            ("u vus", CONNECTIONS),
            ("i iterations", REQUESTS),
            ("s stage stages", STAGES),
            ("rps", RATE),
            ("max-redirects", NO_REDIRECTS),
            (
                "batch batch-per-host",
                "use --resource PATH for a page's requests, and --page-connections",
            ),
            ("user-agent", USER_AGENT),
            ("http-debug v verbose log-output log-format console-output", NO_DEBUG),
            ("insecure-skip-tls-verify", INSECURE),
            ("no-connection-reuse no-vu-connection-reuse", NO_KEEPALIVE),
            ("discard-response-bodies", "not needed, because dyno reads bodies and discards them"),
            ("dns", NO_DNS),
            ("blacklist-ip block-hostnames", "not needed, because a load goes to one server"),
            ("local-ips", SOURCE),
            ("min-iteration-duration", "use -r, which sets when requests start"),
            ("throw w", "not needed, because dyno counts every failure by its kind"),
            (
                "no-setup no-teardown paused p execution-segment execution-segment-sequence e env \
                 include-system-env-vars compatibility-mode t type a address c config linger l \
                 profiling-enabled secret-source",
                MIX,
            ),
            ("tag system-tags", NO_LABELS),
            (
                "no-thresholds",
                "not needed, because a load has no thresholds (`dyno compare` can check limits of \
                 the difference between two results)",
            ),
            (
                "summary-trend-stats summary-time-unit summary-mode no-summary \
                 new-machine-readable-summary",
                SUMMARY,
            ),
            ("summary-export", "use --format json -o FILE"),
            ("o out traces-output", LOG),
            ("no-usage-report", "not needed, because dyno sends no usage reports"),
            ("q quiet", QUIET),
            ("no-color", NO_COLOR),
        ],
    },
    LoadTool {
        name: "ab",
        spelling: Spelling::Gnu,
        options: &[
            ("n c H", SAME),
            ("concurrency", CONNECTIONS),
            ("t", DURATION),
            ("s", TIMEOUT),
            ("b", BUFFERS),
            ("B", SOURCE),
            ("p", BODY_FILE),
            ("u", "use -X PUT --body-file FILE"),
            ("T", CONTENT_TYPE),
            ("i", "use -X HEAD"),
            ("m", METHOD),
            ("C", COOKIE),
            ("A", BASIC),
            ("P X", NO_PROXY),
            ("k", "not needed, because connections are kept (in dyno, -k accepts any certificate)"),
            (
                "r",
                "not needed, because errors do not end a load (in dyno, -r is requests per second)",
            ),
            ("d", SUMMARY),
            ("S", "not needed, because warnings do not end a load (caveats are always shown)"),
            (
                "l",
                "not needed, because dyno compares the lengths of bodies only with --expect-body",
            ),
            ("w x y z", "save the load with --save FOLDER, then use `dyno report`"),
            ("g", "use --hgrm FILE"),
            ("e", "use --format csv -o FILE"),
            ("q", QUIET),
            ("I", NO_SNI),
            ("Z f", NO_CIPHERS),
            ("E", CERT),
            ("v", NO_DEBUG),
            ("V", VERSION),
        ],
    },
    LoadTool {
        name: "autocannon",
        spelling: Spelling::Gnu,
        options: &[
            ("c connections d duration timeout method b body p cert key", SAME),
            ("pipelining", PIPELINE),
            ("a amount O maxOverallRequests", REQUESTS),
            ("L sampleInt", "use --interval TIME"),
            ("S socketPath", UNIX),
            ("w workers", "use -t for threads"),
            ("W warmup", WARMUP),
            ("on-port", "use `dyno run`, which starts servers and waits until they are ready"),
            ("m", METHOD),
            ("t", TIMEOUT),
            ("T title", NO_LABELS),
            ("F form", NO_FORMS),
            ("i input", BODY_FILE),
            ("H", "use -H 'Name: value'"),
            ("headers", "use -H 'Name: value'"),
            ("har", IMPORT),
            ("B bailout", NO_ABORT),
            ("M maxConnectionRequests D reconnectRate", "use --requests-per-connection N"),
            (
                "r connectionRate R overallRate",
                "use -r, requests per second over all connections, such as -r 5k",
            ),
            ("C ignoreCoordinatedOmission", OMISSION),
            ("I idReplacement", "use the placeholder {uuid}"),
            ("j json", JSON),
            ("f forever", "use -d, up to 30 days"),
            ("s servername", NO_SNI),
            ("E expectBody", EXPECT),
            ("x excludeErrorStats renderStatusCodes l latency", SUMMARY),
            ("ca", CACERT),
            ("n no-progress", "use --no-tui (in dyno, -n is a number of requests)"),
            ("debug", NO_DEBUG),
            ("v version", VERSION),
        ],
    },
    LoadTool {
        name: "bombardier",
        spelling: Spelling::Gnu,
        options: &[
            (
                "c connections timeout method b body body-file cert key k insecure H header n \
                 requests d duration r rate",
                SAME,
            ),
            ("t", TIMEOUT),
            ("l latencies", SUMMARY),
            ("m", METHOD),
            ("f", BODY_FILE),
            (
                "s stream",
                "not available, because dyno sends request bodies with Content-Length (in dyno, \
                 --stream writes one line per interval of a load)",
            ),
            ("a disableKeepAlives", NO_KEEPALIVE),
            ("fasthttp", HTTP1),
            ("http1", HTTP1),
            ("http2", HTTP2),
            ("p print", FORMAT),
            ("q no-print", QUIET),
            ("o", "use --format (in dyno, -o names the result file)"),
            ("format", SAME),
            ("version", VERSION),
        ],
    },
    LoadTool {
        name: "fortio",
        spelling: Spelling::Go,
        options: &[
            ("c n H k cacert cert key resolve timeout X", SAME),
            ("qps", RATE),
            ("t", DURATION),
            (
                "r",
                "not needed, because dyno records times with a precision of 0.1 % (in dyno, -r is \
                 requests per second)",
            ),
            (
                "p",
                "not needed, because the result always has the percentiles (in dyno, -p is the \
                 number of pipelined requests)",
            ),
            ("a json data-dir", "use --format json -o FILE, or --save FOLDER"),
            ("labels runid base-url", NO_LABELS),
            ("L", NO_REDIRECTS),
            ("P", NO_PROXY),
            ("abort-on allow-initial-errors", NO_ABORT),
            ("compression", "use -H 'Accept-Encoding: gzip'"),
            ("connection-reuse", "use --requests-per-connection N"),
            ("keepalive", KEEPALIVE),
            ("content-type", CONTENT_TYPE),
            ("payload", BODY),
            ("payload-file", BODY_FILE),
            ("payload-size", "use a placeholder, such as -b '{fill:64KiB}'"),
            ("user", BASIC),
            ("h2", HTTP2),
            ("http1.0", NO_HTTP10),
            ("https-insecure", INSECURE),
            ("curl", "use `curl` (in dyno, --curl takes a curl command as the request)"),
            ("curl-stdout-headers quiet loglevel logprefix logcaller log-errors log-file", QUIET),
            ("gomaxprocs", THREADS),
            ("stdclient httpbufferkb httpccch halfclose maxpayloadsizekb", BUFFERS),
            ("uniform jitter nocatchup sequential-warmup", "use --arrival constant or poisson"),
            ("offset", WARMUP),
            ("s", STREAMS),
            (
                "grpc ping grpc-max-streams grpc-ping-delay grpc-port health healthservice \
                 grpc-compression grpc-metadata",
                OF_SERVER,
            ),
            (
                "echo-debug-path http-port redirect-port static-dir sync sync-interval ui-path",
                OF_SERVER,
            ),
            ("profile", NO_DEBUG),
            ("version", VERSION),
        ],
    },
    LoadTool {
        name: "curl",
        spelling: Spelling::Gnu,
        options: &[
            (
                "X H k header insecure cacert cert key resolve unix-socket connect-timeout o \
                 output",
                SAME,
            ),
            ("request", METHOD),
            (
                "d data data-raw data-binary data-ascii data-urlencode",
                "use -b TEXT, or give the whole curl command to --curl",
            ),
            ("b cookie c cookie-jar", COOKIE),
            ("A user-agent", USER_AGENT),
            ("e referer", "use -H 'Referer: …'"),
            ("u user", BASIC),
            ("x proxy", NO_PROXY),
            ("L location max-redirs", NO_REDIRECTS),
            ("m max-time", TIMEOUT),
            ("connect-to", RESOLVE),
            ("F form", NO_FORMS),
            ("I head", "use -X HEAD"),
            ("T upload-file", "use -X PUT --body-file FILE"),
            ("E", CERT),
            ("compressed", "use -H 'Accept-Encoding: gzip'"),
            ("http1.1", HTTP1),
            ("http1.0", NO_HTTP10),
            ("http2", HTTP2),
            ("http2-prior-knowledge", H2C),
            ("http3 http3-only", NO_HTTP3),
            ("no-keepalive", NO_KEEPALIVE),
            ("json", "use -b TEXT -H 'Content-Type: application/json'"),
            ("interface", SOURCE),
            ("s silent S show-error", QUIET),
            ("i include v verbose w write-out", NO_DEBUG),
        ],
    },
];
