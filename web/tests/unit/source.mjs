// A source of the viewer as a module that Node can run: its types are taken off, and what it
// imports is made the same way.
import { readFile } from "node:fs/promises";
import ts from "typescript";

const made = new Map();

export async function source(name) {
  return import(await urlOf(name));
}

/** One module for each file, however many import it. */
function urlOf(name) {
  if (!made.has(name)) made.set(name, make(name));
  return made.get(name);
}

async function make(name) {
  const text = await readFile(new URL(`../../src/${name}`, import.meta.url), "utf8");
  let { outputText } = ts.transpileModule(text, {
    compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 },
  });
  for (const [whole, imported] of outputText.matchAll(/from "\.\/([^"]+)"/g)) {
    outputText = outputText.replace(whole, `from ${JSON.stringify(await urlOf(imported))}`);
  }
  return `data:text/javascript,${encodeURIComponent(outputText)}`;
}
