// Charts over steps: a panel for each workload that is shown, with a y axis of its own; all of them share the x axis.
import { type Choice, hasSeveralWorkloads, shownWorkloads, workloadPrefix } from "./choice.ts";
import type { Option } from "./echarts.ts";
import { axisNumber, stepName } from "./format.ts";
import { ends, fittedEnd, PANEL_HEIGHT, panelsHeight, panelTop } from "./layout.ts";
import { arrow, dot, type Dot, hanging } from "./marks.ts";
import type { Repeated, Report, SubjectResult, Summary, TrialResult } from "./schema.ts";
import { subjectColour, subjectDash } from "./theme.ts";

export type Show = (value: number) => string;

/** What a chart shows of each step, and of each of its trials. */
export interface Quantity {
  name: string;
  show: Show;
  ofStep: (s: Summary) => Repeated;
  ofTrial: (t: TrialResult) => number | null;
  bounds?: Bounds;
  /** Whether a linear axis ends where the others do if a control is far above them; else it has room for all. */
  controls?: "cut";
}

/** What is drawn in place of a value that is only known to be exceeded. */
export interface Bounds {
  /** The bound of a trial, in words and as a number; null if its value is known, or nothing is. */
  ofTrial: (t: TrialResult) => { at: number; words: string } | null;
  /** Whether a step has no median because of such trials: the line must not pass over it. */
  breaks: (s: Summary) => boolean;
}

const NO_BOUNDS: Bounds = { ofTrial: () => null, breaks: () => false };

/** The axis over steps. */
interface Across {
  name: string;
  of: (step: Summary | TrialResult["step"]) => number;
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
  /** Where the y axis ends although controls go on; null: it has room for all. */
  end: number | null;
}

/** A line through medians, a dot per repeat, a cross per step that is not valid. */
export function overSteps(report: Report, choice: Choice, quantity: Quantity): Option {
  const x = xOf(report);
  const panels = shownWorkloads(report, choice).map((workload) => panelOf(report, choice, quantity, x, workload));
  const series = panels.flatMap((panel, index) =>
    withMarkers(report, seriesOf(panel)).map((s) => ({ ...s, xAxisIndex: index, yAxisIndex: index })));
  return { ...base(quantity.name), ...axes(panels), series };
}

/** Pixels for the panels of several workloads; null: what the style gives. */
export function stepsHeight(report: Report, choice: Choice): number | null {
  const panels = shownWorkloads(report, choice).length;
  return panels > 1 ? panelsHeight(panels) : null;
}

/** What charts with lines share. */
export function base(name: string): Option {
  return {
    animation: false,
    aria: { enabled: true, label: { description: name } },
    legend: { show: false },
    tooltip: { trigger: "item", renderMode: "richText", confine: true },
  };
}

/** The place of the one panel of a chart, with room on the right for the names at the ends of the lines. */
export const ALONE = { left: 70, right: 110, top: 24, bottom: 84 };

/** Room for the values of controls between the name of a panel and its axis. */
const ABOVE_END = { top: 40, nameGap: 28 };

export function zoomOf(xAxisIndex: number[]): NonNullable<Option["dataZoom"]> {
  return [
    { type: "inside", filterMode: "none", xAxisIndex },
    { type: "slider", filterMode: "none", xAxisIndex, height: 18, bottom: 10 },
  ];
}

