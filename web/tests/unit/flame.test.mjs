// Where calls stand in a flame graph, and what is found in it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./source.mjs";

globalThis.document = {};
const { callsOf, matcher } = await source("flame.ts");
const { boxOf, heightOf, neighbour, placeCalls, rectOf, ROW, samplesFound, visible } =
  await source("icicle.ts");

const functions = ["work", "main", "a", "write", "b"].map((name) => ({
  name,
  module: null,
  kind: name === "write" ? "kernel" : "native",
}));
const flame = {
  samples: 100,
  functions,
  nodes: [
    [0, 0, 0, 100],
    [1, 1, 0, 90],
    [2, 2, 0, 60],
    [2, 3, 0, 10],
    [3, 3, 10, 50],
    [4, 2, 60, 30],
  ],
};
const calls = callsOf(flame);
const [work, main, a, inner, write, b] = calls;

test("calls are those of the report, by name and kind", () => {
  assert.deepEqual(calls.map((c) => [c.name, c.kind, c.depth, c.start, c.samples])[4], [
    "write",
    "kernel",
    3,
    10,
    50,
  ]);
});

test("the whole is as wide as the page, and so is an opened call with its callers", () => {
  const whole = placeCalls(calls, 100, null);
  assert.deepEqual(whole.map(({ left, width }) => [left, width])[4], [0.1, 0.5]);
  const open = placeCalls(calls, 100, a);
  assert.deepEqual(
    open.map(({ call }) => call),
    [work, main, a, inner, write],
    "what lies beside it is not seen",
  );
  assert.deepEqual(open.map(({ left, width }) => [left, width])[1], [0, 1]);
  assert.deepEqual(open.map(({ left, width }) => [left, width])[4], [10 / 60, 50 / 60]);
});

test("what is too narrow to be seen is not drawn, and what is narrow has no name", () => {
  const whole = placeCalls(calls, 100, null);
  assert.equal(visible(whole, 4).length, 5);
  assert.equal(heightOf(whole), 4 * ROW);
  assert.deepEqual(boxOf(whole[3], 200), {
    left: "0%",
    width: "calc(10% - 1px)",
    top: `${3 * ROW}px`,
    hasText: false,
  });
  assert.equal(boxOf(whole[4], 200).hasText, true);
  assert.equal(rectOf(whole[3], 100).letters, 0);
  assert.equal(rectOf(whole[0], 100).letters, 14);
});

test("a search finds parts of names, or by an expression, and counts nested calls once", () => {
  assert.equal(samplesFound(calls, matcher("A")), 90, "main holds a");
  assert.equal(samplesFound(calls, matcher("/^a$/")), 60);
  assert.equal(samplesFound(calls, matcher("/^(a|b)$/")), 90);
  assert.equal(samplesFound(calls, matcher("nothing")), 0);
  assert.equal(matcher(""), null);
  assert.equal(matcher("/(/"), null, "no expression yet: somebody is still writing it");
});

test("arrow keys lead to callers, callees and what lies beside", () => {
  const to = (from, key) => neighbour(calls, from, key);
  assert.deepEqual(
    [to(a, "ArrowUp"), to(a, "ArrowDown"), to(inner, "ArrowRight"), to(b, "ArrowLeft")],
    [main, inner, write, a],
  );
  assert.deepEqual(
    [to(work, "ArrowUp"), to(write, "ArrowDown"), to(b, "ArrowRight"), to(a, "x")],
    [undefined, undefined, undefined, undefined],
  );
});
