// The overview where there are several workloads: its rows follow the switch, and its bars compare the rows of one workload.
import { workloadsOf } from "./choice.ts";
import type { OverviewRow, Report } from "./schema.ts";
import { scaleBars } from "./table.ts";

/** Names the workloads of each row as other tables do, and scales the bars within each workload. */
export function splitOverview(report: Report): void {
  const rows = [...document.querySelectorAll<HTMLTableRowElement>("table.overview tbody tr")];
  rows.forEach((row, index) => {
    const of = report.overview[index];
    if (of) row.dataset["workload"] = workloadsOfRow(report, of).join(" ");
  });
  for (const { name } of report.run.workloads) scaleBars(rows.filter((_, index) => report.overview[index]?.workload === name));
  document.querySelector("#overview .note")?.append(" Bars are scaled within each workload.");
}

/**
 * The workloads with which a row is shown, by their indices: its own. What has no numbers under any choice, because the subject or
 * the whole workload has none, is shown under every one.
 */
export function workloadsOfRow(report: Report, row: OverviewRow): number[] {
  const hasNumbers = report.summaries.some((s) => s.subject === row.subject);
  if (hasNumbers && workloadsOf(report).includes(row.workload)) return [row.reference_cell.workload];
  return report.run.workloads.map((_, index) => index);
}
