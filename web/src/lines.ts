// Charts of lines that are of trials or starts each: percentiles of one step, its throughput over
// time, and whole lives.
import { ALONE, atEnd, base, NAMES_MOVED, namesOfLines, roomAbove, yAxis, zoomOf } from "./axes.ts";
import { type Choice, workloadPrefix } from "./choice.ts";
import type { Option } from "./echarts.ts";
import type { Figure } from "./figure.ts";
import {
  amount,
  axisNumber,
  axisPercentile,
  axisSeconds,
  micros,
  number,
  stepName,
} from "./format.ts";
import { fittedEnd, furthest, quantileAt, stretched, stretchedFromEnd } from "./layout.ts";
import { arrow, type Dot, longerThan } from "./marks.ts";
import type { Lifetime, LifePoint, Report, SubjectResult, Summary, TrialResult } from "./schema.ts";
import { subjectColour, subjectDash } from "./theme.ts";

/** A subject that is shown, with what tells it from the others. */
interface Drawn {
  subject: SubjectResult;
  colour: string;
  dash: string;
}

function drawn(report: Report, choice: Choice): Drawn[] {
  return report.subjects
    .map((subject, index) => ({
      subject,
      colour: subjectColour(index, subject.control, choice.dark),
      dash: subjectDash(index, subject.control),
    }))
    .filter(({ subject }) => !choice.hidden.has(subject.id));
}

/** A trial of the step that is chosen, with the subject that it is of. */
interface OfStep extends Drawn {
  trial: TrialResult;
}

function trialsOfStep(report: Report, choice: Choice): OfStep[] {
  const { workload, step } = choice.at;
  const own = report.trials.filter(
    (t) => !t.duet && t.workload === workload && t.step.index === step,
  );
  return drawn(report, choice).flatMap((of) =>
    own.filter((t) => t.subject_id === of.subject.id).map((trial) => ({ ...of, trial })),
  );
}

function lineOf({ subject, trial, colour, dash }: OfStep, data: [number, number][]): object {
  return {
    type: "line",
    name: `${subject.title}, repeat ${trial.repeat}`,
    symbol: "none",
    data,
    itemStyle: { color: colour },
    lineStyle: { width: 1.5, color: colour, type: dash, opacity: trial.valid ? 1 : 0.35 },
  };
}

/**
 * The workload and the step that a chart is of, before its name, where there are several workloads.
 */
function stepBefore(report: Report, { at }: Choice): string {
  const summary = summaryAt(report, at);
  return summary ? workloadPrefix(report, at.workload, `, ${stepName(summary)} · `) : "";
}

function summaryAt(report: Report, at: Choice["at"], subject?: string): Summary | undefined {
  return report.summaries.find(
    (s) =>
      s.workload === at.workload &&
      s.step === at.step &&
      (subject === undefined || s.subject === subject),
  );
}

/** So many lines a list beside the pointer has room for. */
const LISTED = 20;

/**
 * What is under the pointer, the highest first: a list of all lines of a large report would cover
 * the chart.
 */
function listed(
  of: (place: number) => string,
  show: (value: number) => string,
): NonNullable<Option["tooltip"]> {
  return {
    trigger: "axis",
    renderMode: "richText",
    confine: true,
    formatter: (p: unknown) => {
      const points = p as {
        seriesName: string;
        value: [number, number];
        data: Dot | [number, number];
      }[];
      const highest = [...points]
        .sort((a, b) => (a.value[1] < b.value[1] ? 1 : -1))
        .slice(0, LISTED);
      const cut =
        highest.length < points.length ? [`the highest ${highest.length} of ${points.length}`] : [];
      const head = points[0] ? [of(points[0].value[0])] : [];
      return [
        ...head,
        ...highest.map(
          (q) => `${q.seriesName}: ${"note" in q.data ? q.data.note : show(q.value[1])}`,
        ),
        ...cut,
      ].join("\n");
    },
  };
}

