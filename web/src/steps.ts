// Charts over steps: a panel for each workload that is shown, with a y axis of its own; all of them
// share the x axis.
import {
  ALONE,
  base,
  ink,
  NAMES_MOVED,
  namesOfLines,
  roomAbove,
  written,
  yAxis,
  zoomOf,
} from "./axes.ts";
import { type Choice, shownWorkloads, workloadPrefix } from "./choice.ts";
import type { Option } from "./echarts.ts";
import { axisNumber, scheduleName, stepName } from "./format.ts";
import {
  decades,
  ends,
  PANEL_HEIGHT,
  panelsHeight,
  panelTop,
  placesAmong,
  stops,
} from "./layout.ts";
import { arrow, dot, type Dot, hanging } from "./marks.ts";
import { endOf, isDrawable, NO_BOUNDS, type Quantity } from "./quantity.ts";
import type { Report, SubjectResult, Summary, TrialResult } from "./schema.ts";
import { subjectColour, subjectDash } from "./theme.ts";

type StepOf = Summary | TrialResult["step"];

/** The axis over steps. */
interface Across {
  name: string;
  of: (step: StepOf) => number;
  /**
   * The names of stops, which stand at 0, 1, 2 …; null: places are numbers of their own, on a
   * logarithmic axis.
   */
  stops: string[] | null;
  /** Where a marker at so many connections stands. */
  placesOf: (connections: number) => number[];
}

/** A workload on its axes. */
interface Panel {
  report: Report;
  choice: Choice;
  quantity: Quantity;
  x: Across;
  workload: string;
  summaries: Summary[];
  trials: TrialResult[];
  /** The last place that anything stands at. */
  last: number;
  /** Where the y axis ends although controls go on; null: it has room for all. */
  end: number | null;
}

/** A line through medians, a dot per repeat, a cross per step that is not valid. */
export function overSteps(report: Report, choice: Choice, quantity: Quantity): Option {
  const x = xOf(report);
  const panels = shownWorkloads(report, choice).map((workload) =>
    panelOf(report, choice, quantity, x, workload),
  );
  const series = panels.flatMap((panel, index) =>
    withMarkers(report, choice, x, seriesOf(panel)).map((s) => ({
      ...s,
      xAxisIndex: index,
      yAxisIndex: index,
    })),
  );
  return { ...base(quantity.name), ...axes(panels), series };
}

/** Whether all that there is would stand above each other. */
export function isOnePlace(report: Report): boolean {
  return new Set(report.summaries.map(xOf(report).of)).size === 1;
}

/** Pixels for the panels of several workloads; null: what the style gives. */
export function stepsHeight(report: Report, choice: Choice): number | null {
  const panels = shownWorkloads(report, choice).length;
  return panels > 1 ? panelsHeight(panels) : null;
}

/**
 * The quantity that varies over the steps, or, where the same steps come again, the steps in the
 * order of the suite.
 */
function xOf(report: Report): Across {
  const quantity = quantityOf(report);
  // A closed loop has no rate to stand at.
  const isMixed = quantity.name === RATE && report.summaries.some((s) => s.rate === null);
  return isMixed || report.summaries.some((s) => s.pass > 1) ? inOrder(report, quantity) : quantity;
}

const RATE = "offered requests/s";

/**
 * Connections, or the rate where that varies instead. Where steps of different connections have the
 * same number of requests in flight, that is what makes them comparable; markers stand at
 * connections.
 */
function quantityOf(report: Report): Across {
  const different = (of: (s: Summary) => number | null): number =>
    new Set(report.summaries.map(of)).size;
  const connections = different((s) => s.connections);
  const across = (name: string, of: Across["of"]): Across => ({
    name,
    of,
    stops: null,
    placesOf: () => [],
  });
  const hasRates = different((s) => s.rate) > 1 || report.summaries.some((s) => s.schedule);
  if (connections === 1 && hasRates) return across(RATE, (s) => s.rate ?? 0);
  if (different((s) => s.in_flight) < connections && report.run.markers.length === 0) {
    return across("requests in flight", (s) => s.in_flight);
  }
  return { ...across("connections", (s) => s.connections), placesOf: (at) => [at] };
}

/**
 * A place for each step, one after the other: at the same connections their points would lie on
 * each other.
 */
