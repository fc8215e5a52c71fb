// Chooses colours and dashes. A subject has the same colour everywhere. Colour-blind people can
// distinguish them (Okabe and Ito, "Color Universal Design").

const LIGHT = [
  "#0072B2",
  "#D55E00",
  "#009E73",
  "#CC79A7",
  "#B07A00",
  "#3B9ED8",
  "#5B4FA2",
  "#8C564B",
];
const DARK = [
  "#56B4E9",
  "#F0883E",
  "#00B68A",
  "#E09BC4",
  "#E6B422",
  "#9AD0F5",
  "#A99BF0",
  "#C49C94",
];
const DASHES = ["solid", "dashed", "dotted"] as const;

// Without double quotes: the SVG renderer writes it unescaped into an attribute.
export const FONT = "system-ui, DejaVu Sans, sans-serif";

const media = matchMedia("(prefers-color-scheme: dark)");

export function isDark(): boolean {
  const chosenTheme = document.documentElement.dataset["theme"];
  return chosenTheme ? chosenTheme === "dark" : media.matches;
}

/** Calls `callback` when the reader or the system changes between light and dark. */
export function onThemeChange(callback: () => void): void {
  media.addEventListener("change", callback);
  new MutationObserver(callback).observe(document.documentElement, {
    attributeFilter: ["data-theme"],
  });
}

export function subjectColour(index: number, control: boolean, dark: boolean): string {
  if (control) return dark ? "#8b949e" : "#8a9099";
  const palette = dark ? DARK : LIGHT;
  return palette[index % palette.length] ?? "#888";
}

/** Beyond one round of colours, lines differ by their dashes. */
export function subjectDash(index: number, control: boolean): (typeof DASHES)[number] {
  if (control) return "dashed";
  return DASHES[Math.floor(index / LIGHT.length) % DASHES.length] ?? "solid";
}

/** The ECharts theme: colours of texts and lines. Series have their own colours. */
export function chartTheme(dark: boolean): object {
  const ink = dark ? "#c9d1d9" : "#24292f";
  const rule = dark ? "#30363d" : "#e1e4e8";
  const axis = {
    axisLine: { lineStyle: { color: ink } },
    axisTick: { lineStyle: { color: ink } },
    axisLabel: { color: ink },
    nameTextStyle: { color: ink },
    splitLine: { lineStyle: { color: rule } },
  };
  return {
    darkMode: dark,
    backgroundColor: "transparent",
    textStyle: { color: ink, fontFamily: FONT },
    logAxis: axis,
    valueAxis: axis,
    categoryAxis: axis,
    tooltip: {
      backgroundColor: dark ? "#161b22" : "#fff",
      borderColor: rule,
      textStyle: { color: ink },
    },
    dataZoom: { textStyle: { color: ink } },
  };
}
