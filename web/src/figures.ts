// What each chart shows: from the report's numbers to an ECharts option. Nothing is computed here, only chosen: eslint.config.js
// forbids arithmetic outside of the files that know nothing of the report.
import type { Option } from "./echarts.ts";
import { axisNumber, axisPercentile, axisSeconds, beyond, bytes, micros, millis, number, percent, stepName } from "./format.ts";
import { barsHeight, furthest, labelRoom, LANE_HEIGHT, laneTop, middle, quantileAt, stretched, stretchedFromEnd, wrap } from "./layout.ts";
import type { IntervalResult, Repeated, Report, Resource, ServerInterval, SubjectResult, Summary, TrialResult } from "./schema.ts";
import { subjectColour, subjectDash } from "./theme.ts";

/** Percentiles that charts are drawn of. */
type Quantile = "p50" | "p90" | "p99";

/** What the reader has chosen for a chart. */
export interface Choice {
  dark: boolean;
  logY: boolean;
  /** Names of hidden subjects. */
  hidden: ReadonlySet<string>;
  percentile: Quantile;
  /** What the spectrum is of. */
  at: { workload: string; step: number };
  trial: number;
}

export interface Figure {
  /** Whether the y axis may be switched to logarithmic, and how it starts. */
  logY?: boolean;
  /** In CSS pixels, where the style's height may be too little for all rows. */
  height?: (report: Report) => number;
  option: (report: Report, choice: Choice) => Option;
}

type Show = (value: number) => string;

const CROSS = "path://M0,0 L8,8 M8,0 L0,8";
const DOWN = "path://M0,0 L8,0 L4,8 Z";

/** Stands on a lower bound: the truth is above it. */
const ARROW = "path://M4,0 L8,6 L5,6 L5,14 L3,14 L3,6 L0,6 Z";

function limiterSymbol(resource: Resource): string {
  switch (resource) {
    case "server_cpu": return "circle";
    case "concurrency": return "triangle";
    case "generator": return "rect";
    case "elsewhere": return DOWN;
    default: return "diamond";
  }
}

/** The axis over steps. */
interface Across {
  name: string;
  of: (step: Summary | TrialResult["step"]) => number;
}

/**
 * The quantity that varies over the steps: connections, or the rate where that varies instead. Where steps of different
 * connections have the same number of requests in flight, that is what makes them comparable; markers stand at connections.
 */
function xOf(report: Report): Across {
  const different = (of: (s: Summary) => number | null): number => new Set(report.summaries.map(of)).size;
  const connections = different((s) => s.connections);
  if (connections === 1 && different((s) => s.rate) > 1) return { name: "offered requests/s", of: (s) => s.rate ?? 0 };
  if (different((s) => s.in_flight) < connections && report.run.markers.length === 0) {
    return { name: "requests in flight", of: (s) => s.in_flight };
  }
  return { name: "connections", of: (s) => s.connections };
}

function base(name: string, show: Show, choice: Choice, x: { name: string }): Option {
  return {
    animation: false,
    aria: { enabled: true, label: { description: name } },
    legend: { show: false },
    // Room on the right for the names at the ends of the lines.
    grid: { left: 70, right: 110, top: 24, bottom: 84 },
    tooltip: { trigger: "item", renderMode: "richText", confine: true },
    xAxis: {
      type: "log", logBase: 2, name: x.name, nameLocation: "middle", nameGap: 26,
      axisLabel: { formatter: (v: number) => axisNumber(v) }, splitLine: { show: false },
    },
    yAxis: choice.logY
      ? { type: "log", name, nameTextStyle: { align: "left" }, axisLabel: { formatter: show } }
      : { type: "value", min: 0, name, nameTextStyle: { align: "left" }, axisLabel: { formatter: show } },
    dataZoom: [{ type: "inside", filterMode: "none" }, { type: "slider", filterMode: "none", height: 18, bottom: 10 }],
  };
}

