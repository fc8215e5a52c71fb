// Draws a chart of a single step: a row for each subject, in the order of the overview. It replaces
// a chart over steps if there is only one step.
import { chartBase } from "./axes.ts";
import { type Choice, shownWorkloads, workloadPrefix } from "./choice.ts";
import type { Option } from "./echarts.ts";
import { stepName } from "./format.ts";
import { decades, labelIn, labelRoom, rowPanels, ROW_HEIGHT } from "./layout.ts";
import { arrow, dot, type Dot } from "./marks.ts";
import { axisEnd, isDrawable, NO_BOUNDS, type Quantity } from "./quantity.ts";
import type { Report, SubjectResult, Summary, TrialResult } from "./schema.ts";
import { subjectColour } from "./theme.ts";

/** A subject at the step. `index` selects its colour. */
interface Row {
  subject: SubjectResult;
  index: number;
  step: Summary;
  trials: TrialResult[];
}

/** The rows of a workload. */
interface Panel {
  report: Report;
  choice: Choice;
  quantity: Quantity;
  workload: string;
  rows: Row[];
  /** The end of the axis if values of controls are cut; null: it has room for all values. */
  end: number | null;
}

/**
 * Returns a chart with a dot for each repeat and a bar up to the median. A logarithmic axis has no
 * zero where bars could begin, so the median is a mark instead.
 */
export function subjectsChart(report: Report, choice: Choice, quantity: Quantity): Option {
  const panels = shownWorkloads(report, choice).map((workload) =>
    panelOf(report, choice, quantity, workload),
  );
  const places = rowPanels(panels.map(({ rows }) => rows.length));
  const left = labelRoom(
    panels.flatMap(({ rows }) => rows.map((row) => nameOf(row, rows))),
    choice.isNarrow,
  );
  return {
    ...chartBase(quantity.name),
    grid: places.panels.map((place) => ({ ...place, left, right: 70 })),
    xAxis: panels.map((panel, gridIndex) => ({ gridIndex, ...valueAxis(panel) })),
    yAxis: panels.map(({ rows }, gridIndex) => ({
      gridIndex,
      type: "category",
      inverse: true,
      data: rows.map((row) => nameOf(row, rows)),
      splitLine: { show: false },
      axisTick: { show: false },
      axisLabel: { interval: 0, ...labelIn(left) },
    })),
    series: panels.flatMap((panel, index) =>
      seriesOf(panel).map((s) => ({ ...s, xAxisIndex: index, yAxisIndex: index })),
    ),
  };
}

/** Returns the height of the chart, in pixels. */
export function subjectsHeight(report: Report, choice: Choice): number {
  return rowPanels(
    shownWorkloads(report, choice).map((workload) => rowsOf(report, choice, workload).length),
  ).height;
}

function panelOf(report: Report, choice: Choice, quantity: Quantity, workload: string): Panel {
  const rows = rowsOf(report, choice, workload);
  const trials = rows.flatMap((row) => row.trials);
  return {
    report,
    choice,
    quantity,
    workload,
    rows,
    end: axisEnd({ report, choice, quantity, trials, summaries: rows.map(({ step }) => step) }),
  };
}

/** Returns the rows of a workload, in the order of the overview. */
function rowsOf(report: Report, choice: Choice, workload: string): Row[] {
  const overviewRows = report.overview.filter(
    (row) => row.workload === workload && !choice.hidden.has(row.subject),
  );
  const steps = report.summaries.filter((s) => s.workload === workload);
  const trials = report.trials.filter((t) => t.workload === workload);
  return overviewRows.flatMap(({ reference_cell: { arm } }) =>
    steps
      .filter((s) => s.cell.arm === arm)
      .flatMap((step): Row[] => {
        const subject = report.subjects[arm];
        const ofStep = trials.filter((t) => t.cell.arm === arm && t.cell.step === step.step);
        return subject ? [{ subject, index: arm, step, trials: ofStep }] : [];
      }),
  );
}

/** Returns the subject, with the step if it has several steps (of other streams or pipelines). */
function nameOf({ subject, step }: Row, rows: Row[]): string {
  return rows.filter((row) => row.subject === subject).length > 1
    ? `${subject.title}, ${stepName(step)}`
    : subject.title;
}

