// What a chart is: from the report's numbers, and what the reader has chosen, to an ECharts option.
import type { Choice } from "./choice.ts";
import type { Option } from "./echarts.ts";
import type { Report } from "./schema.ts";

export interface Figure {
  /** Whether the y axis may be switched to logarithmic, and how it starts. */
  logY?: boolean;
  /** In CSS pixels, where the style's height may be too little for all rows; null: it is enough. */
  height?: (report: Report, choice: Choice) => number | null;
  option: (report: Report, choice: Choice) => Option;
}
