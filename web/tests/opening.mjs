// How long a report takes to open, in a fresh browser each time: until its document is loaded, and
// until the charts in sight are drawn. Prints milliseconds since navigation began, one line of JSON
// per round. Nothing is asserted: benches/opening calls this.
//   node tests/opening.mjs REPORT.html [ROUNDS]
import { argv, exit } from "node:process";
import { launch } from "./browser.mjs";

const [file, rounds = "5"] = argv.slice(2);
if (!file) {
  console.error("node tests/opening.mjs REPORT.html [ROUNDS]");
  exit(2);
}

/**
 * Read when the viewer is there and each chart in sight is drawn: the first frame in which a reader
 * sees a whole screen.
 */
const whenDrawn = () => {
  const isInSight = (plot) => {
    const { top, bottom } = plot.getBoundingClientRect();
    return bottom > 0 && top < window.innerHeight;
  };
  const inSight = [...document.querySelectorAll("figure .plot")].filter(isInSight);
  const isDrawn =
    document.querySelector("header .theme") &&
    inSight.every((plot) => plot.matches("[data-drawn]"));
  return isDrawn ? window.performance.now() : null;
};

for (let round = 0; round < Number(rounds); round += 1) {
  const browser = await launch();
  try {
    const { page, problems } = await browser.open(file, { ready: null });
    const drawn = await (await page.waitForFunction(whenDrawn)).jsonValue();
    const loaded = await page.evaluate(
      () => window.performance.getEntriesByType("navigation")[0].loadEventEnd,
    );
    if (problems.length > 0) throw new Error(problems.join("\n"));
    console.log(JSON.stringify({ loaded_ms: Math.round(loaded), drawn_ms: Math.round(drawn) }));
  } finally {
    await browser.close();
  }
}