/** Response time against percentile, the axis stretched towards 100 %. */
export const spectrum: Figure = {
  logY: true,
  option: (report, choice) => {
    const all = trialsOfStep(report, choice);
    const ends = all.flatMap((of) => spectrumEnd(of) ?? []);
    const label = (place: number): string => axisPercentile(quantileAt(place));
    return {
      ...base("response time"),
      grid: ALONE,
      tooltip: listed(label, micros),
      xAxis: {
        type: "log",
        name: "percentile",
        nameLocation: "middle",
        nameGap: 26,
        axisLabel: { formatter: label, hideOverlap: true },
      },
      yAxis: yAxis(report, `${stepBefore(report, choice)}response time`, micros, choice),
      dataZoom: zoomOf([0]),
      series: [
        ...all.map((of) =>
          lineOf(
            of,
            of.trial.load.spectrum_us.map(([q, us]) => [stretched(q), us]),
          ),
        ),
        { type: "scatter", name: "not ok", data: ends, tooltip: { show: false } },
      ] as NonNullable<Option["series"]>,
    };
  },
};

/** Where the unanswered begin: from there on every percentile is longer than the longest wait. */
function spectrumEnd({ trial, colour }: OfStep): Dot | null {
  const {
    response_time_us: { longest_wait },
    response_unanswered: { share },
  } = trial.load;
  if (share === 0 || longest_wait === null) return null;
  const note = longerThan(trial.load);
  return arrow({
    value: [stretchedFromEnd(share), longest_wait],
    itemStyle: { color: colour },
    note,
  });
}

/** Throughput of one step over the seconds of its load. */
export const overTime: Figure = {
  logY: false,
  option: (report, choice) => {
    const all = trialsOfStep(report, choice);
    const rates = (isOf: (of: OfStep) => boolean): number[] =>
      all.filter(isOf).flatMap(({ trial }) => series(trial).map(([, rate]) => rate));
    const end = choice.logY
      ? null
      : fittedEnd(
          rates(({ subject }) => !subject.control),
          rates(({ subject }) => subject.control),
        );
    const last = furthest(all.flatMap(({ trial }) => series(trial).map(([at]) => at)));
    const axis = yAxis(report, `${stepBefore(report, choice)}requests/s`, axisNumber, choice);
    return {
      ...base("requests/s over time"),
      grid: end === null ? ALONE : { ...ALONE, ...roomAbove.grid },
      tooltip: listed(axisSeconds, axisNumber),
      xAxis: {
        type: "value",
        min: 0,
        max: last,
        name: "since the load began",
        nameLocation: "middle",
        nameGap: 26,
        axisLabel: { formatter: axisSeconds, hideOverlap: true, showMaxLabel: false },
        splitLine: { show: false },
      },
      yAxis: end === null ? axis : { ...axis, max: end, ...roomAbove.axis },
      dataZoom: zoomOf([0]),
      series: [
        shade(all, choice),
        ...all.map((of) => ({ ...lineOf(of, series(of.trial)), step: "end", sampling: "lttb" })),
        ...atEnd(choice, end, 0, aboveEnd(report, choice, end)),
      ] as NonNullable<Option["series"]>,
    };
  },
};

/**
 * Where each interval begins, and its rate; at last where the load ends. What came in after that
 * was not asked for any more.
 */
function series({ load }: TrialResult): [number, number][] {
  const own = load.intervals.filter((i) => i.phase !== "drain" && i.end_s > i.start_s);
  const last = own.at(-1);
  const begins = own.map((i): [number, number] => [i.start_s, i.throughput_rps]);
  return last ? [...begins, [last.end_s, last.throughput_rps]] : begins;
}

