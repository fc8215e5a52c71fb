// One chart on the page: its place, its tools, its life through themes, zooms and paper.
import type { Choice } from "./choice.ts";
import { echarts, type EChartsType, type Option } from "./echarts.ts";
import { FIGURES, type Figure } from "./figures.ts";
import type { Report } from "./schema.ts";
import { chartTheme } from "./theme.ts";

/** A4 without its margins is about this many CSS pixels wide. */
const PRINT_WIDTH = 680;

interface Zoom { start: number; end: number }

export class Chart {
  private readonly chart: EChartsType;
  private readonly figure: Figure;
  private logY: boolean;

  constructor(
    private readonly report: Report,
    private readonly element: HTMLElement,
    private readonly plot: HTMLElement,
    private choice: Choice,
  ) {
    const name = element.dataset["chart"] ?? "";
    const figure = FIGURES[name];
    if (!figure) throw new Error(`there is no chart ${name}`);
    this.figure = figure;
    this.logY = figure.logY ?? false;
    plot.classList.add(`plot-${name}`);
    this.fit();
    this.chart = echarts.init(plot, chartTheme(choice.dark), { renderer: "svg" });
    this.chart.on("finished", () => { plot.dataset["drawn"] = "1"; });
    this.chart.on("datazoom", () => { this.noteZoom(); });
    this.draw();
    this.noteZoom();
    new ResizeObserver(() => { this.chart.resize(); }).observe(plot);
  }

  /** Buttons of this chart. */
  addTools(tools: HTMLElement): void {
    if (this.figure.logY !== undefined) {
      const scale = button(this.scaleLabel(), () => {
        this.logY = !this.logY;
        scale.textContent = this.scaleLabel();
        this.draw();
      });
      scale.dataset["tool"] = "scale";
      tools.append(scale);
    }
    tools.append(button("Reset zoom", () => { this.chart.dispatchAction({ type: "dataZoom", start: 0, end: 100 }); }));
    tools.append(button("Save SVG", () => { this.save(); }));
  }

  update(choice: Choice): void {
    const themed = choice.dark !== this.choice.dark;
    this.choice = choice;
    // A new theme forgets the zoom without a word, so draw() puts it back.
    const zoom = this.zoom();
    if (themed) this.chart.setTheme(chartTheme(choice.dark));
    if (this.fit()) this.chart.resize();
    this.draw(zoom);
  }

  /** Light and as wide as the paper, right now: the page is laid out for print when this returns. */
  forPrint(printing: boolean): void {
    if (printing) {
      this.chart.setTheme(chartTheme(false));
      this.chart.setOption(this.option({ ...this.choice, dark: false }), true);
      this.chart.resize({ width: PRINT_WIDTH });
      this.chart.getZr().flush();
    } else {
      this.chart.setTheme(chartTheme(this.choice.dark));
      this.draw();
      this.chart.resize({ width: "auto" });
    }
  }

  /** Makes room for all rows, or leaves it to the style; whether the place has changed. */
  private fit(): boolean {
    const height = this.figure.height?.(this.report, this.choice) ?? null;
    const before = this.plot.style.height;
    this.plot.style.height = height === null ? "" : `${height}px`;
    return this.plot.style.height !== before;
  }

  private scaleLabel(): string {
    return this.logY ? "Linear scale" : "Log scale";
  }

  private option(choice: Choice): Option {
    return this.figure.option(this.report, { ...choice, logY: this.logY });
  }

  private draw(zoom: Zoom | null = this.zoom()): void {
    this.chart.setOption(this.option(this.choice), true);
    if (zoom) this.chart.dispatchAction({ type: "dataZoom", start: zoom.start, end: zoom.end });
  }

  private zoom(): Zoom | null {
    const option = this.chart.getOption() as { dataZoom?: Zoom[] } | undefined;
    const first = option?.dataZoom?.[0];
    return first ? { start: first.start, end: first.end } : null;
  }

  private noteZoom(): void {
    const zoom = this.zoom();
    if (zoom) this.plot.dataset["zoom"] = `${zoom.start.toFixed(2)}–${zoom.end.toFixed(2)}`;
  }

  /** A picture of its own: light, of one size, with a legend, at the present zoom. */
  private save(): void {
    const off = echarts.init(null, chartTheme(false), { renderer: "svg", ssr: true, width: 1000, height: this.plot.clientHeight });
    off.setOption(this.option({ ...this.choice, dark: false }));
    const zoom = this.zoom();
    const option: Option = { backgroundColor: "#ffffff" };
    if (zoom) option.dataZoom = [{ start: zoom.start, end: zoom.end }, { show: false }];
    off.setOption(option);
    const url = URL.createObjectURL(new Blob([off.renderToSVGString()], { type: "image/svg+xml" }));
    off.dispose();
    download(url, `${this.report.run.id}-${this.element.dataset["chart"] ?? "chart"}.svg`);
  }
}

export function button(label: string, act: () => void): HTMLButtonElement {
  const element = document.createElement("button");
  element.type = "button";
  element.textContent = label;
  element.addEventListener("click", act);
  return element;
}

export function download(url: string, name: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => { URL.revokeObjectURL(url); }, 1000);
}
