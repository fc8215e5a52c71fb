// What is drawn of several workloads, of one of them, and of a report that has but one.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { source } from "./source.mjs";

// The theme asks it once, and nothing here depends on the answer.
globalThis.matchMedia = () => ({ matches: false });
const { chosen, firstChoice, shownWorkloads } = await source("choice.ts");
const { FIGURES } = await source("figures.ts");

const golden = async (name) => JSON.parse(await readFile(new URL(`../../../tests/golden/${name}/report.json`, import.meta.url), "utf8"));
const http2 = await golden("http2");
const clean = await golden("clean");

/** A chart after this choice of a workload. */
function drawn(report, chart, workload, more = {}) {
  const choice = { ...firstChoice(report, false), ...chosen(report, workload), ...more };
  return { ...FIGURES[chart].option(report, choice), height: FIGURES[chart].height?.(report, choice) };
}

const OVER_STEPS = ["throughput", "errors", "response", "cpu", "memory"];

test("a page begins with the first workload, its reference step and its first trial", () => {
  const choice = firstChoice(http2, false);
  assert.equal(choice.workload, "h1");
  assert.deepEqual(shownWorkloads(http2, choice), ["h1"]);
  for (const workload of ["h1", "h2"]) {
    const { at, trial } = chosen(http2, workload);
    assert.equal(at.workload, workload);
    assert.equal(at.step, http2.overview.find((row) => row.workload === workload).reference_step);
    assert.equal(http2.trials[trial].workload, workload);
  }
});

test("a workload has one pair of axes, and all of them have one each with the same x", () => {
  for (const chart of OVER_STEPS) {
    for (const workload of ["h1", "h2"]) {
      const { grid, yAxis, series } = drawn(http2, chart, workload);
      assert.equal(grid.length, 1);
      assert.ok(yAxis[0].name.startsWith(`${workload} · `), yAxis[0].name);
      assert.ok(series.every((s) => s.xAxisIndex === 0 && s.yAxisIndex === 0));
    }
    const { grid, xAxis, yAxis, series, height } = drawn(http2, chart, null);
    assert.deepEqual(yAxis.map((axis) => axis.name.split(" · ")[0]), ["h1", "h2"]);
    assert.deepEqual([grid.length, xAxis.length], [2, 2]);
    assert.deepEqual([xAxis[0].min, xAxis[0].max], [xAxis[1].min, xAxis[1].max]);
    assert.deepEqual([...new Set(series.map((s) => s.yAxisIndex))], [0, 1]);
    assert.ok(height > grid[1].top + grid[1].height);
  }
});

test("all workloads together show every trial once, in the panel of its workload", () => {
  const dots = (option, panel) => option.series.filter((s) => s.type === "scatter" && s.yAxisIndex === panel).flatMap((s) => s.data);
  const all = drawn(http2, "throughput", null);
  assert.deepEqual(dots(all, 0), dots(drawn(http2, "throughput", "h1"), 0));
  assert.deepEqual(dots(all, 1), dots(drawn(http2, "throughput", "h2"), 0));
  assert.equal(dots(all, 0).length + dots(all, 1).length, http2.trials.length);
});

test("bars are of the rows of a workload, and the spectrum says which step of which it is", () => {
  const names = (workload) => drawn(http2, "split", workload).yAxis.data;
  assert.deepEqual([...names("h1"), ...names("h2")].toSorted(), names(null).toSorted());
  assert.match(drawn(http2, "spectrum", "h2").yAxis.name, /^h2, .* · response time$/);
});

test("where there is one workload, none is named", () => {
  assert.equal(drawn(clean, "throughput", "plaintext").yAxis[0].name, "requests/s");
  assert.equal(drawn(clean, "throughput", "plaintext").height, null);
  assert.equal(drawn(clean, "spectrum", "plaintext").yAxis.name, "response time");
});

/** The report with a control that serves so many times what it did. */
function withControl(times) {
  const report = JSON.parse(JSON.stringify(clean));
  const control = report.subjects[0];
  control.control = true;
  const of = (q) => { for (const key of ["median", "min", "max"]) q[key] = q[key] === null ? null : q[key] * times; };
  for (const s of report.summaries.filter((s) => s.subject === control.id)) {
    of(s.throughput_rps);
    s.throughput_rps.interval = null;
  }
  for (const t of report.trials.filter((t) => t.subject_id === control.id)) t.load.throughput_rps *= times;
  return { report, control, trials: report.trials.filter((t) => t.subject_id === control.id) };
}

test("a control far above the others is cut, with an arrow for each trial and its value in words", () => {
  const { report, control, trials } = withControl(1000);
  const { yAxis, series } = drawn(report, "throughput", "plaintext");
  const end = yAxis[0].max;
  const others = report.trials.filter((t) => t.subject_id !== control.id).map((t) => t.load.throughput_rps);
  assert.ok(end > Math.max(...others) && end < 2 * Math.max(...others));
  const dots = series.find((s) => s.type === "scatter" && s.name === control.id).data;
  assert.equal(dots.filter((d) => d.value[1] === end && d.note.includes("above the end of this axis")).length, trials.length);
  const line = series.find((s) => s.type === "line" && s.name === control.id);
  assert.equal(line.endLabel.show, false);
  const labels = series.at(-1).data.map((d) => d.label.formatter);
  assert.equal(labels.filter((text) => text.startsWith(control.title)).length, 1);
  assert.ok(labels.every((text) => /\d/.test(text)));
});

test("a control is whole on a logarithmic axis, beside nobody, and where it is not far above", () => {
  const far = withControl(1000);
  const others = new Set(far.report.subjects.filter((s) => s !== far.control).map((s) => s.id));
  for (const { yAxis } of [
    drawn(far.report, "throughput", "plaintext", { logY: true }),
    drawn(far.report, "throughput", "plaintext", { hidden: others }),
    drawn(withControl(0.001).report, "throughput", "plaintext"),
  ]) assert.equal(yAxis[0].max, undefined);
});
