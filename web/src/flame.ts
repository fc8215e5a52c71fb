// Flame graphs: a tree of calls from the top down, each as wide as its share of the time.
import { button, download } from "./button.ts";
import { micros, number, percent } from "./format.ts";
import {
  boxOf,
  type Call,
  heightOf,
  neighbour,
  partOf,
  type Placed,
  placed,
  rectOf,
  samplesFound,
  share,
  visible,
} from "./icicle.ts";
import type { Flame, Report } from "./schema.ts";

export function callsOf(flame: Flame): Call[] {
  return flame.nodes.map(([place, depth, start, samples], index) => {
    const { name = "", kind = "native", module = null } = flame.functions[place] ?? {};
    return { index, name, kind, module, depth, start, samples };
  });
}

/**
 * What a search asks for: a part of a name in small or capital letters, or a regular expression
 * between slashes. null: nothing, or no such thing.
 */
export function matcher(text: string): ((name: string) => boolean) | null {
  const expression = /^\/(.+)\/$/.exec(text);
  if (expression?.[1]) {
    try {
      const wanted = new RegExp(expression[1]);
      return (name) => wanted.test(name);
    } catch {
      return null;
    }
  }
  const wanted = text.toLowerCase();
  return wanted === "" ? null : (name) => name.toLowerCase().includes(wanted);
}

class FlameGraph {
  private readonly calls: Call[];
  private at: Call | null = null;
  private isFound: ((name: string) => boolean) | null = null;
  private readonly found = document.createElement("span");
  private readonly seen = document.createElement("p");

  constructor(
    private readonly flame: Flame,
    private readonly plot: HTMLElement,
    tools: HTMLElement,
    private readonly file: string,
  ) {
    this.calls = callsOf(flame);
    this.seen.className = "seen";
    this.seen.setAttribute("aria-live", "polite");
    plot.after(this.seen);
    this.addTools(tools);
    plot.addEventListener("click", (event) => {
      this.open(this.callOf(event.target));
    });
    plot.addEventListener("mouseover", (event) => {
      this.tell(this.callOf(event.target));
    });
    plot.addEventListener("focusin", (event) => {
      this.tell(this.callOf(event.target));
    });
    plot.addEventListener("keydown", (event) => {
      this.key(event);
    });
    // A folded part of the page has no width yet.
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
    this.found.className = "note";
    tools.append(
      this.found,
      search,
      button("Show all", () => {
        this.open(null);
      }),
      button("Save SVG", () => {
        this.save();
      }),
    );
  }

  private callOf(target: EventTarget | null): Call | null {
    const place =
      target instanceof HTMLElement && this.plot.contains(target)
        ? target.dataset["call"]
        : undefined;
    return place === undefined ? null : (this.calls[Number(place)] ?? null);
  }

  private open(call: Call | null): void {
    this.at = call;
    this.draw();
    if (call) this.focus(call);
  }

  private focus(call: Call): void {
    this.plot
      .querySelector<HTMLElement>(`[data-call="${call.index}"]`)
      ?.focus({ preventScroll: true });
  }

  private key(event: KeyboardEvent): void {
    if (event.key === "Escape") {
      this.open(null);
      return;
    }
    const from = this.callOf(event.target);
    const to =
      from &&
      neighbour(
        this.shown().map(({ call }) => call),
        from,
        event.key,
      );
    if (!to) return;
    event.preventDefault();
    this.plot.querySelector<HTMLElement>(`[data-call="${to.index}"]`)?.focus();
  }

  /** Those that are wide enough to be seen. */
  private shown(): Placed[] {
    const wide = this.plot.clientWidth;
    return visible(placed(this.calls, this.flame.samples, this.at), wide);
  }

  private words({ name, module, kind, samples }: Call): string {
    const { us_per_request: us, samples: all } = this.flame;
    const each = us === null ? "" : `, ${micros(partOf(us, samples, all))} per response`;
    const where = module ?? { kernel: "kernel", jit: "compiled just in time" }[kind];
    const place = where === undefined ? "" : ` (${where})`;
    const part = percent(share(samples, all));
    return `${name}${place}: ${part}, ${number(samples)} samples${each}`;
  }

  private tell(call: Call | null): void {
    this.seen.textContent = call ? this.words(call) : "";
  }

  private draw(): void {
    const wide = this.plot.clientWidth;
    if (wide === 0) return;
    const shown = this.shown();
    this.plot.style.height = `${heightOf(shown)}px`;
    const focused = this.callOf(document.activeElement);
    this.plot.replaceChildren(...shown.map((one) => this.box(one, wide)));
    if (focused) this.focus(focused);
    this.plot.dataset["drawn"] = "1";
    const found = this.isFound
      ? share(samplesFound(this.calls, this.isFound), this.flame.samples)
      : null;
    this.found.textContent = found === null ? "" : `found in ${percent(found)}`;
  }

  private box(one: Placed, wide: number): HTMLElement {
    const { call } = one;
    const { hasText, ...style } = boxOf(one, wide);
    const box = document.createElement("button");
    box.type = "button";
    box.className = this.flame.levels ? `level${this.flame.levels[call.index] ?? 0}` : call.kind;
    box.dataset["call"] = String(call.index);
    box.tabIndex = call.depth === 0 ? 0 : -1;
    box.setAttribute("aria-label", this.words(call));
    if (this.isFound) box.classList.add(this.isFound(call.name) ? "found" : "not-found");
    Object.assign(box.style, style);
    if (hasText) box.textContent = call.name;
    return box;
  }

  /** The colour of a call in a picture. */
  private fill({ kind, index }: Call): string {
    const level = this.flame.levels?.[index];
    return (level === undefined ? LIGHT[kind] : LEVELS[String(level)]) ?? "#dddddd";
  }

  /** A picture of its own, light, of what is shown. */
  private save(): void {
    const shown = visible(placed(this.calls, this.flame.samples, this.at), PICTURE);
    const shapes = shown.map((one) => {
      const { x, y, wide, high, textX, textY, letters } = rectOf(one, PICTURE);
      const { name } = one.call;
      const text =
        letters > 0
          ? `<text x="${textX}" y="${textY}">${escaped(name.slice(0, letters))}</text>`
          : "";
      const size = `width="${wide}" height="${high}"`;
      const rect = `<rect x="${x}" y="${y}" ${size} fill="${this.fill(one.call)}"/>`;
      return `<g><title>${escaped(this.words(one.call))}</title>${rect}${text}</g>`;
    });
    const box = `viewBox="0 0 ${PICTURE} ${heightOf(shown)}"`;
    const font = 'font-family="monospace" font-size="11"';
    const head = `<svg xmlns="http://www.w3.org/2000/svg" ${box} ${font}>`;
    const svg = `${head}${shapes.join("")}</svg>`;
    download(URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" })), this.file);
  }
}

/** The width of a picture, in pixels. */
const PICTURE = 1200;

/** As in the style, where it is light. */
const LIGHT: Record<string, string> = {
  role: "#d8dee4",
  kernel: "#f2c9a1",
  native: "#b9d4ec",
  jit: "#bfe3c4",
  inlined: "#d9e6f2",
};

/** The same of differences: much less, less, … */
const LEVELS: Record<string, string> = {
  "-3": "#6b9bca",
  "-2": "#a2c0de",
  "-1": "#d3e0ee",
  "0": "#f0f2f4",
  "1": "#f3d8d5",
  "2": "#e5b0aa",
  "3": "#d27f77",
};

function escaped(text: string): string {
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
