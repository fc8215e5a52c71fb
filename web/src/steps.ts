// Draws charts over steps: a panel for each shown workload. Each panel has its own y axis, and all
// panels share the x axis.
import {
  SINGLE_PANEL,
  chartBase,
  textColour,
  MOVABLE_NAMES,
  namesOfLines,
  roomAbove,
  textSeries,
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
import { axisEnd, isDrawable, NO_BOUNDS, type Quantity } from "./quantity.ts";
import type { Report, SubjectResult, Summary, TrialResult } from "./schema.ts";
import { subjectColour, subjectDash } from "./theme.ts";

/** A step, from a summary or from a trial. */
type StepOf = Summary | TrialResult["step"];

/** The axis over steps. */
interface StepAxis {
  name: string;
  placeOf: (step: StepOf) => number;
  /** The names of the stops at 0, 1, 2 …; null: the axis is logarithmic and has no stops. */
  stopNames: string[] | null;
  /** The places of a marker at this number of connections. */
  markerPlaces: (connections: number) => number[];
}

/** A workload on its axes. */
interface Panel {
  report: Report;
  choice: Choice;
  quantity: Quantity;
  x: StepAxis;
  workload: string;
  summaries: Summary[];
  trials: TrialResult[];
  /** The last place that has a value. */
  last: number;
  /** The end of the y axis if values of controls are cut; null: it has room for all values. */
  end: number | null;
}

/** Returns a chart with a line through medians, and a dot per repeat (a cross if not valid). */
export function stepsChart(report: Report, choice: Choice, quantity: Quantity): Option {
  const x = stepAxis(report);
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
  return { ...chartBase(quantity.name), ...axes(panels), series };
}

/** Whether all steps are at the same place of the x axis. */
export function hasSinglePlace(report: Report): boolean {
  return new Set(report.summaries.map(stepAxis(report).placeOf)).size === 1;
}

/** Returns the height for several panels, in pixels; null: the height of the style sheet. */
export function stepsHeight(report: Report, choice: Choice): number | null {
  const panels = shownWorkloads(report, choice).length;
  return panels > 1 ? panelsHeight(panels) : null;
}

/** Returns the x axis: the quantity that varies over the steps, or their order if steps repeat. */
function stepAxis(report: Report): StepAxis {
  const quantity = quantityOf(report);
  // A step with a closed loop has no rate, so it has no place on an axis of rates.
  const isMixed = quantity.name === RATE && report.summaries.some((s) => s.rate === null);
  return isMixed || report.summaries.some((s) => s.pass > 1)
    ? suiteOrderAxis(report, quantity)
    : quantity;
}

const RATE = "offered requests/s";

/**
 * Returns an axis of the quantity that varies: usually connections, or the rate if only the rate
 * varies. It is requests in flight if steps with different connections have equally many. Markers
 * have places only on an axis of connections.
 */
function quantityOf(report: Report): StepAxis {
  const countDistinct = (pick: (s: Summary) => number | null): number =>
    new Set(report.summaries.map(pick)).size;
  const connections = countDistinct((s) => s.connections);
  const axisOver = (name: string, placeOf: StepAxis["placeOf"]): StepAxis => ({
    name,
    placeOf,
    stopNames: null,
    markerPlaces: () => [],
  });
  const hasRates = countDistinct((s) => s.rate) > 1 || report.summaries.some((s) => s.schedule);
  if (connections === 1 && hasRates) return axisOver(RATE, (s) => s.rate ?? 0);
  if (countDistinct((s) => s.in_flight) < connections && report.run.markers.length === 0) {
    return axisOver("requests in flight", (s) => s.in_flight);
  }
  return { ...axisOver("connections", (s) => s.connections), markerPlaces: (at) => [at] };
}

/** Returns an axis with a place for each step. On other axes, equal steps would overlap. */
function suiteOrderAxis(report: Report, quantity: StepAxis): StepAxis {
  const nameOf = (s: StepOf): string => {
    if (quantity.name !== RATE || s.rate !== null) return axisNumber(quantity.placeOf(s));
    return s.schedule ? scheduleName(s.schedule) : "closed loop";
  };
  const stopOf = (s: StepOf): string => `${nameOf(s)}${s.pass > 1 ? ` (${s.pass})` : ""}`;
  const steps = [...report.summaries].sort((a, b) => (a.step < b.step ? -1 : 1));
  const names = [...new Set(steps.map(stopOf))];
  const connections = names.map((name) => steps.find((s) => stopOf(s) === name)?.connections ?? 0);
  const isOfConnections = quantity.markerPlaces(1).length > 0;
  return {
    name: `${quantity.name}, in the order of the suite`,
    placeOf: (s) => names.indexOf(stopOf(s)),
    stopNames: names,
    markerPlaces: (at) => (isOfConnections ? placesAmong(connections, at) : []),
  };
}

function panelOf(
  report: Report,
  choice: Choice,
  quantity: Quantity,
  x: StepAxis,
  workload: string,
): Panel {
  const summaries = report.summaries.filter(
    (s) => s.workload === workload && !choice.hidden.has(s.subject),
  );
  const trials = report.trials.filter(
    (t) => t.workload === workload && !choice.hidden.has(t.subject_id),
  );
  const [, last] = ends(summaries.map(x.placeOf));
  return {
    report,
    choice,
    quantity,
    x,
    workload,
    summaries,
    trials,
    last,
    end: axisEnd({ report, choice, quantity, summaries, trials }),
  };
}

/** Returns a column of grids, one for each panel, that zoom together. */
function axes(panels: Panel[]): Option {
  const [from, to] = ends(panels.flatMap((p) => p.summaries.map(p.x.placeOf)));
  const shared = panels.length > 1 && from < to ? { min: from, max: to } : {};
  return {
    grid: panels.length > 1 ? panels.map((_, i) => stackedGrid(i)) : panels.map(singleGrid),
    xAxis: panels.map((panel, gridIndex) => ({
      ...(panel.x.stopNames ? axisOfStops(panel.x.stopNames) : { ...LOG, ...shared }),
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

/** Returns an axis with names at whole numbers, and room for markers between the names. */
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

function stackedGrid(index: number): object {
  return { ...SINGLE_PANEL, bottom: "auto", top: panelTop(index), height: PANEL_HEIGHT };
}

function singleGrid({ end }: Panel): object {
  return end === null ? SINGLE_PANEL : { ...SINGLE_PANEL, ...roomAbove.grid };
}

function yAxisOf(panel: Panel): object {
  const { report, choice, quantity, workload, end } = panel;
  const name = `${workloadPrefix(report, workload, " · ")}${quantity.name}`;
  const axis = {
    ...yAxis(report, name, quantity.show, choice),
    ...(choice.logY ? decades(valuesOfPanel(panel)) : {}),
    // Keeps the axis at the left end, even if the first stop is at another place.
    axisLine: { onZero: false },
  };
  return end === null ? axis : { ...axis, max: end, ...roomAbove.axis };
}

/** Returns all drawn values: medians, their intervals, trials, and bounds. */
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
  const subjects = panel.report.subjects
    .map((subject, index) => ({ subject, index }))
    .filter(({ subject }) => !panel.choice.hidden.has(subject.id));
  return [
    ...subjects.flatMap(({ subject, index }) => linesOf(panel, subject, index)),
    ...dotsOf(panel, subjects),
    ...cutValues(panel),
  ];
}

/** Returns the bands and lines of a subject. */
function linesOf(panel: Panel, subject: SubjectResult, index: number): object[] {
  const colour = subjectColour(index, subject.control, panel.choice.dark);
  const summaries = panel.summaries.filter((s) => s.subject === subject.id);
  const key = seriesKey(panel.summaries);
  const stepsOfLines = [...new Set(summaries.map(key))].map((value) =>
    summaries.filter((s) => key(s) === value),
  );
  return [
    ...stepsOfLines.flatMap((steps) => band(panel, colour, steps)),
    ...stepsOfLines.flatMap((steps) => line(panel, subject, index, colour, steps)),
  ];
}

/** Returns the dots of all subjects in one series. A series per subject would be much slower. */
function dotsOf(panel: Panel, subjects: { subject: SubjectResult; index: number }[]): object[] {
  const data = subjects.flatMap(({ subject, index }) =>
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
 * Returns a function from a step to the key of its line. A line joins steps that differ only in
 * connections, or only in the rate if connections do not vary.
 */
function seriesKey(summaries: Summary[]): (s: Summary) => string {
  const isOfRates = new Set(summaries.map((s) => s.connections)).size === 1;
  const rate = (s: Summary): string => (s.schedule ? scheduleName(s.schedule) : String(s.rate));
  return (s) => `${s.streams}·${s.pipeline}·${isOfRates ? "" : rate(s)}`;
}

/** Returns the number of lines of all subjects. */
function lineCount(summaries: Summary[]): number {
  const key = seriesKey(summaries);
  return new Set(summaries.map((s) => `${s.subject}·${key(s)}`)).size;
}

/** Whether a value lies above the end of the axis. */
function isAboveEnd(panel: Panel, v: number | null): boolean {
  return panel.end !== null && v !== null && v > panel.end;
}

/** Returns a line through the medians; none for a single step, which would be invisible. */
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
  const drawable = steps.filter((s) => isDrawable(choice, median(s)) || breaks(s));
  const last = drawable.at(-1);
  if (drawable.length < 2 || !last) return [];
  const lines = lineCount(panel.summaries);
  // The name of a line at zero would cover the axis. The name of a line that ends early would cover
  // other lines.
  const isNamed =
    drawable.some((s) => (median(s) ?? 0) > 0) &&
    !isAboveEnd(panel, median(last)) &&
    (lines <= MOVABLE_NAMES || x.placeOf(last) === panel.last);
  return [
    {
      type: "line",
      name: subject.id,
      z: 2,
      symbol: "none",
      silent: true,
      data: drawable.map((s) => [x.placeOf(s), median(s)]),
      lineStyle: { width: 2, type: subjectDash(index, subject.control), color: colour },
      itemStyle: { color: colour },
      ...(isNamed ? namesOfLines(choice, lines)(subject.title) : {}),
    },
  ];
}

/** Returns the band of the confidence interval, over the steps that have an interval. */
function band({ quantity, x }: Panel, colour: string, steps: Summary[]): object[] {
  const withInterval = steps.filter((s) => (quantity.ofStep(s)?.interval ?? null) !== null);
  if (withInterval.length < 2) return [];
  const low = withInterval.map((s) => [x.placeOf(s), quantity.ofStep(s)?.interval?.[0] ?? 0]);
  const high = withInterval
    .map((s) => [x.placeOf(s), quantity.ofStep(s)?.interval?.[1] ?? 0])
    .reverse();
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
  const trials = panel.trials.filter((t) => t.subject_id === subject.id);
  return trials.flatMap((t) => dotOf(panel, subject, colour, t) ?? []);
}

/** Returns the mark of a trial; null: it has no value and no bound. */
function dotOf(panel: Panel, subject: SubjectResult, colour: string, t: TrialResult): Dot | null {
  const { report, choice, quantity, x, end } = panel;
  const y = quantity.ofTrial(t);
  const stepText = `${workloadPrefix(report, t.workload)}${stepName(t.step)}, repeat ${t.repeat}`;
  const note = `${subject.title}\n${stepText}: `;
  if (y !== null && end !== null && y > end) {
    return hanging(
      dot(
        t,
        [x.placeOf(t.step), end],
        colour,
        `${note}${quantity.show(y)}, above the end of this axis`,
      ),
    );
  }
  if (isDrawable(choice, y))
    return dot(t, [x.placeOf(t.step), y], colour, `${note}${quantity.show(y)}`);
  const bound = (quantity.bounds ?? NO_BOUNDS).ofTrial(t);
  return bound
    ? arrow(dot(t, [x.placeOf(t.step), bound.at], colour, `${note}${bound.words}`))
    : null;
}

/** The value of a control above the end of the axis. */
interface CutValue {
  place: number;
  title: string;
  value: string;
}

/** Returns labels for the values above the end of the axis. The last label names the subjects. */
function cutValues(panel: Panel): object[] {
  const { choice, x, end } = panel;
  if (end === null) return [];
  const values = panel.summaries.flatMap((s) => cutValueOf(panel, s) ?? []);
  const places = [...new Set(values.map((c) => c.place))];
  const [, lastPlace] = ends(places);
  const [firstPlace] = ends(panel.summaries.map(x.placeOf));
  const labelled = places.map((place) => {
    const sameStop = values.filter((c) => c.place === place);
    // A centred label would cover the numbers left of the axis.
    const align = place === firstPlace ? "left" : "center";
    return {
      value: [place, end],
      label: { formatter: place === lastPlace ? namedValues(sameStop) : valuesOf(sameStop), align },
    };
  });
  return [textSeries(choice, labelled)];
}

function valuesOf(values: CutValue[]): string {
  return values.map((c) => c.value).join(", ");
}

function namedValues(values: CutValue[]): string {
  const titles = [...new Set(values.map((c) => c.title))];
  return titles
    .map((title) => `${title} ${valuesOf(values.filter((c) => c.title === title))}`)
    .join(", ");
}

function cutValueOf(panel: Panel, s: Summary): CutValue | null {
  const value = valueAbove(panel, s);
  if (value === null) return null;
  const subject = panel.report.subjects.find(({ id }) => id === s.subject);
  return {
    place: panel.x.placeOf(s),
    title: subject?.title ?? s.subject,
    value: panel.quantity.show(value),
  };
}

/**
 * Returns the value of a step above the end of the axis: its median, or else the first such trial.
 * null: no value lies above the end.
 */
function valueAbove(panel: Panel, s: Summary): number | null {
  const trialValues = panel.trials
    .filter((t) => t.subject_id === s.subject && t.step.index === s.step)
    .map(panel.quantity.ofTrial);
  return (
    [panel.quantity.ofStep(s)?.median ?? null, ...trialValues].find((v) => isAboveEnd(panel, v)) ??
    null
  );
}

/** Returns the series, with vertical lines for the markers of the suite added to the first. */
function withMarkers(report: Report, choice: Choice, x: StepAxis, series: object[]): object[] {
  const [first, ...others] = series;
  const data = report.run.markers.flatMap((m) =>
    x.markerPlaces(m.connections).map((xAxis) => ({ xAxis, label: { formatter: m.label } })),
  );
  if (!first || data.length === 0) return series;
  return [
    {
      ...first,
      markLine: {
        symbol: "none",
        silent: true,
        data,
        lineStyle: { type: "dotted", color: textColour(choice) },
      },
    },
    ...others,
  ];
}