/** What one line joins: steps that differ in connections or rate alone. */
function seriesKey(s: Summary): string {
  return `${s.workload}·${s.streams}·${s.pipeline}`;
}

/** Of so many lines the names still find room beside each other. */
const NAMES_MOVED = 8;

function lineCount(report: Report): number {
  return new Set(report.summaries.map((s) => `${s.subject}·${seriesKey(s)}`)).size;
}

/** The name of a workload where there are several. */
export function workloadPrefix(report: Report, workload: string): string {
  return hasSeveralWorkloads(report) ? `${workload}, ` : "";
}

function hasSeveralWorkloads(report: Report): boolean {
  return new Set(report.summaries.map((s) => s.workload)).size > 1;
}

interface Dot {
  value: [number, number]; symbol?: string; symbolSize?: number | number[]; symbolOffset?: (number | string)[];
  itemStyle?: object; note: string;
}

/** What is drawn in place of a value that is only known to be exceeded. */
interface Bounds {
  /** The bound of a trial, in words and as a number; null if its value is known, or nothing is. */
  ofTrial: (t: TrialResult) => { at: number; words: string } | null;
  /** Whether a step has no median because of such trials: the line must not pass over it. */
  breaks: (s: Summary) => boolean;
}

const NO_BOUNDS: Bounds = { ofTrial: () => null, breaks: () => false };

/** A line through medians, a dot per repeat, a cross per step that is not valid. */
function overSteps(
  report: Report,
  choice: Choice,
  name: string,
  show: Show,
  pick: (s: Summary) => Repeated,
  ofTrial: (t: TrialResult) => number | null,
  bounds: Bounds = NO_BOUNDS,
): Option {
  const x = xOf(report);
  const option = base(name, show, choice, x);
  // A logarithmic axis has no zero.
  const drawable = (v: number | null): v is number => v !== null && (!choice.logY || v > 0);
  const series = report.subjects.flatMap((subject, index) => {
    if (choice.hidden.has(subject.id)) return [];
    const colour = subjectColour(index, subject.control, choice.dark);
    const own = report.summaries.filter((s) => s.subject === subject.id);
    const keys = [...new Set(own.map(seriesKey))];
    const lines = keys.map((key) => line(report, subject, index, colour, choice,
      own.filter((s) => seriesKey(s) === key && (drawable(pick(s).median) || bounds.breaks(s))), x.of, pick, show));
    const bands = keys.flatMap((key) => band(colour,
      own.filter((s) => seriesKey(s) === key && pick(s).interval !== null), x.of, pick));
    const dots: Dot[] = report.trials
      .filter((t) => t.subject_id === subject.id)
      .flatMap((t) => {
        const y = ofTrial(t);
        const note = `${subject.title}\n${workloadPrefix(report, t.workload)}${stepName(t.step)}, repeat ${t.repeat}: `;
        if (drawable(y)) return [dot(t, [x.of(t.step), y], colour, `${note}${show(y)}`)];
        const bound = bounds.ofTrial(t);
        return bound ? [arrow(dot(t, [x.of(t.step), bound.at], colour, `${note}${bound.words}`))] : [];
      });
    return [...bands, ...lines, {
      type: "scatter" as const, name: subject.id, data: dots, symbolSize: 7, z: 3,
      itemStyle: { color: colour }, tooltip: { formatter: (p: unknown) => (p as { data: Dot }).data.note },
    }];
  });
  return { ...option, series: withMarkers(report, series) };
}

