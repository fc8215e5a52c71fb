// Draws charts with a line for each trial or start: percentiles of one step, its throughput over
// time, and requests over the CPU time since exec.
import {
  SINGLE_PANEL,
  atEnd,
  chartBase,
  MOVABLE_NAMES,
  namesOfLines,
  roomAbove,
  yAxis,
  zoomOf,
} from "./axes.ts";
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
import { fittedEnd, largest, quantileAt, percentilePlace, placeFromEnd } from "./layout.ts";
import { arrow, type Dot, longerThan } from "./marks.ts";
import type { Lifetime, LifePoint, Report, SubjectResult, Summary, TrialResult } from "./schema.ts";
import { subjectColour, subjectDash } from "./theme.ts";

/** A shown subject, with its colour and dash. */
interface DrawnSubject {
  subject: SubjectResult;
  colour: string;
  dash: string;
}

function drawnSubjects(report: Report, choice: Choice): DrawnSubject[] {
  return report.subjects
    .map((subject, index) => ({
      subject,
      colour: subjectColour(index, subject.control, choice.dark),
      dash: subjectDash(index, subject.control),
    }))
    .filter(({ subject }) => !choice.hidden.has(subject.id));
}

/** A trial of the chosen step, with its subject. */
interface DrawnTrial extends DrawnSubject {
  trial: TrialResult;
}

function trialsOfStep(report: Report, choice: Choice): DrawnTrial[] {
  const { workload, step } = choice.at;
  const trials = report.trials.filter(
    (t) => !t.duet && t.workload === workload && t.step.index === step,
  );
  return drawnSubjects(report, choice).flatMap((drawnSubject) =>
    trials
      .filter((t) => t.subject_id === drawnSubject.subject.id)
      .map((trial) => ({ ...drawnSubject, trial })),
  );
}

/** Returns the line of a trial. Trials that are not valid are pale. */
function lineOf({ subject, trial, colour, dash }: DrawnTrial, data: [number, number][]): object {
  return {
    type: "line",
    name: `${subject.title}, repeat ${trial.repeat}`,
    symbol: "none",
    data,
    itemStyle: { color: colour },
    lineStyle: { width: 1.5, color: colour, type: dash, opacity: trial.valid ? 1 : 0.35 },
  };
}

/** Returns the workload and step before the name of a chart; empty if there is one workload. */
function stepPrefix(report: Report, { at }: Choice): string {
  const summary = summaryAt(report, at);
  return summary ? workloadPrefix(report, at.workload, `, ${stepName(summary)} · `) : "";
}

/** Returns the summary of a workload and step, for one subject or the first subject. */
function summaryAt(report: Report, at: Choice["at"], subject?: string): Summary | undefined {
  return report.summaries.find(
    (s) =>
      s.workload === at.workload &&
      s.step === at.step &&
      (subject === undefined || s.subject === subject),
  );
}

/** Maximum number of lines in the list next to the pointer. */
const MAX_LISTED = 20;

/**
 * Returns the list of values under the pointer, the highest first. The list is limited, because all
 * lines of a large report would cover the chart.
 */
function listTooltip(
  headOf: (place: number) => string,
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
        .slice(0, MAX_LISTED);
      const cutNote =
        highest.length < points.length
          ? [`the highest ${highest.length} of ${points.length} lines`]
          : [];
      const head = points[0] ? [headOf(points[0].value[0])] : [];
      return [
        ...head,
        ...highest.map(
          (point) =>
            `${point.seriesName}: ${"note" in point.data ? point.data.note : show(point.value[1])}`,
        ),
        ...cutNote,
      ].join("\n");
    },
  };
}

/** Response time by percentile. The axis is stretched towards 100 %. */
export const spectrum: Figure = {
  logY: true,
  option: (report, choice) => {
    const drawn = trialsOfStep(report, choice);
    const ends = drawn.flatMap((entry) => spectrumEnd(entry) ?? []);
    const label = (place: number): string => axisPercentile(quantileAt(place));
    return {
      ...chartBase("response time"),
      grid: SINGLE_PANEL,
      tooltip: listTooltip(label, micros),
      xAxis: {
        type: "log",
        name: "percentile",
        nameLocation: "middle",
        nameGap: 26,
        axisLabel: { formatter: label, hideOverlap: true },
      },
      yAxis: yAxis(report, `${stepPrefix(report, choice)}response time`, micros, choice),
      dataZoom: zoomOf([0]),
      series: [
        ...drawn.map((entry) =>
          lineOf(
            entry,
            entry.trial.load.spectrum_us.map(([q, us]) => [percentilePlace(q), us]),
          ),
        ),
        { type: "scatter", name: "not ok", data: ends, tooltip: { show: false } },
      ] as NonNullable<Option["series"]>,
    };
  },
};

/** Returns the mark where unanswered requests begin. Percentiles above exceed the longest wait. */
function spectrumEnd({ trial, colour }: DrawnTrial): Dot | null {
  const {
    response_time_us: { longest_wait },
    response_unanswered: { share },
  } = trial.load;
  if (share === 0 || longest_wait === null) return null;
  const note = longerThan(trial.load);
  return arrow({
    value: [placeFromEnd(share), longest_wait],
    itemStyle: { color: colour },
    note,
  });
}