/** The warm-up, which every trial of a step has the same of. */
function shade(all: OfStep[], choice: Choice): object {
  const ends = all.flatMap(({ trial }) =>
    trial.load.intervals.filter((i) => i.phase === "warmup").map((i) => i.end_s),
  );
  const area = [[{ xAxis: 0 }, { xAxis: furthest(ends) }]];
  const color = choice.dark ? "#ffffff10" : "#00000008";
  return {
    type: "line",
    name: "warm-up",
    data: [],
    markArea: { silent: true, itemStyle: { color }, data: ends.length > 0 ? area : [] },
  };
}

/** Controls whose median lies above the end of the axis, with it. */
function aboveEnd(report: Report, choice: Choice, end: number | null): string[] {
  return drawn(report, choice).flatMap(({ subject }) => {
    const median = subject.control
      ? summaryAt(report, choice.at, subject.id)?.throughput_rps.median
      : null;
    return end !== null && typeof median === "number" && median > end
      ? [`${subject.title} ${axisNumber(median)}`]
      : [];
  });
}

/** Right answers over CPU time, both since exec: a line for each start. */
export const lifetimes: Figure = {
  option: (report, choice) => {
    const all = drawn(report, choice);
    const lived = all.flatMap((of) => of.subject.lifetimes.starts.map((life) => ({ ...of, life })));
    const most = (isControl: boolean): number[] =>
      lived
        .filter(({ subject }) => subject.control === isControl)
        .flatMap(({ life }) => life.points.map((point) => point.requests));
    const end = fittedEnd(most(false), most(true));
    const beyond = all
      .filter(({ subject }) => end !== null && subject.control)
      .flatMap(
        ({ subject }) =>
          subject.lifetimes.starts[0]?.points
            .slice(-1)
            .map((p) => `${subject.title} ${axisNumber(p.requests)}`) ?? [],
      );
    const axis = yAxis(report, "requests", axisNumber, choice);
    // Lines end anywhere: the names of many would lie on the others.
    const names = all.length > NAMES_MOVED ? () => ({}) : namesOfLines(choice, all.length);
    return {
      ...base("requests over CPU time"),
      grid: end === null ? ALONE : { ...ALONE, ...roomAbove.grid },
      xAxis: {
        type: "value",
        min: 0,
        name: "CPU time",
        nameLocation: "middle",
        nameGap: 26,
        axisLabel: { formatter: axisSeconds, hideOverlap: true },
        splitLine: { show: false },
      },
      yAxis: end === null ? axis : { ...axis, max: end, ...roomAbove.axis },
      dataZoom: zoomOf([0]),
      series: [
        ...lived.map(({ subject, colour, dash, life }) => ({
          type: "line",
          name: subject.title,
          symbol: "circle",
          symbolSize: 6,
          showAllSymbol: true,
          data: life.points.map((point, index) => ({
            value: [point.cpu_s, point.requests],
            note: lifeNote(report, subject, life, point, index),
          })),
          lineStyle: { width: 1.5, color: colour, type: dash },
          itemStyle: { color: colour },
          tooltip: { formatter: (p: unknown) => (p as { data: Dot }).data.note },
          ...(life === subject.lifetimes.starts[0] ? names(subject.title) : {}),
        })),
        ...atEnd(choice, end, 0, beyond),
      ] as NonNullable<Option["series"]>,
    };
  },
};

function lifeNote(
  report: Report,
  subject: SubjectResult,
  life: Lifetime,
  point: LifePoint,
  index: number,
): string {
  const totals = `${amount(point.requests)} requests in ${number(point.cpu_s)} s of CPU time`;
  return `${subject.title}, repeat ${life.repeat}\n${momentOf(report, point, index)}: ${totals}`;
}

/** When a start's totals were these: when it was ready, when it was warm, or after which step. */
function momentOf(report: Report, { workload, step }: LifePoint, index: number): string {
  if (workload === null) return index === 0 ? "ready" : "warm";
  const name = report.run.workloads[workload]?.name ?? "";
  const summary = report.summaries.find((s) => s.step === step);
  return `after ${workloadPrefix(report, name)}${summary ? stepName(summary) : ""}`;
}
