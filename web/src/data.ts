import type { Report } from "./schema.ts";

/** The data that stands in the page: what `dyno report --format json` writes. */
export function reportData(): string {
  return document.getElementById("dyno-data")?.textContent ?? "";
}

/** The same, read; null: the page has none. */
export function readReport(): Report | null {
  const data = reportData();
  return data === "" ? null : (JSON.parse(data) as Report);
}