/** Throughput of one step over the seconds of its load. */
export const overTime: Figure = {
  logY: false,
  option: (report, choice) => {
    const drawn = trialsOfStep(report, choice);
    const rates = (isIncluded: (entry: DrawnTrial) => boolean): number[] =>
      drawn.filter(isIncluded).flatMap(({ trial }) => rateSeries(trial).map(([, rate]) => rate));
    const end = choice.logY
      ? null
      : fittedEnd(
          rates(({ subject }) => !subject.control),
          rates(({ subject }) => subject.control),
        );
    const lastStart = largest(
      drawn.flatMap(({ trial }) => rateSeries(trial).map(([start]) => start)),
    );
    const axis = yAxis(report, `${stepPrefix(report, choice)}requests/s`, axisNumber, choice);
    return {
      ...chartBase("requests/s over time"),
      grid: end === null ? SINGLE_PANEL : { ...SINGLE_PANEL, ...roomAbove.grid },
      tooltip: listTooltip(axisSeconds, axisNumber),
      xAxis: {
        type: "value",
        min: 0,
        max: lastStart,
        name: "time since the load began",
        nameLocation: "middle",
        nameGap: 26,
        axisLabel: { formatter: axisSeconds, hideOverlap: true, showMaxLabel: false },
        splitLine: { show: false },
      },
      yAxis: end === null ? axis : { ...axis, max: end, ...roomAbove.axis },
      dataZoom: zoomOf([0]),
      series: [
        warmupShade(drawn, choice),
        ...drawn.map((entry) => ({
          ...lineOf(entry, rateSeries(entry.trial)),
          step: "end",
          sampling: "lttb",
        })),
        ...atEnd(choice, end, 0, aboveEnd(report, choice, end)),
      ] as NonNullable<Option["series"]>,
    };
  },
};

/**
 * Returns the start and rate of each interval, and the end of the load. The drain is excluded,
 * because it has no new requests.
 */
function rateSeries({ load }: TrialResult): [number, number][] {
  const intervals = load.intervals.filter((i) => i.phase !== "drain" && i.end_s > i.start_s);
  const lastInterval = intervals.at(-1);
  const starts = intervals.map((i): [number, number] => [i.start_s, i.throughput_rps]);
  return lastInterval ? [...starts, [lastInterval.end_s, lastInterval.throughput_rps]] : starts;
}

/** Returns the shaded area of the warm-up. All trials of a step have the same warm-up. */
function warmupShade(trials: DrawnTrial[], choice: Choice): object {
  const ends = trials.flatMap(({ trial }) =>
    trial.load.intervals.filter((i) => i.phase === "warmup").map((i) => i.end_s),
  );
  const area = [[{ xAxis: 0 }, { xAxis: largest(ends) }]];
  const color = choice.dark ? "#ffffff10" : "#00000008";
  return {
    type: "line",
    name: "warm-up",
    data: [],
    markArea: { silent: true, itemStyle: { color }, data: ends.length > 0 ? area : [] },
  };
}

/** Returns titles and medians of the controls whose median lies above the end of the axis. */
function aboveEnd(report: Report, choice: Choice, end: number | null): string[] {
  return drawnSubjects(report, choice).flatMap(({ subject }) => {
    const median = subject.control
      ? summaryAt(report, choice.at, subject.id)?.metrics["throughput_rps"]?.median
      : null;
    return end !== null && typeof median === "number" && median > end
      ? [`${subject.title} ${axisNumber(median)}`]
      : [];
  });
}

/** Correct responses over CPU time, both since exec: a line for each start. */
export const lifetimes: Figure = {
  option: (report, choice) => {
    const drawn = drawnSubjects(report, choice);
    const lives = drawn.flatMap((entry) =>
      entry.subject.lifetimes.starts.map((life) => ({ ...entry, life })),
    );
    const requestCounts = (isControl: boolean): number[] =>
      lives
        .filter(({ subject }) => subject.control === isControl)
        .flatMap(({ life }) => life.points.map((point) => point.requests));
    const end = fittedEnd(requestCounts(false), requestCounts(true));
    const aboveEndTexts = drawn
      .filter(({ subject }) => end !== null && subject.control)
      .flatMap(
        ({ subject }) =>
          subject.lifetimes.starts[0]?.points
            .slice(-1)
            .map((p) => `${subject.title} ${axisNumber(p.requests)}`) ?? [],
      );
    const axis = yAxis(report, "requests", axisNumber, choice);
    // Lines end at different places, so the names of many lines would cover other lines.
    const names = drawn.length > MOVABLE_NAMES ? () => ({}) : namesOfLines(choice, drawn.length);
    return {
      ...chartBase("requests over CPU time"),
      grid: end === null ? SINGLE_PANEL : { ...SINGLE_PANEL, ...roomAbove.grid },
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
        ...lives.map(({ subject, colour, dash, life }) => ({
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
        ...atEnd(choice, end, 0, aboveEndTexts),
      ] as NonNullable<Option["series"]>,
    };
  },
};

/** Returns the note of a point: its subject, moment, requests and CPU time. */
function lifeNote(
  report: Report,
  subject: SubjectResult,
  life: Lifetime,
  point: LifePoint,
  index: number,
): string {
  const totals = `${amount(point.requests)} requests in ${number(point.cpu_s)} s of CPU time`;
  return `${subject.title}, repeat ${life.repeat}\n${momentName(report, point, index)}: ${totals}`;
}

/** Returns the moment of a point of a start: ready, warm, or after a step. */
function momentName(report: Report, { workload, step }: LifePoint, index: number): string {
  if (workload === null) return index === 0 ? "ready" : "warm";
  const name = report.run.workloads[workload]?.name ?? "";
  const summary = report.summaries.find((s) => s.step === step);
  return `after ${workloadPrefix(report, name)}${summary ? stepName(summary) : ""}`;
}
