// Reports of the golden runs, which dyno's golden tests write before `npm run unit` runs these.
import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

const { target_directory: target } = JSON.parse(
  execFileSync("cargo", ["metadata", "--locked", "--no-deps", "--format-version=1"]),
);

/** A golden run's report in one form: `html` (without a viewer), `json`. */
export const goldenText = (name, form) =>
  readFile(join(target, "tmp", "golden", name, `report.${form}`), "utf8");

export const goldenReport = async (name) => JSON.parse(await goldenText(name, "json"));