export function yAxis(report: Report, name: string, show: Show, choice: Choice): object {
  const fontWeight = hasSeveralWorkloads(report) ? "bold" : "normal";
  const axis = { name, nameTextStyle: { align: "left", fontWeight }, axisLabel: { formatter: show } };
  return choice.logY ? { type: "log", ...axis } : { type: "value", min: 0, ...axis };
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

function panelOf(report: Report, choice: Choice, quantity: Quantity, x: Across, workload: string): Panel {
  const summaries = report.summaries.filter((s) => s.workload === workload && !choice.hidden.has(s.subject));
  const trials = report.trials.filter((t) => t.workload === workload && !choice.hidden.has(t.subject_id));
  const highest = (of: SubjectResult[]): number[] => of.flatMap(({ id }) => [
    ...trials.filter((t) => t.subject_id === id).map((t) => quantity.ofTrial(t) ?? 0),
    ...summaries.filter((s) => s.subject === id).map((s) => quantity.ofStep(s).interval?.[1] ?? 0),
  ]);
  const others = highest(report.subjects.filter((s) => !s.control));
  const controls = highest(report.subjects.filter((s) => s.control));
  // A logarithmic axis has room for all.
  const end = quantity.controls === "cut" && !choice.logY ? fittedEnd(others, controls) : null;
  return { report, choice, quantity, x, workload, summaries, trials, end };
}

/** A grid with its axes for each panel, below each other; zoomed together. */
function axes(panels: Panel[]): Option {
  const [from, to] = ends(panels.flatMap((p) => p.summaries.map(p.x.of)));
  const shared = panels.length > 1 && from < to ? { min: from, max: to } : {};
  return {
    grid: panels.length > 1 ? panels.map((_, i) => below(i)) : panels.map(alone),
    xAxis: panels.map((panel, gridIndex) => ({
      type: "log", logBase: 2, gridIndex, ...shared, name: panel === panels.at(-1) ? panel.x.name : "",
      nameLocation: "middle", nameGap: 26, axisLabel: { formatter: (v: number) => axisNumber(v) }, splitLine: { show: false },
    })),
    yAxis: panels.map((panel, gridIndex) => ({ gridIndex, ...yAxisOf(panel) })),
    dataZoom: zoomOf(panels.map((_, i) => i)),
  };
}

function below(index: number): object {
  return { ...ALONE, bottom: "auto", top: panelTop(index), height: PANEL_HEIGHT };
}

function alone({ end }: Panel): object {
  return end === null ? ALONE : { ...ALONE, top: ABOVE_END.top };
}

function yAxisOf({ report, choice, quantity, workload, end }: Panel): object {
  const name = `${workloadPrefix(report, workload, " · ")}${quantity.name}`;
  const axis = yAxis(report, name, quantity.show, choice);
  return end === null ? axis : { ...axis, max: end, nameGap: ABOVE_END.nameGap };
}

function seriesOf(panel: Panel): object[] {
  return [...panel.report.subjects.flatMap((subject, index) => ofSubject(panel, subject, index)), ...cutValues(panel)];
}

function ofSubject(panel: Panel, subject: SubjectResult, index: number): object[] {
  if (panel.choice.hidden.has(subject.id)) return [];
  const colour = subjectColour(index, subject.control, panel.choice.dark);
  const own = panel.summaries.filter((s) => s.subject === subject.id);
  const joined = [...new Set(own.map(seriesKey))].map((key) => own.filter((s) => seriesKey(s) === key));
  return [
    ...joined.flatMap((steps) => band(panel, colour, steps)),
    ...joined.map((steps) => line(panel, subject, index, colour, steps)),
    {
      type: "scatter", name: subject.id, data: dots(panel, subject, colour), symbolSize: 7, z: 3,
      itemStyle: { color: colour }, tooltip: { formatter: (p: unknown) => (p as { data: Dot }).data.note },
    },
  ];
}

/** What one line joins: steps of a workload that differ in connections or rate alone. */
function seriesKey(s: Summary): string {
  return `${s.streams}·${s.pipeline}`;
}

/** In CSS pixels. Left to itself, ECharts takes it from the width of a letter that few servers have a font for. */
const LABEL_HEIGHT = 13;

/** Of so many lines the names still find room beside each other. */
const NAMES_MOVED = 8;

function lineCount(summaries: Summary[]): number {
  return new Set(summaries.map((s) => `${s.subject}·${seriesKey(s)}`)).size;
}

/** Whether a value can be drawn: a logarithmic axis has no zero. */
function isDrawable(choice: Choice, v: number | null): v is number {
  return v !== null && (!choice.logY || v > 0);
}

/** Whether a value lies above the end of the axis. */
function isBeyond(panel: Panel, v: number | null): boolean {
  return panel.end !== null && v !== null && v > panel.end;
}

function line(panel: Panel, subject: SubjectResult, index: number, colour: string, steps: Summary[]): object {
  const { report, choice, quantity, workload, x } = panel;
  const median = (s: Summary): number | null => quantity.ofStep(s).median;
  const breaks = (quantity.bounds ?? NO_BOUNDS).breaks;
  const own = steps.filter((s) => isDrawable(choice, median(s)) || breaks(s));
  const last = own.at(-1);
  // The names of many lines that all lie on zero would cover the axis, and say nothing.
  const isNamed = own.length > 1 && own.some((s) => (median(s) ?? 0) > 0) && !isBeyond(panel, last ? median(last) : null);
  const name = hasSeveralWorkloads(report) ? `${subject.title} · ${workload}` : subject.title;
  return {
    type: "line", name: subject.id, z: 2, symbol: "none",
    data: own.map((s) => [x.of(s), median(s)]),
    lineStyle: { width: 2, type: subjectDash(index, subject.control), color: colour },
    itemStyle: { color: colour },
    endLabel: { show: isNamed, formatter: subject.title, color: ink(choice), fontSize: 11, lineHeight: LABEL_HEIGHT, distance: 6 },
    // Names of a few lines move apart. Those of many would end up far from their lines: better some than wrong ones.
    labelLayout: lineCount(panel.summaries) > NAMES_MOVED ? { hideOverlap: true } : { moveOverlap: "shiftY" },
    tooltip: { formatter: (p: unknown) => `${name}: ${quantity.show((p as { value: [number, number] }).value[1])}` },
  };
}

function ink(choice: Choice): string {
  return choice.dark ? "#c9d1d9" : "#24292f";
}

/** The confidence interval, only where there is one. */
function band({ quantity, x }: Panel, colour: string, steps: Summary[]): object[] {
  const own = steps.filter((s) => quantity.ofStep(s).interval !== null);
  if (own.length < 2) return [];
  const low = own.map((s) => [x.of(s), quantity.ofStep(s).interval?.[0] ?? 0]);
  const high = own.map((s) => [x.of(s), quantity.ofStep(s).interval?.[1] ?? 0]).reverse();
  return [{
    type: "custom", silent: true, clip: true, z: 1, data: [[...low, ...high].flat()],
    renderItem: (_: unknown, api: { coord: (p: number[]) => number[] }) => ({
      type: "polygon",
      shape: { points: [...low, ...high].map((p) => api.coord(p)) },
      style: { fill: colour, opacity: 0.15 },
    }),
  }];
}

function dots(panel: Panel, subject: SubjectResult, colour: string): Dot[] {
  const own = panel.trials.filter((t) => t.subject_id === subject.id);
  return own.flatMap((t) => dotOf(panel, subject, colour, t) ?? []);
}

function dotOf(panel: Panel, subject: SubjectResult, colour: string, t: TrialResult): Dot | null {
  const { report, choice, quantity, x, end } = panel;
  const y = quantity.ofTrial(t);
  const note = `${subject.title}\n${workloadPrefix(report, t.workload)}${stepName(t.step)}, repeat ${t.repeat}: `;
  if (y !== null && end !== null && y > end) {
    return hanging(dot(t, [x.of(t.step), end], colour, `${note}${quantity.show(y)}, above the end of this axis`));
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

/** The values of controls above the end of the axis, written there; the last of them with whose they are. */
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
    return { value: [place, end], label: { formatter: place === last ? namedValues(own) : valuesOf(own), align } };
  });
  return [{
    type: "scatter", silent: true, symbolSize: 0, z: 3, data: labelled,
    label: { show: true, position: "top", distance: 4, fontSize: 11, color: ink(choice) },
  }];
}

