// Draws charts of bars: CPU time per request at the reference step, and start-up times.
import { type Choice, shownWorkloads } from "./choice.ts";
import type { Option } from "./echarts.ts";
import type { Figure } from "./figure.ts";
import { micros, millis } from "./format.ts";
import { barsHeight, labelIn, labelRoom } from "./layout.ts";
import type { Report, SubjectResult, Summary } from "./schema.ts";
import { subjectColour } from "./theme.ts";

/** A drawn row of the overview, with its reference step. */
interface Row {
  title: string;
  arm: number;
  step: Summary;
}

/** Returns the shown rows whose CPU time is known, in the order of the overview. */
function splitRows(report: Report, choice: Choice): Row[] {
  const shown = shownWorkloads(report, choice);
  return report.overview
    .filter((row) => shown.includes(row.workload) && !choice.hidden.has(row.subject))
    .flatMap((row) => {
      const { arm, workload, step: at } = row.reference_cell;
      const step = report.summaries.find(
        ({ cell }) => cell.arm === arm && cell.workload === workload && cell.step === at,
      );
      return step && typeof step.metrics["server_cpu_us_per_request"]?.median === "number"
        ? [{ title: row.title, arm, step }]
        : [];
    });
}

/** User and system CPU per request at the reference step: a bar for each row of the overview. */
export const split: Figure = {
  height: (report, choice) => barsHeight(splitRows(report, choice).length),
  option: (report, choice) => {
    const shown = splitRows(report, choice);
    const cpuMedians = (kind: string): (number | null)[] =>
      shown.map(({ step }) => step.metrics[`server_cpu_${kind}_us_per_request`]?.median ?? null);
    const bar = (name: string, data: (number | null)[], opacity: number): object => ({
      type: "bar",
      name,
      stack: "cpu",
      barMaxWidth: 26,
      data: data.map((value, i) => {
        const index = shown[i]?.arm ?? 0;
        return {
          value,
          itemStyle: {
            color: subjectColour(index, report.subjects[index]?.control ?? false, choice.dark),
            opacity,
          },
        };
      }),
      tooltip: { valueFormatter: (v: unknown) => (typeof v === "number" ? micros(v) : "–") },
    });
    const left = labelRoom(
      shown.map(({ title }) => title),
      choice.isNarrow,
    );
    return {
      animation: false,
      aria: { enabled: true, label: { description: "User and system CPU per request by subject" } },
      grid: { left, right: 24, top: 24, bottom: 40 },
      tooltip: {
        trigger: "axis",
        renderMode: "richText",
        confine: true,
        axisPointer: { type: "none" },
      },
      xAxis: {
        type: "value",
        min: 0,
        name: "CPU per request (full: user, pale: system)",
        nameLocation: "middle",
        nameGap: 24,
        axisLabel: { formatter: micros, hideOverlap: true },
      },
      yAxis: {
        type: "category",
        inverse: true,
        data: shown.map(({ title }) => title),
        axisLabel: labelIn(left),
        splitLine: { show: false },
      },
      series: [
        bar("user", cpuMedians("user"), 1),
        bar("system", cpuMedians("sys"), 0.45),
      ] as NonNullable<Option["series"]>,
    };
  },
};

/** Returns the shown subjects that became ready in at least one start. */
function startedSubjects(report: Report, choice: Choice): SubjectResult[] {
  return report.subjects.filter(
    (s) => !choice.hidden.has(s.id) && s.startup_ms.ready.median !== null,
  );
}

/** Start-up times: a bar for the median of each subject, and a dot for each repeat. */
export const startup: Figure = {
  height: (report, choice) => barsHeight(startedSubjects(report, choice).length),
  option: (report, choice) => {
    const shown = startedSubjects(report, choice);
    const colour = (s: SubjectResult): string =>
      subjectColour(report.subjects.indexOf(s), s.control, choice.dark);
    const left = labelRoom(
      shown.map((s) => s.title),
      choice.isNarrow,
    );
    return {
      animation: false,
      aria: { enabled: true, label: { description: "Start-up time by subject" } },
      grid: { left, right: 40, top: 10, bottom: 40 },
      tooltip: { trigger: "item", renderMode: "richText", confine: true },
      xAxis: {
        type: "value",
        min: 0,
        axisLabel: { formatter: millis, hideOverlap: true },
        name: "time from exec until the server was ready",
        nameLocation: "middle",
        nameGap: 24,
      },
      yAxis: {
        type: "category",
        inverse: true,
        data: shown.map((s) => s.title),
        axisLabel: labelIn(left),
        splitLine: { show: false },
      },
      series: [
        {
          type: "bar",
          barMaxWidth: 22,
          data: shown.map((s) => ({
            value: s.startup_ms.ready.median ?? 0,
            itemStyle: { color: colour(s), opacity: 0.55 },
          })),
          tooltip: { valueFormatter: (v: unknown) => (typeof v === "number" ? millis(v) : "–") },
        },
        {
          type: "scatter",
          symbolSize: 7,
          data: shown.flatMap((s) =>
            s.startup_ms.ready.values.map((v) => ({
              value: [v, s.title],
              itemStyle: { color: colour(s) },
            })),
          ) as never,
          tooltip: {
            valueFormatter: (v: unknown) => (Array.isArray(v) ? millis(v[0] as number) : "–"),
          },
        },
      ],
    };
  },
};
