// What the page says of one workload: the cards' reasons, and the rows of the overview.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { source } from "./source.mjs";

const { reasonOf } = await source("why.ts");
const { workloadsOfRow } = await source("overview.ts");

const read = (name, file) => readFile(new URL(`../../../tests/golden/${name}/${file}`, import.meta.url), "utf8");
const golden = async (name) => JSON.parse(await read(name, "report.json"));
const http2 = await golden("http2");
const changed = (report, change) => {
  const copy = JSON.parse(JSON.stringify(report));
  change(copy);
  return copy;
};

const ENTITIES = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"' };
const texts = (html, pattern) => [...html.matchAll(pattern)].map(([, text]) => text.replace(/&\w+;/g, (e) => ENTITIES[e] ?? e));

/** The cards of a page as they stand in it without a viewer, by the index of their subjects. */
function cardsOf(html) {
  const cards = [...html.matchAll(/<article class="card">.*?data-subject="(\d+)".*?<p>.*?<\/article>/gs)];
  return cards.map(([card, subject]) => ({
    subject: Number(subject),
    sentence: texts(card, /<p>(.*?)<\/p>/g)[0],
    head: texts(card, /<th\b[^>]*>([^<]*)<\/th>/g),
    rows: [...card.matchAll(/<tr><td>.*?<\/tr>/g)].map(([row]) => texts(row, /<td[^>]*>(.*?)<\/td>/g)),
  }));
}

for (const name of ["clean", "failing", "hello", "http2", "mix", "overload", "pages"]) {
  test(`the reason that a card of ${name} came with is the one of its workload`, async () => {
    const report = await golden(name);
    const cards = cardsOf(await read(name, "report.html"));
    assert.ok(cards.length > 0);
    const names = report.run.workloads.map((w) => w.name);
    for (const { subject, ...card } of cards) {
      const reasons = names.map((workload) => reasonOf(report, report.subjects[subject].id, workload));
      // A page of one workload does not name it.
      const alone = names.length === 1 && { ...reasons[0], sentence: reasons[0].sentence.replace(` of ${names[0]}: `, ": ") };
      assert.deepEqual(alone || reasons.find((reason) => reason?.sentence === card.sentence), card);
    }
  });
}

test("a reason is of the busiest step of its workload, and there is none without a step of it", () => {
  assert.match(reasonOf(http2, "both", "h1").sentence, /^At 64 connections of h1: /);
  assert.match(reasonOf(http2, "both", "h2").sentence, /^At 8 connections × 8 streams of h2: /);
  assert.equal(reasonOf(http2, "old", "h2"), null);
  const slower = changed(http2, (report) => {
    report.summaries.filter((s) => s.connections === 64).forEach((s) => { s.throughput_rps.median = null; });
  });
  assert.match(reasonOf(slower, "both", "h1").sentence, /^At 16 connections of h1: /);
});

test("counters stand beside those of the reference at the same step of the same workload", () => {
  const report = changed(http2, ({ overview, summaries, comparisons }) => {
    // The row of the other workload comes first.
    overview.reverse().forEach((row) => { row.baseline = row.subject === "both"; });
    const there = summaries.find((s) => s.subject === "both" && s.workload === "h1" && s.connections === 64);
    there.metrics.bytes_in_per_response.median = 1234;
    const pairs = comparisons.find((c) => c.workload === "h1" && c.connections === 64);
    pairs.metrics.bytes_in_per_response.median = 0.5;
  });
  const { head, rows } = reasonOf(report, "old", "h1");
  assert.deepEqual(head, ["Per response", "Here", "Both · h1", "Ratio of pairs"]);
  assert.deepEqual(rows.find(([counter]) => counter === "bytes received"), ["bytes received", "78.0 B", "1.23 kB", "× 0.500"]);
  assert.deepEqual(reasonOf(report, "both", "h2").head, ["Per response", "Here"], "nobody is beside itself");
});

test("a row of the overview is of its workload", () => {
  assert.deepEqual(http2.overview.map((row) => workloadsOfRow(http2, row)), [[0], [0], [1]]);
});

test("a row that no choice would show is of every workload", () => {
  const without = (key, value) => changed(http2, (report) => {
    for (const list of ["summaries", "trials"]) report[list] = report[list].filter((of) => (of[key] ?? of.subject_id) !== value);
  });
  const skipped = without("subject", "old");
  assert.deepEqual(skipped.overview.map((row) => workloadsOfRow(skipped, row)), [[0], [0, 1], [1]]);
  const lost = without("workload", "h2");
  assert.deepEqual(lost.overview.map((row) => workloadsOfRow(lost, row)), [[0], [0], [0, 1]]);
});
