// Chooses colours and dashes. A subject has the same colour everywhere. Colour-blind people can
// distinguish the colours (Okabe and Ito, "Color Universal Design").

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

// Without double quotes, because the SVG renderer writes the font into an attribute unescaped.
export const FONT = "system-ui, DejaVu Sans, sans-serif";

const media = matchMedia("(prefers-color-scheme: dark)");

/** Whether the page is dark: by the reader's choice, or else by the system's setting. */
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

/** Returns the colour of a subject, by its index in the report. Controls are grey. */
export function subjectColour(index: number, control: boolean, dark: boolean): string {
  if (control) return dark ? "#8b949e" : "#8a9099";
  const palette = dark ? DARK : LIGHT;
  return palette[index % palette.length] ?? "#888";
}

/** Returns the dash of a subject's line. Subjects with the same colour have different dashes. */
export function subjectDash(index: number, control: boolean): (typeof DASHES)[number] {
  if (control) return "dashed";
  return DASHES[Math.floor(index / LIGHT.length) % DASHES.length] ?? "solid";
}

/** Returns the ECharts theme: colours of texts and lines. Series have their own colours. */
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
