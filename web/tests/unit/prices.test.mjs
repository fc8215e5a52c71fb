// What a billion requests cost at the reader's prices.
import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./source.mjs";

const { costOf } = await source("cost.ts");

test("hours are paid for at their prices, and longer where CPUs are used in part", () => {
  const close = (a, b) => {
    assert.ok(Math.abs(a - b) < 1e-12, `${String(a)} ${String(b)}`);
  };
  close(costOf(27.8, 13.9, { cpu: 0.04, gib: 0.005, utilisation: 1 }), 27.8 * 0.04 + 13.9 * 0.005);
  close(costOf(27.8, 0, { cpu: 0.04, gib: 0, utilisation: 0.5 }), 27.8 * 0.08);
});

test("memory that is not known has no cost, unless memory is free", () => {
  assert.equal(costOf(1, null, { cpu: 1, gib: 0.1, utilisation: 1 }), null);
  assert.equal(costOf(1, null, { cpu: 1, gib: 0, utilisation: 1 }), 1);
});

test("what is no price gives no cost", () => {
  for (const prices of [
    { cpu: Number.NaN, gib: 0, utilisation: 1 },
    { cpu: 1, gib: -1, utilisation: 1 },
    { cpu: 1, gib: 0, utilisation: 0 },
    { cpu: 1, gib: 0, utilisation: 1.1 },
  ]) {
    assert.equal(costOf(1, 1, prices), null);
  }
});
