// Lets the reader set prices, and shows the cost of a billion requests at these prices.
import { costOf } from "./cost.ts";
import { number } from "./format.ts";

/** Shows the form for prices. The table below it shows the costs at the entered prices. */
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
    // Without a value, memory is free and CPUs are fully used.
    const prices = {
      cpu: field("cpu") ?? Number.NaN,
      gib: field("gib") ?? 0,
      utilisation: field("utilisation") ?? 1,
    };
    for (const cost of document.querySelectorAll<HTMLElement>("[data-cpu-hours]")) {
      const gib = cost.dataset["gibHours"];
      const total = costOf(
        Number(cost.dataset["cpuHours"]),
        gib === undefined ? null : Number(gib),
        prices,
      );
      cost.textContent = total === null ? "–" : number(total);
      const cell = cost.closest("td");
      if (!cell) continue;
      if (total === null) delete cell.dataset["key"];
      else cell.dataset["key"] = String(total);
    }
    // The note has the prices of the suite, which are replaced now.
    const note = document.getElementById("at-prices");
    if (note) note.hidden = true;
  };
  form.hidden = false;
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
  });
}
