// Draws one chart on the page, with its buttons. The chart is drawn again for a new choice, theme,
// size or print.
import { button, download } from "./button.ts";
import type { Choice } from "./choice.ts";
import { echarts, type EChartsType, type Option } from "./echarts.ts";
import type { Figure } from "./figure.ts";
import { FIGURES } from "./figures.ts";
import { isNarrow } from "./layout.ts";
import type { Report } from "./schema.ts";
import { chartTheme } from "./theme.ts";

/** The width of A4 paper without margins, in CSS pixels. */
const PRINT_WIDTH = 680;

interface Zoom {
  start: number;
  end: number;
}

/** The distance from the viewport at which charts are drawn. */
const NEAR_MARGIN = "100% 0px";

/**
 * The time for which a chart must be near before it is drawn, in milliseconds. Fast scrolling past
 * charts therefore draws none of them.
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

  /** Adds the buttons of this chart. */
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

  /** Shows a new choice. A chart far from the viewport is drawn later. */
  update(choice: Choice): void {
    this.choice = choice;
    this.isStale = true;
    this.fit();
    if (this.isNear) this.draw();
  }

  /**
   * Draws the chart for paper or for the screen. A chart for paper is drawn immediately, because
   * the browser lays out the printed page when this method returns.
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

  /** Returns the ECharts chart, which the first call creates. */
  private ensureChart(): EChartsType {
    if (this.chart) return this.chart;
    this.isDark = this.choice.dark;
    const chart = echarts.init(this.plot, chartTheme(this.isDark), { renderer: "svg" });
    chart.on("finished", () => {
      this.plot.dataset["drawn"] = "1";
    });
    chart.on("datazoom", () => {
      this.recordZoom();
    });
    // The observer also calls back at the beginning, when the size already fits.
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

  /** Sets the height that the figure needs. Without such a height the style sheet decides. */
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

  /** Draws the chart if the choice has changed since it was drawn. */
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
    else this.recordZoom();
  }

  private zoom(): Zoom | null {
    const option = this.chart?.getOption() as { dataZoom?: Zoom[] } | undefined;
    const firstZoom = option?.dataZoom?.[0];
    return firstZoom ? { start: firstZoom.start, end: firstZoom.end } : null;
  }

  private recordZoom(): void {
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
