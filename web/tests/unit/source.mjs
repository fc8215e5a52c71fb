// A source of the viewer as a module that Node can run: its types are taken off, and it must not import anything itself.
import { readFile } from "node:fs/promises";
import ts from "typescript";

export async function source(name) {
  const text = await readFile(new URL(`../../src/${name}`, import.meta.url), "utf8");
  const { outputText } = ts.transpileModule(text, { compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 } });
  return import(`data:text/javascript,${encodeURIComponent(outputText)}`);
}
