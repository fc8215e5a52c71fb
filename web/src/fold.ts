// Long texts above everything else are cut to their first lines; on paper and without a viewer they
// are whole.
import { button } from "./button.ts";

/** Of so many letters a text is read at a glance. */
const AT_A_GLANCE = 600;

export function foldLongTexts(): void {
  for (const text of document.querySelectorAll<HTMLElement>(".answer, #answer .caveats li")) {
    if (text.textContent.length <= AT_A_GLANCE) continue;
    const body = document.createElement("span");
    body.className = "folded";
    body.append(...text.childNodes);
    const toggle = button("More", () => {
      const isFolded = body.classList.toggle("folded");
      toggle.textContent = isFolded ? "More" : "Less";
      toggle.setAttribute("aria-expanded", String(!isFolded));
    });
    toggle.className = "more";
    toggle.setAttribute("aria-expanded", "false");
    text.append(body, toggle);
  }
}
