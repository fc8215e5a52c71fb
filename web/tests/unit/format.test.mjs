// Numbers look as they do in crates/report/src/format.rs, whose tests hold the same table.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { source } from "./source.mjs";

const format = await source("format.ts");
const rows = JSON.parse(
  await readFile(new URL("../../../tests/data/numbers.json", import.meta.url), "utf8"),
);

const SHOWN = {
  number: (x) => format.number(Number(x)),
  micros: (x) => format.micros(Number(x)),
  millis: (x) => format.millis(Number(x)),
  bytes: (x) => format.bytes(Number(x)),
  memory_time: (x) => format.megabyteSeconds(Number(x)),
  percent: (x) => format.percent(Number(x)),
  beyond: ({ longest_wait, share }) => format.longerThanWait(longest_wait, Number(share)),
  step: (shape) => format.stepName(shape),
};

for (const [name, show] of Object.entries(SHOWN)) {
  test(`${name} shows what the report does`, () => {
    const own = rows.filter(([of]) => of === name);
    assert.ok(own.length > 0, `the table has nothing of ${name}`);
    for (const [, input, text] of own)
      assert.equal(show(input), text, `${name} of ${JSON.stringify(input)}`);
  });
}

test("every row of the table is of a function that is here", () => {
  assert.deepEqual([...new Set(rows.map(([of]) => of))].toSorted(), Object.keys(SHOWN).toSorted());
});

test("axes have short labels", () => {
  assert.deepEqual([0, 0.25, 999, 1500, 2_000_000].map(format.axisNumber), [
    "0",
    "0.25",
    "999",
    "1.5k",
    "2M",
  ]);
  assert.equal(format.axisSeconds(0.1 + 0.2), "0.3 s");
  assert.deepEqual([0, 0.9, 1 - 1 / 1000].map(format.axisPercentile), ["0 %", "90 %", "99.9 %"]);
});
