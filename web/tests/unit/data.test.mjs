// The data of a page: it is the whole report, and intervals are parsed when a trial is shown.
import assert from "node:assert/strict";
import { test } from "node:test";
import { goldenReport, goldenText } from "./golden.mjs";
import { source } from "./source.mjs";

globalThis.matchMedia = () => ({ matches: false });
const { parseReport, wholeReport } = await source("data.ts");
const { firstChoice } = await source("choice.ts");
const { FIGURES } = await source("figures.ts");

/** The texts of the two data elements of a golden page. */
async function dataOf(name) {
  const html = await goldenText(name, "html");
  return ["dyno-data", "dyno-intervals"].map(
    (id) => new RegExp(`id="${id}">(.*?)</script>`, "s").exec(html)[1],
  );
}

test("the parts of a page are the report in JSON", async () => {
  for (const name of ["clean", "hello", "http2"]) {
    const [report, intervals] = await dataOf(name);
    const whole = await goldenReport(name);
    assert.deepEqual(JSON.parse(wholeReport(report, intervals)), whole);
    const lazy = parseReport(report, () => intervals);
    assert.deepEqual(JSON.parse(JSON.stringify(lazy)), whole);
  }
});

test("no interval is parsed before a chart draws it", async () => {
  const [report, intervals] = await dataOf("clean");
  let isAllowed = false;
  const parsed = parseReport(report, () => {
    assert.ok(isAllowed, "the intervals are read");
    return intervals;
  });
  const choice = firstChoice(parsed, false);
  for (const [name, figure] of Object.entries(FIGURES))
    if (!["explorer", "over-time"].includes(name)) figure.option(parsed, choice);
  isAllowed = true;
  const parse = JSON.parse;
  const lines = [];
  JSON.parse = (text) => {
    lines.push(text);
    return parse(text);
  };
  try {
    FIGURES.explorer.option(parsed, choice);
    FIGURES.explorer.option(parsed, choice);
  } finally {
    JSON.parse = parse;
  }
  assert.equal(lines.length, 2, "one trial has one list of its load, and one of its server");
  const { load, server } = (await goldenReport("clean")).trials[choice.trial];
  assert.deepEqual(
    lines.map((text) => parse(text)),
    [load.intervals, server.intervals],
  );
});

test("intervals of back ends follow those of their trial", () => {
  const part = `{"intervals":[\n]}`;
  const trial = (backends) => `{"load":${part},"server":${part},"backends":[${backends}]}`;
  const report = `{"trials":[${trial(`{"server":${part}}`)},${trial("")}]}`;
  const { trials } = parseReport(report, () => "1\n2\n3,4\n\n5\n");
  assert.deepEqual(
    trials.map(({ load, server, backends }) => [
      load.intervals,
      server.intervals,
      ...backends.map((backend) => backend.server.intervals),
    ]),
    [
      [[1], [2], [3, 4]],
      [[], [5]],
    ],
  );
});