function inOrder(report: Report, quantity: Across): Across {
  const nameOf = (s: StepOf): string => {
    if (quantity.name !== RATE || s.rate !== null) return axisNumber(quantity.of(s));
    return s.schedule ? scheduleName(s.schedule) : "closed loop";
  };
  const stopOf = (s: StepOf): string => `${nameOf(s)}${s.pass > 1 ? ` (${s.pass})` : ""}`;
  const steps = [...report.summaries].sort((a, b) => (a.step < b.step ? -1 : 1));
  const names = [...new Set(steps.map(stopOf))];
  const connections = names.map((name) => steps.find((s) => stopOf(s) === name)?.connections ?? 0);
  const isOfConnections = quantity.placesOf(1).length > 0;
  return {
    name: `${quantity.name}, in the order of the suite`,
    of: (s) => names.indexOf(stopOf(s)),
    stops: names,
    placesOf: (at) => (isOfConnections ? placesAmong(connections, at) : []),
  };
}

function panelOf(
  report: Report,
  choice: Choice,
  quantity: Quantity,
  x: Across,
  workload: string,
): Panel {
  const summaries = report.summaries.filter(
    (s) => s.workload === workload && !choice.hidden.has(s.subject),
  );
  const trials = report.trials.filter(
    (t) => t.workload === workload && !choice.hidden.has(t.subject_id),
  );
  const [, last] = ends(summaries.map(x.of));
  return {
    report,
    choice,
    quantity,
    x,
    workload,
    summaries,
    trials,
    last,
    end: endOf({ report, choice, quantity, summaries, trials }),
  };
}

/** A grid with its axes for each panel, below each other; zoomed together. */
function axes(panels: Panel[]): Option {
  const [from, to] = ends(panels.flatMap((p) => p.summaries.map(p.x.of)));
  const shared = panels.length > 1 && from < to ? { min: from, max: to } : {};
  return {
    grid: panels.length > 1 ? panels.map((_, i) => below(i)) : panels.map(alone),
    xAxis: panels.map((panel, gridIndex) => ({
      ...(panel.x.stops ? axisOfStops(panel.x.stops) : { ...LOG, ...shared }),
      gridIndex,
      name: panel === panels.at(-1) ? panel.x.name : "",
      nameLocation: "middle",
      nameGap: 26,
      splitLine: { show: false },
    })),
    yAxis: panels.map((panel, gridIndex) => ({ gridIndex, ...yAxisOf(panel) })),
    dataZoom: zoomOf(panels.map((_, i) => i)),
  };
}

const LOG = {
  type: "log" as const,
  logBase: 2,
  axisLabel: { formatter: (v: number) => axisNumber(v), hideOverlap: true },
};

/** Names at whole numbers. An axis of names could not hold a marker between two of them. */
function axisOfStops(names: string[]): object {
  const customValues = [...names.keys()];
  const formatter = (place: number): string => names[place] ?? "";
  return {
    type: "value",
    ...stops(names.length),
    axisTick: { customValues },
    axisLabel: { customValues, formatter, hideOverlap: true },
  };
}

function below(index: number): object {
  return { ...ALONE, bottom: "auto", top: panelTop(index), height: PANEL_HEIGHT };
}

function alone({ end }: Panel): object {
  return end === null ? ALONE : { ...ALONE, ...roomAbove.grid };
}

function yAxisOf(panel: Panel): object {
  const { report, choice, quantity, workload, end } = panel;
  const name = `${workloadPrefix(report, workload, " · ")}${quantity.name}`;
  const axis = {
    ...yAxis(report, name, quantity.show, choice),
    ...(choice.logY ? decades(valuesOfPanel(panel)) : {}),
    // At its left end, wherever the first stop is.
    axisLine: { onZero: false },
  };
  return end === null ? axis : { ...axis, max: end, ...roomAbove.axis };
}

/** What is drawn: medians and their intervals, trials, and bounds. */
function valuesOfPanel({ quantity, summaries, trials }: Panel): number[] {
  const bound = (t: TrialResult): number | undefined =>
    (quantity.bounds ?? NO_BOUNDS).ofTrial(t)?.at;
  return [
    ...summaries.flatMap((s) => [
      quantity.ofStep(s)?.median,
      ...(quantity.ofStep(s)?.interval ?? []),
    ]),
    ...trials.flatMap((t) => [quantity.ofTrial(t), bound(t)]),
  ].filter((v) => typeof v === "number");
}

