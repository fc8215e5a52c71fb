// Reads the data of the report from the page.
import type { Report } from "./schema.ts";

/** Returns the text of an element; empty: there is no such element. */
function textOf(id: string): string {
  return document.getElementById(id)?.textContent ?? "";
}

/**
 * Returns the whole report as JSON. `report`: the report with a line feed in place of the intervals
 * of each list. `intervals`: the omitted intervals, a line for each list.
 */
export function wholeReport(report: string, intervals: string): string {
  const lines = intervals.split("\n");
  const [first, ...others] = report.split("\n");
  return [first, ...others.map((part, i) => `${lines[i] ?? ""}${part}`)].join("");
}

/** Returns the data in the page: the output of `dyno report --format json`. */
export function reportData(): string {
  return wholeReport(textOf("dyno-data"), textOf("dyno-intervals"));
}

/**
 * Parses a report. Intervals are most of the data of a large report, so those of a trial are parsed
 * when a chart first draws them. `intervals`: returns the text of all intervals.
 */
export function parseReport(report: string, intervals: () => string): Report {
  const parsed = JSON.parse(report) as Report;
  // No list was emptied, so the report is whole.
  if (!report.includes("\n")) return parsed;
  let lines: string[] | null = null;
  const parseLine = (index: number): unknown => {
    lines ??= intervals().split("\n");
    return JSON.parse(`[${lines[index] ?? ""}]`);
  };
  // The order is that of the keys in the JSON of a trial.
  const holders = parsed.trials.flatMap(({ load, server, backends }) => [
    load,
    server,
    ...backends.map((backend) => backend.server),
  ]);
  holders.forEach((holder, index) => {
    defineLazily(holder, "intervals", () => parseLine(index));
  });
  return parsed;
}

/** Defines a property whose value is computed when it is first read. */
function defineLazily(holder: object, name: string, compute: () => unknown): void {
  Object.defineProperty(holder, name, {
    configurable: true,
    enumerable: true,
    get: () => {
      const value = compute();
      Object.defineProperty(holder, name, { value, enumerable: true });
      return value;
    },
  });
}

/** Returns the report of the page; null: the page has no data. */
export function readReport(): Report | null {
  const data = textOf("dyno-data");
  return data === "" ? null : parseReport(data, () => textOf("dyno-intervals"));
}
