# shellcheck shell=bash disable=SC2154
# The generators that benches/side-by-side compares: what each is called, whether it is here, its
# version, its command line, and what its output says. Sourced, not run. A load is described by the
# variables
#   url  protocol (h1, h2c or h2)  connections
#   depth (requests in flight per connection: pipelined, or streams)
#   rate (requests/s on a schedule; 0: closed loop)  seconds
#   kept (yes; no: a connection for each request)
# and files go to $work.

# Every generator has one CPU. These tell the Go tools and oha not to start more threads than that.
export GOMAXPROCS=1 TOKIO_WORKER_THREADS=1

# Where benches/peers puts what Debian does not package.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/dyno-bench
PATH=$PATH:/usr/sbin:/sbin:$cache/bin

label() {
  case $1 in
    bare)              echo "bare loop" ;;
    dyno-uring)        echo "**dyno** (uring)" ;;
    dyno-epoll)        echo "**dyno** (epoll)" ;;
    dyno-patient)      echo "**dyno** (uring, \`--spin never\`)" ;;
    dyno-reconnecting) echo "**dyno** (uring, 100 requests per connection, no resumption)" ;;
    dyno-closed)       echo "**dyno** (uring, \`Connection: close\`)" ;;
    *)                 echo "$1" ;;
  esac
}

# Those that cost so much themselves that a few rounds are enough.
is_slow() { case $1 in hey | ab | autocannon | k6 | fortio) return 0 ;; *) return 1 ;; esac; }

program() {
  case $1 in
    dyno-*)  echo "$dyno" ;;
    bare)    echo "$bare" ;;
    gcannon) echo "${GCANNON:-gcannon}" ;;
    *)       echo "$1" ;;
  esac
}

