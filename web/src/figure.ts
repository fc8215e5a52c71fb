// Defines the type of a chart, which makes an ECharts option from the report and the choice.
import type { Choice } from "./choice.ts";
import type { Option } from "./echarts.ts";
import type { Report } from "./schema.ts";

/** A chart of the page. */
export interface Figure {
  /** Whether the y axis starts logarithmic; undefined: the scale cannot be switched. */
  logY?: boolean;
  /** The height in CSS pixels; null or undefined: the height of the style sheet is enough. */
  height?: (report: Report, choice: Choice) => number | null;
  option: (report: Report, choice: Choice) => Option;
}
