// Draws one chart on the page, with its buttons. It redraws for themes, zooms and print.
import { button, download } from "./button.ts";
import type { Choice } from "./choice.ts";
import { echarts, type EChartsType, type Option } from "./echarts.ts";
import type { Figure } from "./figure.ts";
import { FIGURES } from "./figures.ts";
import { isNarrow } from "./layout.ts";
import type { Report } from "./schema.ts";
import { chartTheme } from "./theme.ts";

/** A4 without its margins is about this many CSS pixels wide. */
const PRINT_WIDTH = 680;

interface Zoom {
  start: number;
  end: number;
}

/** Charts are drawn when they come this near to the viewport. */
const NEAR_MARGIN = "100% 0px";

/**
 * A chart is drawn after it has been near for this long, in milliseconds. Fast scrolling past
 * charts draws none of them.
 */
const DRAW_DELAY_MS = 40;

export class Chart {
  private readonly figure: Figure;
  private chart: EChartsType | null = null;
  private logY: boolean;
  private isNear = false;
  /** Whether the choice has changed since the chart was drawn. */
  private isStale = true;
  private isDark = false;

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
    new IntersectionObserver(
      (entries) => {
        this.isNear = entries.at(-1)?.isIntersecting ?? false;
        if (this.isNear)
          setTimeout(() => {
            if (this.isNear) this.draw();
          }, DRAW_DELAY_MS);
      },
      { rootMargin: NEAR_MARGIN },
    ).observe(plot);
  }

  /** Buttons of this chart. */
  addTools(tools: HTMLElement): void {
    if (this.figure.logY !== undefined) {
      const scale = button(this.scaleLabel(), () => {
        this.logY = !this.logY;
        scale.textContent = this.scaleLabel();
        this.update(this.choice);
      });
      scale.dataset["tool"] = "scale";
      tools.append(scale);
    }
    tools.append(
      button("Reset zoom", () => {
        this.chart?.dispatchAction({ type: "dataZoom", start: 0, end: 100 });
      }),
    );
    tools.append(
      button("Save SVG", () => {
        this.save();
      }),
    );
  }

  update(choice: Choice): void {
    this.choice = choice;
    this.isStale = true;
    this.fit();
    if (this.isNear) this.draw();
  }

  /**
   * Draws the chart for paper or for the screen. For paper it draws immediately, because the
   * browser lays out the printed page when this returns.
   */
  setPrinting(printing: boolean): void {
    this.isStale = true;
    if (printing) {
      const chart = this.ensureChart();
      this.setTheme(chart, false);
      chart.setOption(this.option({ ...this.choice, dark: false }), {
        notMerge: true,
        lazyUpdate: true,
      });
      chart.resize({ width: PRINT_WIDTH });
      chart.getZr().flush();
    } else {
      this.chart?.resize({ width: "auto" });
      if (this.isNear) this.draw();
    }
  }

  /** The ECharts chart. The first call creates it. */
  private ensureChart(): EChartsType {
    if (this.chart) return this.chart;
    this.isDark = this.choice.dark;
    const chart = echarts.init(this.plot, chartTheme(this.isDark), { renderer: "svg" });
    chart.on("finished", () => {
      this.plot.dataset["drawn"] = "1";
    });
    chart.on("datazoom", () => {
      this.noteZoom();
    });
    // The observer also calls at the beginning, when the size already fits.
    new ResizeObserver(() => {
      if (!this.fitsPlot(chart)) chart.resize();
    }).observe(this.plot);
    this.chart = chart;
    return chart;
  }

  private setTheme(chart: EChartsType, dark: boolean): void {
    if (dark !== this.isDark) chart.setTheme(chartTheme(dark));
    this.isDark = dark;
  }

  /** Sets the height that the figure asks for, or leaves it to the style. */
  private fit(): void {
    const height = this.figure.height?.(this.report, this.choice) ?? null;
    this.plot.style.height = height === null ? "" : `${height}px`;
  }

  private fitsPlot(chart: EChartsType): boolean {
    return (
      chart.getWidth() === this.plot.clientWidth && chart.getHeight() === this.plot.clientHeight
    );
  }

  private scaleLabel(): string {
    return this.logY ? "Linear scale" : "Log scale";
  }

  private option(choice: Choice): Option {
    return this.figure.option(this.report, {
      ...choice,
      logY: this.logY,
      isNarrow: isNarrow(this.plot.clientWidth),
    });
  }

  private draw(): void {
    if (!this.isStale) return;
    this.isStale = false;
    // A new theme resets the zoom, so it is restored.
    const zoom = this.zoom();
    const chart = this.ensureChart();
    this.setTheme(chart, this.choice.dark);
    const fitsPlot = this.fitsPlot(chart);
    chart.setOption(this.option(this.choice), { notMerge: true, lazyUpdate: !fitsPlot });
    // `lazyUpdate` above leaves the drawing to this resize, so that the chart is drawn once.
    if (!fitsPlot) chart.resize();
    if (zoom) chart.dispatchAction({ type: "dataZoom", start: zoom.start, end: zoom.end });
    else this.noteZoom();
  }

  private zoom(): Zoom | null {
    const option = this.chart?.getOption() as { dataZoom?: Zoom[] } | undefined;
    const firstZoom = option?.dataZoom?.[0];
    return firstZoom ? { start: firstZoom.start, end: firstZoom.end } : null;
  }

  private noteZoom(): void {
    const zoom = this.zoom();
    if (zoom) this.plot.dataset["zoom"] = `${zoom.start.toFixed(2)}–${zoom.end.toFixed(2)}`;
  }

  /** Saves a picture in light colours and of a fixed width, at the present zoom. */
  private save(): void {
    const picture = echarts.init(null, chartTheme(false), {
      renderer: "svg",
      ssr: true,
      width: 1000,
      height: this.plot.clientHeight,
    });
    picture.setOption(this.option({ ...this.choice, dark: false }));
    const zoom = this.zoom();
    const option: Option = { backgroundColor: "#ffffff" };
    if (zoom) option.dataZoom = [{ start: zoom.start, end: zoom.end }, { show: false }];
    picture.setOption(option);
    const url = URL.createObjectURL(
      new Blob([picture.renderToSVGString()], { type: "image/svg+xml" }),
    );
    picture.dispose();
    download(url, `${this.report.run.id}-${this.element.dataset["chart"] ?? "chart"}.svg`);
  }
}