function seriesOf(panel: Panel): object[] {
  const all = panel.report.subjects
    .map((subject, index) => ({ subject, index }))
    .filter(({ subject }) => !panel.choice.hidden.has(subject.id));
  return [
    ...all.flatMap(({ subject, index }) => linesOf(panel, subject, index)),
    ...dotsOf(panel, all),
    ...cutValues(panel),
  ];
}

/** The bands and lines of a subject. */
function linesOf(panel: Panel, subject: SubjectResult, index: number): object[] {
  const colour = subjectColour(index, subject.control, panel.choice.dark);
  const own = panel.summaries.filter((s) => s.subject === subject.id);
  const key = seriesKey(panel.summaries);
  const joined = [...new Set(own.map(key))].map((one) => own.filter((s) => key(s) === one));
  return [
    ...joined.flatMap((steps) => band(panel, colour, steps)),
    ...joined.flatMap((steps) => line(panel, subject, index, colour, steps)),
  ];
}

/** The dots of all subjects at once: a series for each would take several times as long to draw. */
function dotsOf(panel: Panel, all: { subject: SubjectResult; index: number }[]): object[] {
  const data = all.flatMap(({ subject, index }) =>
    dots(panel, subject, subjectColour(index, subject.control, panel.choice.dark)),
  );
  return [
    {
      type: "scatter",
      name: DOTS,
      data,
      symbolSize: 7,
      z: 3,
      tooltip: { formatter: (p: unknown) => (p as { data: Dot }).data.note },
    },
  ];
}

/** The name of the series of dots. */
export const DOTS = "repeats";

/**
 * What one line joins: steps of a workload that differ in connections alone, or, at one number of
 * these, in the rate alone.
 */
function seriesKey(all: Summary[]): (s: Summary) => string {
  const isOfRates = new Set(all.map((s) => s.connections)).size === 1;
  const rate = (s: Summary): string => (s.schedule ? scheduleName(s.schedule) : String(s.rate));
  return (s) => `${s.streams}·${s.pipeline}·${isOfRates ? "" : rate(s)}`;
}

function lineCount(summaries: Summary[]): number {
  const key = seriesKey(summaries);
  return new Set(summaries.map((s) => `${s.subject}·${key(s)}`)).size;
}

/** Whether a value lies above the end of the axis. */
function isBeyond(panel: Panel, v: number | null): boolean {
  return panel.end !== null && v !== null && v > panel.end;
}

/** A line through the medians. One of a single step would not be seen. */
function line(
  panel: Panel,
  subject: SubjectResult,
  index: number,
  colour: string,
  steps: Summary[],
): object[] {
  const { choice, quantity, x } = panel;
  const median = (s: Summary): number | null => quantity.ofStep(s)?.median ?? null;
  const breaks = (quantity.bounds ?? NO_BOUNDS).breaks;
  const own = steps.filter((s) => isDrawable(choice, median(s)) || breaks(s));
  const last = own.at(-1);
  if (own.length < 2 || !last) return [];
  const lines = lineCount(panel.summaries);
  // The names of many lines that all lie on zero would cover the axis, and say nothing; those of
  // lines that end before the others would cover these.
  const isNamed =
    own.some((s) => (median(s) ?? 0) > 0) &&
    !isBeyond(panel, median(last)) &&
    (lines <= NAMES_MOVED || x.of(last) === panel.last);
  return [
    {
      type: "line",
      name: subject.id,
      z: 2,
      symbol: "none",
      silent: true,
      data: own.map((s) => [x.of(s), median(s)]),
      lineStyle: { width: 2, type: subjectDash(index, subject.control), color: colour },
      itemStyle: { color: colour },
      ...(isNamed ? namesOfLines(choice, lines)(subject.title) : {}),
    },
  ];
}

