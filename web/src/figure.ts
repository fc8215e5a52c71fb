// The definition of a chart: it makes an ECharts option from the report and the reader's choice.
import type { Choice } from "./choice.ts";
import type { Option } from "./echarts.ts";
import type { Report } from "./schema.ts";

export interface Figure {
  /** Whether the y axis starts logarithmic; undefined: the scale cannot be switched. */
  logY?: boolean;
  /** The height in CSS pixels if the height of the style may be too small; null: it is enough. */
  height?: (report: Report, choice: Choice) => number | null;
  option: (report: Report, choice: Choice) => Option;
}
