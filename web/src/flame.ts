// Draws flame graphs: a tree of calls, callers above callees, each as wide as its share of samples.
import { button, download } from "./button.ts";
import { micros, number, percent } from "./format.ts";
import {
  boxOf,
  type Call,
  heightOf,
  neighbour,
  proportionalAmount,
  type PlacedCall,
  placeCalls,
  rectOf,
  samplesFound,
  share,
  visible,
} from "./icicle.ts";
import type { Flame, Report } from "./schema.ts";

/** Returns the calls of a flame graph with the names of their functions. */
export function callsOf(flame: Flame): Call[] {
  return flame.nodes.map(([functionIndex, depth, start, samples], index) => {
    const { name = "", kind = "native", module = null } = flame.functions[functionIndex] ?? {};
    return { index, name, kind, module, depth, start, samples };
  });
}

/**
 * Returns a test of names for a search text: a part of the name in any case, or a regular
 * expression between slashes. null: the text is empty, or its regular expression is not valid.
 */
export function matcher(text: string): ((name: string) => boolean) | null {
  const expression = /^\/(.+)\/$/.exec(text);
  if (expression?.[1]) {
    try {
      const pattern = new RegExp(expression[1]);
      return (name) => pattern.test(name);
    } catch {
      return null;
    }
  }
  const pattern = text.toLowerCase();
  return pattern === "" ? null : (name) => name.toLowerCase().includes(pattern);
}

/** A flame graph with its search, zoom and keyboard control. */
class FlameGraph {
  private readonly calls: Call[];
  private focusedCall: Call | null = null;
  private isFound: ((name: string) => boolean) | null = null;
  private readonly foundNote = document.createElement("span");
  private readonly description = document.createElement("p");

  constructor(
    private readonly flame: Flame,
    private readonly plot: HTMLElement,
    tools: HTMLElement,
    private readonly file: string,
  ) {
    this.calls = callsOf(flame);
    this.description.className = "seen";
    this.description.setAttribute("aria-live", "polite");
    plot.after(this.description);
    this.addTools(tools);
    plot.addEventListener("click", (event) => {
      this.open(this.callOf(event.target));
    });
    plot.addEventListener("mouseover", (event) => {
      this.describe(this.callOf(event.target));
    });
    plot.addEventListener("focusin", (event) => {
      this.describe(this.callOf(event.target));
    });
    plot.addEventListener("keydown", (event) => {
      this.handleKey(event);
    });
    // A closed part of the page has no width until it is opened.
    new ResizeObserver(() => {
      this.draw();
    }).observe(plot);
  }

  private addTools(tools: HTMLElement): void {
    const search = document.createElement("input");
    search.type = "search";
    search.placeholder = "Search functions";
    search.setAttribute("aria-label", "Search functions");
    search.addEventListener("input", () => {
      this.isFound = matcher(search.value);
      this.draw();
    });
    this.foundNote.className = "note";
    tools.append(
      this.foundNote,
      search,
      button("Show all", () => {
        this.open(null);
      }),
      button("Save SVG", () => {
        this.save();
      }),
    );
  }

  /** Returns the call that an element draws; null: the element draws none. */
  private callOf(target: EventTarget | null): Call | null {
    const index =
      target instanceof HTMLElement && this.plot.contains(target)
        ? target.dataset["call"]
        : undefined;
    return index === undefined ? null : (this.calls[Number(index)] ?? null);
  }

  /** Gives a call the whole width, or shows all calls. */
  private open(call: Call | null): void {
    this.focusedCall = call;
    this.draw();
    if (call) this.focus(call);
  }

  private focus(call: Call): void {
    this.plot
      .querySelector<HTMLElement>(`[data-call="${call.index}"]`)
      ?.focus({ preventScroll: true });
  }

  private handleKey(event: KeyboardEvent): void {
    if (event.key === "Escape") {
      this.open(null);
      return;
    }
    const from = this.callOf(event.target);
    const to =
      from &&
      neighbour(
        this.visibleCalls().map(({ call }) => call),
        from,
        event.key,
      );
    if (!to) return;
    event.preventDefault();
    this.plot.querySelector<HTMLElement>(`[data-call="${to.index}"]`)?.focus();
  }

  /** Returns the calls that are wide enough to be drawn. */
  private visibleCalls(): PlacedCall[] {
    const wide = this.plot.clientWidth;
    return visible(placeCalls(this.calls, this.flame.samples, this.focusedCall), wide);
  }

  /** Describes a call: name, origin, share of samples and time per response. */
  private callText({ name, module, kind, samples }: Call): string {
    const { us_per_request: us, samples: samplesOfAll } = this.flame;
    const perResponse =
      us === null ? "" : `, ${micros(proportionalAmount(us, samples, samplesOfAll))} per response`;
    const origin = module ?? { kernel: "kernel", jit: "compiled just in time" }[kind];
    const originText = origin === undefined ? "" : ` (${origin})`;
    const shareText = percent(share(samples, samplesOfAll));
    return `${name}${originText}: ${shareText}, ${number(samples)} samples${perResponse}`;
  }