# absent GENERATOR: why it is not here; nothing if it is.
absent() {
  if command -v "$(program "$1")" >/dev/null; then return; fi
  case $1 in
    wrk | h2load | hey | ab) echo "not installed; \`scripts/setup bench\` gets it where it may" ;;
    gcannon)                 echo "neither in PATH nor named by GCANNON; no package has it" ;;
    wrk2)                    echo "not in PATH; no package has it" ;;
    bare) echo "not built; cargo build --release -p dyno-driver --example bare" ;;
    dyno-*)                  echo "not built; make dyno" ;;
    *)
      echo "not installed; $(cat "$cache/why/$1" 2>/dev/null || echo "\`benches/peers\` gets it")"
      ;;
  esac
}

# version GENERATOR: name and version, for those that are here.
version() {
  case $1 in
    wrk | wrk2) echo "$1 $("$1" -v 2>&1 | sed -n '1s/^wrk[0-9]* \([^ ]*\).*/\1/p')" ;;
    h2load)     h2load --version | tr '\n' ' ' | sed 's/ $//' ;;
    hey)
      echo "hey $(dpkg-query -W -f '${Version}' hey 2>/dev/null || echo "of unknown version")" ;;
    ab)         echo "ab $(ab -V | sed -n 's/.*Version \([^ ]*\).*/\1/p')" ;;
    oha)        oha --version ;;
    autocannon) autocannon --version 2>/dev/null | sed -n '1s/ v/ /p' ;;
    k6)         k6 version | sed -n 's/^\(k6 [^ ]*\).*/\1/p' ;;
    fortio)     echo "fortio $(fortio version)" ;;
    vegeta)     echo "vegeta $(vegeta -version 2>/dev/null | sed -n 's/^Version: *//p')" ;;
    # It tells its version only in a result.
    gcannon)
      echo "gcannon $(cat "$work/gcannon.version" 2>/dev/null || echo "of unknown version")" ;;
  esac || echo "$1 of unknown version"
}

# The instant from which a generator with a schedule counts a response time.
counts_from() {
  case $1 in
    dyno-* | oha | wrk2) echo "the intended instant" ;;
    *)                   echo "the sending" ;;
  esac
}

# write_inputs: the files that some generators want to read.
write_inputs() {
  cat >"$work/pipeline.lua" <<'LUA'
init = function(args)
  local one, all = wrk.format("GET", "/plaintext"), {}
  for i = 1, 16 do all[i] = one end
  request_all = table.concat(all)
end
request = function() return request_all end
LUA
  cat >"$work/load.js" <<'JS'
import http from "k6/http";
export const options = { discardResponseBodies: true, vus: __ENV.VUS, duration: __ENV.DURATION };
export default function () { http.get(__ENV.URL); }
JS
}

# command_of GENERATOR: sets `command` to its command line for the load, and `pin` to what keeps it
# on CPU 1.
command_of() {
  local program hostport=${url#*://}
  pin=(taskset -c 1)
  program=$(program "$1")
  hostport=${hostport%%/*}
  case $1 in
    wrk)
      command=("$program" -t1 "-c$connections" "-d${seconds}s")
      [ "$kept" = yes ] || command+=(-H "Connection: close")
      [ "$depth" = 1 ] || command+=(-s "$work/pipeline.lua")
      command+=("$url") ;;
    wrk2)
      command=("$program" -t1 "-c$connections" "-d${seconds}s" "-R$rate" --latency "$url") ;;
    h2load)
      command=("$program" -t1 "-c$connections" "-m$depth" "-D$seconds")
      [ "$protocol" != h1 ] || command+=(--h1)
      command+=("$url") ;;
    gcannon)
      command=("$program" "$url" -t 1 -c "$connections" -p "$depth" -d "$seconds" --json) ;;
    oha)
      command=("$program" --no-tui --output-format json
        -c "$connections" -z "${seconds}s" --insecure)
      [ "$rate" = 0 ] || command+=(-q "$rate" --latency-correction)
      [ "$kept" = yes ] || command+=(--disable-keepalive)
      [ "$protocol" = h1 ] || command+=(--http2 -p "$depth")
      command+=("$url") ;;
    autocannon)
      command=("$program" --json --no-progress
        -c "$connections" -p "$depth" -d "$seconds" "$url") ;;
    hey)
      command=("$program" -cpus 1 -c "$connections" -z "${seconds}s")
      [ "$kept" = yes ] || command+=(-disable-keepalive)
      command+=("$url") ;;
    ab)
      # -t sets -n to 50,000 unless -n comes after it.
      command=("$program" -q -c "$connections" -t "$seconds" -n 5000000)
      [ "$kept" = no ] || command+=(-k)
      command+=("$url") ;;
    k6)
      command=("$program" run --quiet --no-color --no-usage-report --summary-export "$work/k6.json"
        -e "URL=$url" -e "VUS=$connections" -e "DURATION=${seconds}s" "$work/load.js") ;;
    fortio)
      command=("$program" load -quiet -c "$connections" -qps "$rate" -t "${seconds}s"
        -r 0.00001 -p 50,99 -json "$work/fortio.json" "$url") ;;
    vegeta)
      echo "GET $url" >"$work/vegeta.targets"
      command=("$program" attack "-targets=$work/vegeta.targets"
        "-rate=$rate" "-duration=${seconds}s" -insecure -http2=false
        "-workers=$connections" "-max-workers=$connections" "-connections=$connections"
        "-output=$work/vegeta.results") ;;
    bare)
      command=("$program" "$hostport" "$connections" "$seconds" "$depth"
        "/${url#*://*/}" "$protocol") ;;
    dyno-*)
      command=("$program" load "$url" --protocol "$protocol"
        -c "$connections" -d "${seconds}s" --format json)
      if [ "$protocol" = h1 ]; then command+=(-p "$depth"); else command+=(-m "$depth"); fi
      case $kept:$1 in
        *:dyno-closed) command+=(-H 'Connection: close') ;;
        no:*) command+=(--requests-per-connection 1) ;;
      esac
      case $1 in
        dyno-epoll)        command+=(--driver epoll) ;;
        dyno-uring | dyno-closed) command+=(--driver uring) ;;
        dyno-patient)      command+=(--driver uring --spin never) ;;
        dyno-reconnecting)
          command+=(--driver uring --requests-per-connection 100 --tls-resumption off) ;;
      esac
      # On a schedule dyno polls if some CPU stays free for the server, so it is given one instead
      # of being kept to one.
      [ "$rate" = 0 ] || { command+=(-r "$rate" --cpus 1); pin=(); }
      case $url in https:*) command+=(-k) ;; esac ;;
  esac
}

# result_of GENERATOR: "answers requests/s median p99", read from what its run has left; times in
# µs. "-" is what it does not tell. Answers of other statuses than 2xx do not count, or end the
# comparison where they cannot be told apart.
result_of() {
  local out=$work/out
  case $1 in
    wrk)
      awk '/requests in/ { n = $1 } /Requests\/sec/ { rate = $2 } /Non-2xx/ { n = 0 }
        END { print n, rate, "-", "-" }' "$out" ;;
    wrk2)
      awk '
        function us(t) {
          return t ~ /us$/ ? t + 0 : t ~ /ms$/ ? t * 1e3 : t ~ /m$/ ? t * 6e7 : t * 1e6
        }
        $1 == "50.000%" { p50 = us($2) } $1 == "99.000%" { p99 = us($2) }
        /requests in/ { n = $1 } /Requests\/sec/ { rate = $2 } /Non-2xx/ { n = 0 }
        END { print n, rate, p50, p99 }' "$out" ;;
    h2load)
      awk '/^finished in/ { rate = $4 } /^status codes:/ { n = $3 }
        END { print n, rate, "-", "-" }' "$out" ;;
    gcannon)
      jq -r .version "$out" >"$work/gcannon.version"
      jq -r '"\(.status."2xx") \(.rps) \(.latency_us.p50) \(.latency_us.p99)"' "$out" ;;
    oha)
      jq -r '(.statusCodeDistribution."200" // 0) as $n | .latencyPercentiles as $p |
        "\($n) \($n / .summary.total) \($p.p50 * 1e6) \($p.p99 * 1e6)"' "$out" ;;
    autocannon)
      jq -r '"\(."2xx") \(."2xx" / .duration) - -"' "$out" ;;
    hey)
      # Its counts by status stop at 1,000,000; its rate does not.
      awk '/Total:/ { total = $2 } /Requests\/sec:/ { rate = $2 }
        /^ *\[[^2]/ && /responses/ { rate = 0 }
        END { print rate * total, rate, "-", "-" }' "$out" ;;
    ab)
      awk '/^Complete requests:/ { n = $3 } /^Requests per second:/ { rate = $4 }
        /^Non-2xx/ { n = 0 }
        END { print n, rate, "-", "-" }' "$out" ;;
    k6)
      jq -r '(.metrics.http_reqs.count - .metrics.http_req_failed.passes) as $n |
        "\($n) \(.metrics.http_reqs.rate) - -"' "$work/k6.json" ;;
    fortio)
      jq -r '[.DurationHistogram.Percentiles[].Value * 1e6] as $p |
        "\(.RetCodes."200" // 0) \(.ActualQPS) \($p[0]) \($p[1])"' "$work/fortio.json" ;;
    vegeta)
      vegeta report -type=json "$work/vegeta.results" |
        jq -r '.latencies as $l |
          "\(.status_codes."200" // 0) \(.throughput) \($l."50th" / 1e3) \($l."99th" / 1e3)"' ;;
    bare)
      # It tells CPU per request, not how many requests there were; see measure.
      awk '{ print "-", $1, "-", "-" }' "$out" ;;
    dyno-*)
      jq -r '.response_time_us as $us |
        "\(.exchanges.completed) \(.throughput_rps) \($us.p50 // "-") \($us.p99 // "-")"' "$out" ;;
  esac
}
