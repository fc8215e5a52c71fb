// Charts of bars: what requests cost at the reference step, and how long starts took.
import { type Choice, shownWorkloads } from "./choice.ts";
import type { Option } from "./echarts.ts";
import type { Figure } from "./figure.ts";
import { micros, millis } from "./format.ts";
import { barsHeight, labelRoom } from "./layout.ts";
import type { OverviewRow, Report, SubjectResult } from "./schema.ts";
import { subjectColour } from "./theme.ts";

/** Rows of the overview that are of the workloads to draw; all of a report that has none. */
function shownRows(report: Report, choice: Choice): OverviewRow[] {
  const shown = shownWorkloads(report, choice);
  return shown.length === 0 ? report.overview : report.overview.filter((r) => shown.includes(r.workload));
}

/** User and system CPU per request at the reference step of each workload: a bar per row of the overview. */
export const split: Figure = {
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

function started(report: Report, choice: Choice): SubjectResult[] {
  return report.subjects.filter((s) => !choice.hidden.has(s.id) && s.startup_ms.first_answer.median !== null);
}

export const startup: Figure = {
  height: (report, choice) => barsHeight(started(report, choice).length),
  option: (report, choice) => {
    const shown = started(report, choice);
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
