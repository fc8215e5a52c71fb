// node tests/shot.mjs PAGE OUT_PREFIX [READY_SELECTOR]
import { launch } from "./browser.mjs";

const [file, prefix, ready = "header .theme"] = process.argv.slice(2);
if (!file || !prefix) {
  console.error("usage: node tests/shot.mjs PAGE OUT_PREFIX [READY_SELECTOR]");
  process.exit(2);
}
const b = await launch();
let failed = false;
try {
  for (const [width, height] of [
    [1280, 800],
    [1920, 1080],
  ]) {
    for (const scheme of ["light", "dark"]) {
      const t = await b.open(file, { width, height, scheme, ready });
      const out = `${prefix}-${width}x${height}-${scheme}.png`;
      await t.screenshot(out);
      console.log(out);
      if (width === 1280 && scheme === "light") {
        await t.pdf(`${prefix}.pdf`);
        console.log(`${prefix}.pdf`);
      }
      for (const p of t.problems) {
        failed = true;
        console.error(p);
      }
      await t.page.close();
    }
  }
} finally {
  await b.close();
}
process.exitCode = failed ? 1 : 0;
