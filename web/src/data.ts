// Reads the data of the report from the page.
import type { Report } from "./schema.ts";

/** Returns the data in the page: the output of `dyno report --format json`. */
export function reportData(): string {
  return document.getElementById("dyno-data")?.textContent ?? "";
}

/** Returns the parsed report; null: the page has no data. */
export function readReport(): Report | null {
  const data = reportData();
  return data === "" ? null : (JSON.parse(data) as Report);
}