/** The confidence interval, only where there is one. */
function band({ quantity, x }: Panel, colour: string, steps: Summary[]): object[] {
  const own = steps.filter((s) => (quantity.ofStep(s)?.interval ?? null) !== null);
  if (own.length < 2) return [];
  const low = own.map((s) => [x.of(s), quantity.ofStep(s)?.interval?.[0] ?? 0]);
  const high = own.map((s) => [x.of(s), quantity.ofStep(s)?.interval?.[1] ?? 0]).reverse();
  return [
    {
      type: "custom",
      silent: true,
      clip: true,
      z: 1,
      data: [[...low, ...high].flat()],
      renderItem: (_: unknown, api: { coord: (p: number[]) => number[] }) => ({
        type: "polygon",
        shape: { points: [...low, ...high].map((p) => api.coord(p)) },
        style: { fill: colour, opacity: 0.15 },
      }),
    },
  ];
}

function dots(panel: Panel, subject: SubjectResult, colour: string): Dot[] {
  const own = panel.trials.filter((t) => t.subject_id === subject.id);
  return own.flatMap((t) => dotOf(panel, subject, colour, t) ?? []);
}

function dotOf(panel: Panel, subject: SubjectResult, colour: string, t: TrialResult): Dot | null {
  const { report, choice, quantity, x, end } = panel;
  const y = quantity.ofTrial(t);
  const where = `${workloadPrefix(report, t.workload)}${stepName(t.step)}, repeat ${t.repeat}`;
  const note = `${subject.title}\n${where}: `;
  if (y !== null && end !== null && y > end) {
    return hanging(
      dot(t, [x.of(t.step), end], colour, `${note}${quantity.show(y)}, above the end of this axis`),
    );
  }
  if (isDrawable(choice, y)) return dot(t, [x.of(t.step), y], colour, `${note}${quantity.show(y)}`);
  const bound = (quantity.bounds ?? NO_BOUNDS).ofTrial(t);
  return bound ? arrow(dot(t, [x.of(t.step), bound.at], colour, `${note}${bound.words}`)) : null;
}

/** The value of a control above the end of the axis. */
interface Cut {
  place: number;
  title: string;
  value: string;
}

/**
 * The values of controls above the end of the axis, written there; the last of them with whose they
 * are.
 */
function cutValues(panel: Panel): object[] {
  const { choice, x, end } = panel;
  if (end === null) return [];
  const cut = panel.summaries.flatMap((s) => cutOf(panel, s) ?? []);
  const places = [...new Set(cut.map((c) => c.place))];
  const [, last] = ends(places);
  const [first] = ends(panel.summaries.map(x.of));
  const labelled = places.map((place) => {
    const own = cut.filter((c) => c.place === place);
    // Left of the axis stand its numbers.
    const align = place === first ? "left" : "center";
    return {
      value: [place, end],
      label: { formatter: place === last ? namedValues(own) : valuesOf(own), align },
    };
  });
  return [written(choice, labelled)];
}

function valuesOf(cut: Cut[]): string {
  return cut.map((c) => c.value).join(", ");
}

function namedValues(cut: Cut[]): string {
  const titles = [...new Set(cut.map((c) => c.title))];
  return titles
    .map((title) => `${title} ${valuesOf(cut.filter((c) => c.title === title))}`)
    .join(", ");
}

function cutOf(panel: Panel, s: Summary): Cut | null {
  const value = valueAbove(panel, s);
  if (value === null) return null;
  const subject = panel.report.subjects.find(({ id }) => id === s.subject);
  return {
    place: panel.x.of(s),
    title: subject?.title ?? s.subject,
    value: panel.quantity.show(value),
  };
}

/**
 * What is written of a step above the end of the axis: its median, or else the first trial that
 * lies there; null: none does.
 */
function valueAbove(panel: Panel, s: Summary): number | null {
  const own = panel.trials
    .filter((t) => t.subject_id === s.subject && t.step.index === s.step)
    .map(panel.quantity.ofTrial);
  return [panel.quantity.ofStep(s)?.median ?? null, ...own].find((v) => isBeyond(panel, v)) ?? null;
}

/** The user's own vertical lines. */
function withMarkers(report: Report, choice: Choice, x: Across, series: object[]): object[] {
  const [first, ...rest] = series;
  const data = report.run.markers.flatMap((m) =>
    x.placesOf(m.connections).map((xAxis) => ({ xAxis, label: { formatter: m.label } })),
  );
  if (!first || data.length === 0) return series;
  return [
    {
      ...first,
      markLine: {
        symbol: "none",
        silent: true,
        data,
        lineStyle: { type: "dotted", color: ink(choice) },
      },
    },
    ...rest,
  ];
}