function line(
  report: Report, subject: SubjectResult, index: number, colour: string, choice: Choice, own: Summary[],
  x: (s: Summary) => number, pick: (s: Summary) => Repeated, show: Show,
): object {
  // Of several workloads the colour tells the subject, and there is no room for both.
  const workload = hasSeveralWorkloads(report) ? own[0]?.workload ?? "" : "";
  const name = workload === "" ? subject.title : `${subject.title} · ${workload}`;
  // The names of many lines that all lie on zero would cover the axis, and say nothing.
  const isNamed = own.length > 1 && own.some((s) => (pick(s).median ?? 0) > 0);
  return {
    type: "line" as const, name: subject.id, z: 2, symbol: "none",
    data: own.map((s) => [x(s), pick(s).median]),
    lineStyle: { width: 2, type: subjectDash(index, subject.control), color: colour },
    itemStyle: { color: colour },
    endLabel: {
      show: isNamed, formatter: workload || subject.title, color: choice.dark ? "#c9d1d9" : "#24292f", fontSize: 11,
      distance: 6,
    },
    // Names of a few lines move apart. Those of many would end up far from their lines: better some than wrong ones.
    labelLayout: lineCount(report) > NAMES_MOVED ? { hideOverlap: true } : { moveOverlap: "shiftY" },
    tooltip: { formatter: (p: unknown) => `${name}: ${show((p as { value: [number, number] }).value[1])}` },
  };
}

/** The confidence interval, only where there is one. */
function band(colour: string, own: Summary[], x: (s: Summary) => number, pick: (s: Summary) => Repeated): object[] {
  if (own.length < 2) return [];
  const low = own.map((s) => [x(s), pick(s).interval?.[0] ?? 0]);
  const high = own.map((s) => [x(s), pick(s).interval?.[1] ?? 0]).reverse();
  return [{
    type: "custom" as const, silent: true, z: 1, data: [[...low, ...high].flat()],
    renderItem: (_: unknown, api: { coord: (p: number[]) => number[] }) => ({
      type: "polygon",
      shape: { points: [...low, ...high].map((p) => api.coord(p)) },
      style: { fill: colour, opacity: 0.15 },
    }),
  }];
}

function dot(t: TrialResult, value: [number, number], colour: string, note: string): Dot {
  const reasons = t.caveats.filter((c) => c.severity === "invalid").map((c) => c.message);
  if (!t.valid) {
    return {
      value, symbol: CROSS, symbolSize: 9, note: `${note}\nnot valid: ${wrap(reasons.join(" "))}`,
      itemStyle: { color: "transparent", borderColor: colour, borderWidth: 1.5 },
    };
  }
  return { value, symbol: limiterSymbol(t.limiter.resource), note: `${note}\n${wrap(t.limiter.sentence)}` };
}

/** The mark of a value that is above where it stands. */
function arrow(of: Dot): Dot {
  return { ...of, symbol: ARROW, symbolSize: [10, 16], symbolOffset: [0, "-50%"] };
}

/** The user's own vertical lines. */
function withMarkers(report: Report, series: object[]): object[] {
  const [first, ...rest] = series;
  if (!first || report.run.markers.length === 0) return series;
  const data = report.run.markers.map((m) => ({ xAxis: m.connections, label: { formatter: m.label } }));
  return [{ ...first, markLine: { symbol: "none", silent: true, data, lineStyle: { type: "dotted" } } }, ...rest];
}

const throughput: Figure = {
  logY: false,
  option: (report, choice) =>
    overSteps(report, choice, "requests/s", axisNumber, (s) => s.throughput_rps, (t) => t.load.throughput_rps),
};

const errors: Figure = {
  logY: false,
  option: (report, choice) =>
    overSteps(report, choice, "share of requests", percent, (s) => s.error_share,
      (t) => t.error_share),
};

/** What is known of a percentile that lies among what was never answered. */
function longerThan(of: Pick<IntervalResult, "response_time_us" | "response_unanswered">): string {
  return beyond(of.response_time_us.longest_wait, of.response_unanswered.share);
}

/** A percentile that lies among what was never answered is longer than the longest wait. */
function unanswered(q: Quantile): Bounds {
  return {
    ofTrial: ({ load }) => (load.response_unanswered[q] ? { at: load.response_time_us.longest_wait ?? 1, words: longerThan(load) } : null),
    breaks: (s) => s.response_unanswered[q] > 0,
  };
}

