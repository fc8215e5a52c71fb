// Prices that the reader sets: what a billion requests cost is a sum of hours that are paid for,
// each at its price.
import { costOf } from "./cost.ts";
import { number } from "./format.ts";

/** Lets the reader change the prices; the costs in the table below follow. */
export function addPrices(): void {
  const form = document.getElementById("prices");
  if (!(form instanceof HTMLFormElement)) return;
  const field = (name: string): number | null => {
    const input = form.elements.namedItem(name);
    if (!(input instanceof HTMLInputElement) || (input.value === "" && !input.validity.badInput))
      return null;
    return input.valueAsNumber;
  };
  const show = (): void => {
    // Memory is free of charge, and CPUs are used fully, where nothing is said of them.
    const prices = {
      cpu: field("cpu") ?? Number.NaN,
      gib: field("gib") ?? 0,
      utilisation: field("utilisation") ?? 1,
    };
    for (const cost of document.querySelectorAll<HTMLElement>("[data-cpu-hours]")) {
      const of = costOf(
        Number(cost.dataset["cpuHours"]),
        Number(cost.dataset["gibHours"] ?? 0),
        prices,
      );
      cost.textContent = of === null ? "–" : number(of);
      const cell = cost.closest("td");
      if (!cell) continue;
      if (of === null) delete cell.dataset["key"];
      else cell.dataset["key"] = String(of);
    }
    // It tells the suite's prices.
    const note = document.getElementById("at-prices");
    if (note) note.hidden = true;
  };
  form.hidden = false;
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
  });
}
