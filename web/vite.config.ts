import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";

const here = dirname(fileURLToPath(import.meta.url));
const outDir = resolve(here, "../crates/report/viewer");

// What the bundle is made from. crates/report/tests/all/viewer.rs takes the same hash, so that
// cargo test knows without Node whether the committed bundle is fresh.
const SOURCES = [
  ...readdirSync(resolve(here, "src"))
    .sort()
    .map((name) => `src/${name}`),
  "package.json",
  "package-lock.json",
  "tsconfig.json",
  "vite.config.ts",
];

function sourcesHash(): string {
  const hash = createHash("sha256");
  for (const name of SOURCES)
    hash
      .update(name)
      .update("\0")
      .update(readFileSync(resolve(here, name)))
      .update("\0");
  return hash.digest("hex");
}

// The bundle is embedded in an inline <script>, the css in an inline <style>:
// refuse, before anything is written, a build that could close the element or
// open an html comment, or that asks for a second file.
function inlineSafe(): Plugin {
  return {
    name: "dyno-inline-safe",
    generateBundle: {
      order: "post",
      handler(_options, bundle) {
        const names = Object.keys(bundle).sort().join();
        if (names !== "viewer.css,viewer.js") this.error(`unexpected outputs: ${names}`);
        for (const out of Object.values(bundle)) {
          if (out.type === "chunk") out.code = `/* sources ${sourcesHash()} */\n${out.code}`;
          const text = out.type === "chunk" ? out.code : String(out.source);
          const bad =
            out.type === "chunk"
              ? /<\/?script|<!--|-->|sourceMappingURL|\bimport\s*\(|\bimport\.meta\b/i.exec(text)
              : /<\/?style|<!--|-->|url\(|@import|sourceMappingURL/i.exec(text);
          if (bad) this.error(`${out.fileName} is not safe inline: ${bad[0]}`);
        }
      },
    },
  };
}

export default defineConfig({
  root: here,
  publicDir: false,
  define: { "process.env.NODE_ENV": JSON.stringify("production") },
  plugins: [inlineSafe()],
  build: {
    outDir,
    emptyOutDir: false,
    target: "es2022",
    sourcemap: false,
    minify: true,
    cssMinify: true,
    reportCompressedSize: false,
    lib: {
      entry: resolve(here, "src/main.ts"),
      formats: ["iife"],
      name: "dynoViewer",
      fileName: () => "viewer.js",
      cssFileName: "viewer",
    },
  },
});