const response: Figure = {
  logY: true,
  option: (report, choice) => {
    const pick = { p50: "response_p50_us", p90: "response_p90_us", p99: "response_p99_us" } as const;
    return overSteps(report, choice, `${choice.percentile} response time`, micros,
      (s) => s[pick[choice.percentile]], (t) => t.load.response_time_us[choice.percentile], unanswered(choice.percentile));
  },
};

const cpu: Figure = {
  logY: true,
  option: (report, choice) =>
    overSteps(report, choice, "CPU per request", micros, (s) => s.cpu_us_per_request, (t) => t.server.cpu_us_per_request),
};

const memory: Figure = {
  logY: true,
  option: (report, choice) => overSteps(report, choice, "memory", bytes, (s) => s.memory_bytes, (t) => t.server.memory_held_bytes),
};

/** Response time against percentile, the axis stretched towards 100 %. */
const spectrum: Figure = {
  logY: true,
  option: (report, choice) => {
    const option = base("response time", micros, choice, { name: "percentile" });
    const series = report.subjects.flatMap((subject, index) => {
      if (choice.hidden.has(subject.id)) return [];
      const colour = subjectColour(index, subject.control, choice.dark);
      const own = report.trials.filter((t) =>
        t.subject_id === subject.id && t.workload === choice.at.workload && t.step.index === choice.at.step);
      const lines = own.map((t) => ({
        type: "line" as const, name: subject.id, symbol: "none",
        data: t.load.spectrum_us.map(([q, us]) => [stretched(q), us]),
        lineStyle: { width: 1.5, color: colour, type: subjectDash(index, subject.control), opacity: t.valid ? 1 : 0.35 },
        itemStyle: { color: colour },
      }));
      const ends = own.flatMap((t) => spectrumEnd(t) ?? []);
      return [...lines, { type: "scatter" as const, name: subject.id, data: ends, itemStyle: { color: colour }, tooltip: { show: false } }];
    });
    const label = (place: number): string => axisPercentile(quantileAt(place));
    return {
      ...option,
      tooltip: {
        trigger: "axis", renderMode: "richText", confine: true,
        formatter: (p: unknown) => {
          const points = p as { seriesName: string; value: [number, number]; data: Dot | [number, number] }[];
          const head = points[0] ? label(points[0].value[0]) : "";
          return [head, ...points.map((q) => `${q.seriesName}: ${"note" in q.data ? q.data.note : micros(q.value[1])}`)].join("\n");
        },
      },
      xAxis: { type: "log", name: "percentile", nameLocation: "middle", nameGap: 26, axisLabel: { formatter: label } },
      series: series,
    };
  },
};

/** Where the unanswered begin: from there on every percentile is longer than the longest wait. */
function spectrumEnd(t: TrialResult): Dot | null {
  const { response_time_us: { longest_wait }, response_unanswered: { share } } = t.load;
  if (share === 0 || longest_wait === null) return null;
  return arrow({ value: [stretchedFromEnd(share), longest_wait], note: longerThan(t.load) });
}