function valueAxis(panel: Panel): object {
  const { report, choice, quantity, workload, end, rows } = panel;
  const name = `${workloadPrefix(report, workload, " · ")}${quantity.name}`;
  const axis = {
    name,
    nameLocation: "middle",
    nameGap: 26,
    position: "top",
    axisLabel: { formatter: quantity.show, hideOverlap: true },
    nameTextStyle: { fontWeight: workloadPrefix(report, workload) === "" ? "normal" : "bold" },
  };
  if (choice.logY)
    return { type: "log", ...axis, ...decades(rows.flatMap((row) => values(panel, row))) };
  return { type: "value", min: 0, ...axis, ...(end === null ? {} : { max: end }) };
}

function values({ quantity }: Panel, { step, trials }: Row): number[] {
  return [quantity.ofStep(step)?.median, ...trials.map(quantity.ofTrial)].filter(
    (v) => typeof v === "number",
  );
}

function seriesOf(panel: Panel): object[] {
  const { choice, quantity, rows } = panel;
  const colour = ({ subject, index }: Row): string =>
    subjectColour(index, subject.control, choice.dark);
  const median = (row: Row): number | null => quantity.ofStep(row.step)?.median ?? null;
  const data = rows.map((row) => ({
    value: cutAtEnd(panel, median(row) ?? valueAbove(panel, row)),
    // A row without a median has no bar, only a label.
    itemStyle: { color: colour(row), opacity: median(row) === null ? 0 : 0.35 },
    label: cutLabel(panel, row),
  }));
  const marks = rows.flatMap((row, place) => {
    const value = median(row);
    return isDrawable(choice, value)
      ? [{ value: [value, place], itemStyle: { color: colour(row) } }]
      : [];
  });
  return [
    choice.logY
      ? { type: "scatter", silent: true, symbol: "rect", symbolSize: [2, ROW_HEIGHT], data: marks }
      : { type: "bar", silent: true, barWidth: "70%", data },
    {
      type: "scatter",
      symbolSize: 7,
      z: 3,
      data: rows.flatMap((row, place) =>
        row.trials.flatMap((t) => dotOf(panel, row, place, t) ?? []),
      ),
      tooltip: { formatter: (p: unknown) => (p as { data: Dot }).data.note },
    },
  ];
}

function cutAtEnd({ end }: Panel, value: number | null): number | null {
  return value !== null && end !== null && value > end ? end : value;
}

/**
 * Returns the value of a row above the end of the axis: its median, or the first such trial if
 * there is no median. null: no value lies above the end.
 */
function valueAbove({ quantity, end }: Panel, { step, trials }: Row): number | null {
  const median = quantity.ofStep(step)?.median ?? null;
  const known = median === null ? trials.map(quantity.ofTrial) : [median];
  return known.find((v) => v !== null && end !== null && v > end) ?? null;
}

/** Returns the label at the end of a cut bar, with its value. */
function cutLabel(panel: Panel, row: Row): object {
  const value = valueAbove(panel, row);
  if (value === null) return { show: false };
  const formatter = `→ ${panel.quantity.show(value)}`;
  return { show: true, position: "right", formatter, fontSize: 11 };
}

/** Returns the mark of a trial; null: it has no value and no bound. */
function dotOf(panel: Panel, row: Row, place: number, t: TrialResult): Dot | null {
  const { choice, quantity, end } = panel;
  const colour = subjectColour(row.index, row.subject.control, choice.dark);
  const note = `${row.subject.title}\n${stepName(t.step)}, repeat ${t.repeat}: `;
  const value = quantity.ofTrial(t);
  if (value !== null && end !== null && value > end) {
    const words = `${quantity.show(value)}, above the end of this axis`;
    return pointingRight(dot(t, [end, place], colour, `${note}${words}`), "-50%");
  }
  if (isDrawable(choice, value))
    return dot(t, [value, place], colour, `${note}${quantity.show(value)}`);
  const bound = (quantity.bounds ?? NO_BOUNDS).ofTrial(t);
  if (!bound) return null;
  return pointingRight(dot(t, [bound.at, place], colour, `${note}${bound.words}`), "50%");
}

/** Returns the mark of a value that lies to the right of the mark. */
function pointingRight(mark: Dot, offset: string): Dot {
  return { ...arrow(mark), symbolRotate: -90, symbolOffset: [offset, 0] };
}
