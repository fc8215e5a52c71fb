import type { Report } from "./schema.ts";

/** Reads the data that stands in the page: what `dyno report --format json` writes. */
export function readReport(): Report | null {
  const element = document.getElementById("dyno-data");
  return element ? (JSON.parse(element.textContent) as Report) : null;
}
