// Makes src/schema.ts, the types of the report, from docs/schema/report.schema.json.
//   node types.mjs           writes it
//   node types.mjs --check   says whether it is as it would be written
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { compile } from "json-schema-to-typescript";

const SCHEMA = new URL("../docs/schema/report.schema.json", import.meta.url);
const TYPES = new URL("src/schema.ts", import.meta.url);

/**
 * The first line of the types. crates/report/tests/all/viewer.rs knows by it, without Node, whether
 * they are fresh.
 */
function stamp(schema) {
  const hash = createHash("sha256").update(schema).digest("hex");
  return `// Made by types.mjs from docs/schema/report.schema.json ${hash}`;
}

/** What json-schema-to-typescript does not know of JSON Schema 2020-12, in words that it does. */
function inOlderWords(node) {
  if (Array.isArray(node)) return node.map(inOlderWords);
  if (node === null || typeof node !== "object") return node;
  const { $ref, prefixItems, ...rest } = Object.fromEntries(
    Object.entries(node).map(([k, v]) => [k, inOlderWords(v)]),
  );
  if (prefixItems) return { ...rest, items: prefixItems };
  if (!$ref) return rest;
  // Directly beside a description, the type would be made once more, under another name. A default
  // is for who reads archives.
  return rest.description ? { description: rest.description, allOf: [{ $ref }] } : { $ref };
}

async function types() {
  const schema = readFileSync(SCHEMA, "utf8");
  const options = {
    additionalProperties: false,
    bannerComment: stamp(schema),
    style: { printWidth: 128 },
  };
  return compile(inOlderWords(JSON.parse(schema)), "Report", options);
}

const fresh = await types();
if (!process.argv.includes("--check")) {
  writeFileSync(TYPES, fresh);
} else if (readFileSync(TYPES, "utf8") !== fresh) {
  console.error("src/schema.ts is stale: run `npm run build` in web/ and commit what it makes");
  process.exitCode = 1;
}