function valuesOf(cut: Cut[]): string {
  return cut.map((c) => c.value).join(", ");
}

function namedValues(cut: Cut[]): string {
  const titles = [...new Set(cut.map((c) => c.title))];
  return titles.map((title) => `${title} ${valuesOf(cut.filter((c) => c.title === title))}`).join(", ");
}

function cutOf(panel: Panel, s: Summary): Cut | null {
  const value = valueAbove(panel, s);
  if (value === null) return null;
  const subject = panel.report.subjects.find(({ id }) => id === s.subject);
  return { place: panel.x.of(s), title: subject?.title ?? s.subject, value: panel.quantity.show(value) };
}

/** What is written of a step above the end of the axis: its median, or else the first trial that lies there; null: none does. */
function valueAbove(panel: Panel, s: Summary): number | null {
  const own = panel.trials.filter((t) => t.subject_id === s.subject && t.step.index === s.step).map(panel.quantity.ofTrial);
  return [panel.quantity.ofStep(s).median, ...own].find((v) => isBeyond(panel, v)) ?? null;
}

/** The user's own vertical lines. */
function withMarkers(report: Report, series: object[]): object[] {
  const [first, ...rest] = series;
  if (!first || report.run.markers.length === 0) return series;
  const data = report.run.markers.map((m) => ({ xAxis: m.connections, label: { formatter: m.label } }));
  return [{ ...first, markLine: { symbol: "none", silent: true, data, lineStyle: { type: "dotted" } } }, ...rest];
}
