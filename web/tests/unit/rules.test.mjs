// The viewer computes nothing of what was measured: eslint.config.js holds it to that, and this
// holds eslint.config.js.
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { ESLint } from "eslint";

const web = fileURLToPath(new URL("../..", import.meta.url));
const RULES = new Set(["no-restricted-syntax", "no-restricted-imports"]);
// The others have nothing to say here, and take their time.
const eslint = new ESLint({ cwd: web, ruleFilter: ({ ruleId }) => RULES.has(ruleId) });

/** What our own rules say of a text, if it stood in a file of the viewer. */
async function complaints(text, file) {
  const [{ messages }] = await eslint.lintText(text, { filePath: `${web}src/${file}` });
  assert.deepEqual(
    messages.filter((m) => m.fatal),
    [],
  );
  return messages.map((m) => m.ruleId).filter((rule) => RULES.has(rule));
}

test("no way to compute is open to what knows the report", async () => {
  for (const expression of [
    "/* eslint-disable-line */ a + b",
    "a + b",
    "a - b",
    "a * b",
    "a / b",
    "a % b",
    "a ** b",
    "a >> 1",
    "a | 0",
    "(a += b)",
    "(a /= b)",
    "a++",
    "Math.max(a, b)",
    "[a, b].reduce((x) => x)",
    "[a, b].reduceRight((x) => x)",
  ]) {
    const head = "export function f(a: number, b: number): number";
    const text = `${head} { return b > 0 ? ${expression} : b; }\n`;
    assert.ok((await complaints(text, "figures.ts")).includes("no-restricted-syntax"), expression);
  }
});

test("to pick, to compare and to show is open to it", async () => {
  const head = "export const f = (a: number, b: number | null): string =>";
  const text = `${head} (a > 0 && b === null ? \`\${a} s\` : String(b ?? -1));\n`;
  assert.deepEqual(await complaints(text, "figures.ts"), []);
});

test("these files compute, and no other", async () => {
  const names = (await readdir(`${web}src`)).filter(
    (name) => name.endsWith(".ts") && !name.endsWith(".d.ts"),
  );
  const computing = [];
  for (const name of names) {
    if (
      (await complaints("export const half = (a: number): number => a / 2;\n", name)).length === 0
    )
      computing.push(name);
  }
  assert.deepEqual(computing.toSorted(), [
    "cost.ts",
    "format.ts",
    "icicle.ts",
    "layout.ts",
    "theme.ts",
  ]);
});

test("what computes cannot reach the report", async () => {
  for (const file of ["cost.ts", "format.ts", "icicle.ts", "layout.ts", "theme.ts"]) {
    for (const from of ["schema.ts", "data.ts", "figures.ts"]) {
      const use = "export const runs = (report: Report): string => report.run.id;";
      const text = `import type { Report } from "./${from}";\n${use}\n`;
      assert.deepEqual(
        await complaints(text, file),
        ["no-restricted-imports"],
        `${file} from ${from}`,
      );
    }
  }
});