/** User and system CPU per request at the reference step of each workload: a bar per row of the overview. */
const split: Figure = {
  height: (report) => barsHeight(report.overview.length),
  option: (report, choice) => {
    const shown = report.subjects.filter((s) => !choice.hidden.has(s.id)).flatMap((subject) => {
      const rows = report.overview.filter((r) => r.subject === subject.id);
      return rows.map((row) => ({ subject, row }));
    });
    const part = (kind: string): (number | null)[] => shown.map(({ subject, row }) => {
      const step = report.summaries.find((s) =>
        s.subject === subject.id && s.workload === row.workload && s.step === row.reference_step);
      return step?.metrics[`server_cpu_${kind}_us_per_request`]?.median ?? null;
    });
    const bar = (name: string, data: (number | null)[], opacity: number): object => ({
      type: "bar", name, stack: "cpu", barMaxWidth: 26,
      data: data.map((value, i) => {
        const subject = shown[i]?.subject;
        const index = subject ? report.subjects.indexOf(subject) : 0;
        return { value, itemStyle: { color: subjectColour(index, subject?.control ?? false, choice.dark), opacity } };
      }),
      tooltip: { valueFormatter: (v: unknown) => (typeof v === "number" ? micros(v) : "–") },
    });
    return {
      animation: false,
      aria: { enabled: true, label: { description: "User and system CPU per request by subject" } },
      grid: { left: labelRoom(shown.map(({ row }) => row.title)), right: 24, top: 24, bottom: 40 },
      tooltip: { trigger: "axis", renderMode: "richText", confine: true, axisPointer: { type: "none" } },
      xAxis: { type: "value", min: 0, name: "CPU per request (full: user, pale: system)", nameLocation: "middle", nameGap: 24, axisLabel: { formatter: micros } },
      yAxis: { type: "category", inverse: true, data: shown.map(({ row }) => row.title), splitLine: { show: false } },
      series: [bar("user", part("user"), 1), bar("system", part("sys"), 0.45)] as NonNullable<Option["series"]>,
    };
  },
};

const startup: Figure = {
  option: (report, choice) => {
    const shown = report.subjects.filter((s) => !choice.hidden.has(s.id) && s.startup_ms.first_answer.median !== null);
    const colour = (s: SubjectResult): string => subjectColour(report.subjects.indexOf(s), s.control, choice.dark);
    return {
      animation: false,
      aria: { enabled: true, label: { description: "Start-up time by subject" } },
      grid: { left: labelRoom(shown.map((s) => s.title)), right: 40, top: 10, bottom: 40 },
      tooltip: { trigger: "item", renderMode: "richText", confine: true },
      xAxis: { type: "value", min: 0, axisLabel: { formatter: millis }, name: "from exec to the first right answer", nameLocation: "middle", nameGap: 24 },
      yAxis: { type: "category", inverse: true, data: shown.map((s) => s.title), splitLine: { show: false } },
      series: [
        {
          type: "bar", barMaxWidth: 22,
          data: shown.map((s) => ({ value: s.startup_ms.first_answer.median ?? 0, itemStyle: { color: colour(s), opacity: 0.55 } })),
          tooltip: { valueFormatter: (v: unknown) => (typeof v === "number" ? millis(v) : "–") },
        },
        {
          type: "scatter", symbolSize: 7,
          data: shown.flatMap((s) => s.startup_ms.first_answer.values.map((v) => ({ value: [v, s.title], itemStyle: { color: colour(s) } }))) as never,
          tooltip: { valueFormatter: (v: unknown) => (Array.isArray(v) ? millis(v[0] as number) : "–") },
        },
      ],
    };
  },
};

/** A percentile of an interval that lies among what was never answered, in its middle: p99, or p50 where few were due. */
function unansweredInterval(i: IntervalResult): Dot | null {
  const { longest_wait } = i.response_time_us;
  if (!(i.response_unanswered.p99 || i.response_unanswered.p50) || longest_wait === null) return null;
  return arrow({ value: [middle(i.start_s, i.end_s), longest_wait], note: longerThan(i) });
}