  private describe(call: Call | null): void {
    this.description.textContent = call ? this.callText(call) : "";
  }

  private draw(): void {
    const wide = this.plot.clientWidth;
    if (wide === 0) return;
    const visibleCalls = this.visibleCalls();
    this.plot.style.height = `${heightOf(visibleCalls)}px`;
    const focused = this.callOf(document.activeElement);
    this.plot.replaceChildren(...visibleCalls.map((placedCall) => this.box(placedCall, wide)));
    if (focused) this.focus(focused);
    this.plot.dataset["drawn"] = "1";
    const foundShare = this.isFound
      ? share(samplesFound(this.calls, this.isFound), this.flame.samples)
      : null;
    this.foundNote.textContent =
      foundShare === null ? "" : `matches: ${percent(foundShare)} of samples`;
  }

  private box(placedCall: PlacedCall, wide: number): HTMLElement {
    const { call } = placedCall;
    const { hasText, ...style } = boxOf(placedCall, wide);
    const box = document.createElement("button");
    box.type = "button";
    box.className = this.flame.levels ? `level${this.flame.levels[call.index] ?? 0}` : call.kind;
    box.dataset["call"] = String(call.index);
    box.tabIndex = call.depth === 0 ? 0 : -1;
    box.setAttribute("aria-label", this.callText(call));
    if (this.isFound) box.classList.add(this.isFound(call.name) ? "found" : "not-found");
    Object.assign(box.style, style);
    if (hasText) box.textContent = call.name;
    return box;
  }

  /** Returns the colour of a call in a saved picture. */
  private fill({ kind, index }: Call): string {
    const level = this.flame.levels?.[index];
    return (level === undefined ? LIGHT[kind] : LEVELS[String(level)]) ?? "#dddddd";
  }

  /** Saves the calls that are shown as a picture in light colours. */
  private save(): void {
    const visibleCalls = visible(
      placeCalls(this.calls, this.flame.samples, this.focusedCall),
      PICTURE_WIDTH,
    );
    const shapes = visibleCalls.map((placedCall) => {
      const { x, y, wide, high, textX, textY, letters } = rectOf(placedCall, PICTURE_WIDTH);
      const { name } = placedCall.call;
      const text =
        letters > 0
          ? `<text x="${textX}" y="${textY}">${escapeXml(name.slice(0, letters))}</text>`
          : "";
      const size = `width="${wide}" height="${high}"`;
      const rect = `<rect x="${x}" y="${y}" ${size} fill="${this.fill(placedCall.call)}"/>`;
      return `<g><title>${escapeXml(this.callText(placedCall.call))}</title>${rect}${text}</g>`;
    });
    const box = `viewBox="0 0 ${PICTURE_WIDTH} ${heightOf(visibleCalls)}"`;
    const font = 'font-family="monospace" font-size="11"';
    const head = `<svg xmlns="http://www.w3.org/2000/svg" ${box} ${font}>`;
    const svg = `${head}${shapes.join("")}</svg>`;
    download(URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" })), this.file);
  }
}

/** The width of a saved picture, in pixels. */
const PICTURE_WIDTH = 1200;

/** The light colours of the kinds of calls, as in style.css. */
const LIGHT: Record<string, string> = {
  role: "#d8dee4",
  kernel: "#f2c9a1",
  native: "#b9d4ec",
  jit: "#bfe3c4",
  inlined: "#d9e6f2",
};

/** Colours of levels in a difference of profiles: from much less (-3) to much more (3). */
const LEVELS: Record<string, string> = {
  "-3": "#6b9bca",
  "-2": "#a2c0de",
  "-1": "#d3e0ee",
  "0": "#f0f2f4",
  "1": "#f3d8d5",
  "2": "#e5b0aa",
  "3": "#d27f77",
};

function escapeXml(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}

/** Draws all flame graphs of the page. */
export function addFlames(report: Report): void {
  for (const figure of document.querySelectorAll<HTMLElement>("figure[data-profile]")) {
    const profile = report.profiles[Number(figure.dataset["profile"])];
    const side = figure.dataset["side"] === "waiting" ? "waiting" : "running";
    const [plot, tools] = [
      figure.querySelector<HTMLElement>(".flame"),
      figure.querySelector<HTMLElement>(".tools"),
    ];
    const flame = profile?.[side];
    if (!plot || !tools || !flame) continue;
    new FlameGraph(
      flame,
      plot,
      tools,
      `${report.run.id}-${side}-${figure.dataset["profile"] ?? ""}.svg`,
    );
  }
}
