// What each chart shows: from the report's numbers to an ECharts option. Nothing is computed here, only chosen: eslint.config.js
// forbids arithmetic outside of the files that know nothing of the report.
import { type Choice, type Quantile, shownWorkloads, workloadPrefix } from "./choice.ts";
import type { Option } from "./echarts.ts";
import { axisNumber, axisPercentile, axisSeconds, beyond, bytes, micros, millis, number, percent, stepName } from "./format.ts";
import { barsHeight, furthest, labelRoom, LANE_HEIGHT, laneTop, middle, quantileAt, stretched, stretchedFromEnd } from "./layout.ts";
import { arrow, type Dot } from "./marks.ts";
import type { IntervalResult, OverviewRow, Report, ServerInterval, SubjectResult, TrialResult } from "./schema.ts";
import { ALONE, base, type Bounds, overSteps, type Quantity, type Show, stepsHeight, yAxis, zoomOf } from "./steps.ts";
import { subjectColour, subjectDash } from "./theme.ts";

export interface Figure {
  /** Whether the y axis may be switched to logarithmic, and how it starts. */
  logY?: boolean;
  /** In CSS pixels, where the style's height may be too little for all rows; null: it is enough. */
  height?: (report: Report, choice: Choice) => number | null;
  option: (report: Report, choice: Choice) => Option;
}

/** A chart over steps, with a linear axis or a logarithmic one to begin with. */
function ofSteps(logY: boolean, quantity: (choice: Choice) => Quantity): Figure {
  return { logY, height: stepsHeight, option: (report, choice) => overSteps(report, choice, quantity(choice)) };
}

const throughput = ofSteps(false, () => ({
  name: "requests/s", show: axisNumber, ofStep: (s) => s.throughput_rps, ofTrial: (t) => t.load.throughput_rps, controls: "cut",
}));

const errors = ofSteps(false, () => ({
  name: "share of requests", show: percent, ofStep: (s) => s.error_share, ofTrial: (t) => t.error_share,
}));

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

const RESPONSE = { p50: "response_p50_us", p90: "response_p90_us", p99: "response_p99_us" } as const;

const response = ofSteps(true, ({ percentile }) => ({
  name: `${percentile} response time`, show: micros, ofStep: (s) => s[RESPONSE[percentile]],
  ofTrial: (t) => t.load.response_time_us[percentile], bounds: unanswered(percentile),
}));

const cpu = ofSteps(true, () => ({
  name: "CPU per request", show: micros, ofStep: (s) => s.cpu_us_per_request, ofTrial: (t) => t.server.cpu_us_per_request,
}));

const memory = ofSteps(true, () => ({
  name: "memory", show: bytes, ofStep: (s) => s.memory_bytes, ofTrial: (t) => t.server.memory_held_bytes,
}));

/** Response time against percentile, the axis stretched towards 100 %. */
const spectrum: Figure = {
  logY: true,
  option: (report, choice) => {
    const name = `${stepOfSpectrum(report, choice)}response time`;
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
      ...base("response time"),
      grid: ALONE,
      tooltip: {
        trigger: "axis", renderMode: "richText", confine: true,
        formatter: (p: unknown) => {
          const points = p as { seriesName: string; value: [number, number]; data: Dot | [number, number] }[];
          const head = points[0] ? label(points[0].value[0]) : "";
          return [head, ...points.map((q) => `${q.seriesName}: ${"note" in q.data ? q.data.note : micros(q.value[1])}`)].join("\n");
        },
      },
      xAxis: { type: "log", name: "percentile", nameLocation: "middle", nameGap: 26, axisLabel: { formatter: label } },
      yAxis: yAxis(report, name, micros, choice),
      dataZoom: zoomOf([0]),
      series: series,
    };
  },
};

/** The workload and the step of the spectrum, before its name, where there are several workloads. */
function stepOfSpectrum(report: Report, { at }: Choice): string {
  const summary = report.summaries.find((s) => s.workload === at.workload && s.step === at.step);
  return summary ? workloadPrefix(report, at.workload, `, ${stepName(summary)} · `) : "";
}

/** Where the unanswered begin: from there on every percentile is longer than the longest wait. */
function spectrumEnd(t: TrialResult): Dot | null {
  const { response_time_us: { longest_wait }, response_unanswered: { share } } = t.load;
  if (share === 0 || longest_wait === null) return null;
  return arrow({ value: [stretchedFromEnd(share), longest_wait], note: longerThan(t.load) });
}

/** Rows of the overview that are of the workloads to draw; all of a report that has none. */
function shownRows(report: Report, choice: Choice): OverviewRow[] {
  const shown = shownWorkloads(report, choice);
  return shown.length === 0 ? report.overview : report.overview.filter((r) => shown.includes(r.workload));
}

/** User and system CPU per request at the reference step of each workload: a bar per row of the overview. */
const split: Figure = {
  height: (report, choice) => barsHeight(shownRows(report, choice).length),
  option: (report, choice) => {
    const shown = report.subjects.filter((s) => !choice.hidden.has(s.id)).flatMap((subject) => {
      const rows = shownRows(report, choice).filter((r) => r.subject === subject.id);
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