/** One trial over time: lanes on one axis. */
const explorer: Figure = {
  option: (report, choice) => {
    const trial = report.trials[choice.trial];
    if (!trial) return { animation: false };
    const index = report.subjects.findIndex((s) => s.id === trial.subject_id);
    const colour = subjectColour(index, report.subjects[index]?.control ?? false, choice.dark);
    const load = trial.load.intervals.filter((i) => i.phase !== "drain" && i.end_s > i.start_s);
    const steps = (pick: (i: IntervalResult) => number | null): [number, number | null][] =>
      load.flatMap((i): [number, number | null][] => [[i.start_s, pick(i)], [i.end_s, pick(i)]]);
    const ofServer = (pick: (i: ServerInterval) => number | null): [number, number | null][] =>
      trial.server.intervals.flatMap((i): [number, number | null][] => [[i.start_s, pick(i)], [i.end_s, pick(i)]]);
    const lanes: { name: string; show: Show; lines: { name: string; data: [number, number | null][]; dash?: string }[] }[] = [
      { name: "requests/s", show: axisNumber, lines: [{ name: "throughput", data: steps((i) => i.throughput_rps) }] },
      {
        name: "response time", show: micros, lines: [
          { name: "p50", data: steps((i) => i.response_time_us.p50) },
          { name: "p99", data: steps((i) => i.response_time_us.p99), dash: "dashed" },
        ],
      },
      { name: "in flight", show: number, lines: [{ name: "in flight", data: steps((i) => i.in_flight_mean) }] },
      { name: "server CPUs", show: number, lines: [{ name: "server CPU", data: ofServer((i) => i.cpu) }] },
      { name: "memory", show: bytes, lines: [{ name: "memory", data: ofServer((i) => i.memory_anon_bytes) }] },
      { name: "switches/s", show: axisNumber, lines: [{ name: "context switches", data: ofServer((i) => i.context_switches_per_s) }] },
    ];
    const bounds: object = {
      type: "scatter", name: "unanswered", xAxisIndex: 1, yAxisIndex: 1, itemStyle: { color: colour },
      data: load.flatMap((i) => unansweredInterval(i) ?? []),
      tooltip: { valueFormatter: (v: unknown) => (Array.isArray(v) ? `> ${micros(v[1] as number)}` : "–") },
    };
    const warmup = load.filter((i) => i.phase === "warmup");
    const warmupEnds = warmup.at(-1)?.end_s ?? 0;
    // The last sample lies a little after the window's end.
    const end = furthest([...load, ...trial.server.intervals].map((i) => i.end_s));
    return {
      animation: false,
      aria: { enabled: true, label: { description: `${trial.subject_id} over time` } },
      tooltip: { trigger: "axis", renderMode: "richText", confine: true },
      axisPointer: { link: [{ xAxisIndex: "all" }] },
      grid: lanes.map((_, i) => ({ left: 80, right: 24, top: laneTop(i), height: LANE_HEIGHT })),
      xAxis: lanes.map((lane, i) => ({
        type: "value" as const, gridIndex: i, min: 0, max: end, splitLine: { show: false },
        axisLabel: { show: lane === lanes.at(-1), formatter: axisSeconds },
      })),
      yAxis: lanes.map((lane, i) => ({
        type: "value" as const, gridIndex: i, min: 0, name: lane.name, splitNumber: 2,
        nameTextStyle: { align: "left" as const }, axisLabel: { formatter: lane.show },
      })),
      dataZoom: [
        { type: "slider", filterMode: "none", xAxisIndex: lanes.map((_, i) => i), height: 18, bottom: 8 },
        { type: "inside", filterMode: "none", xAxisIndex: lanes.map((_, i) => i), zoomOnMouseWheel: "ctrl" },
      ],
      series: [...lanes.flatMap((lane, i) => lane.lines.map((l, j) => ({
        type: "line" as const, name: l.name, xAxisIndex: i, yAxisIndex: i, symbol: "none", data: l.data,
        lineStyle: { width: 2, color: colour, type: l.dash ?? "solid" }, itemStyle: { color: colour },
        tooltip: { valueFormatter: (v: unknown) => (typeof v === "number" ? lane.show(v) : "–") },
        ...(j === 0 && warmupEnds > 0 ? {
          markArea: { silent: true, itemStyle: { color: choice.dark ? "#ffffff10" : "#00000008" }, data: [[{ xAxis: 0 }, { xAxis: warmupEnds }]] },
        } : {}),
      }))), bounds] as NonNullable<Option["series"]>,
    };
  },
};

export const FIGURES: Readonly<Record<string, Figure>> = {
  throughput, errors, response, spectrum, cpu, split, memory, startup, explorer,
};
