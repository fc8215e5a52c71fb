// Creates buttons, selects, radio buttons and downloads for the page.

/** Returns a button that calls `act` when it is clicked. */
export function button(label: string, act: () => void): HTMLButtonElement {
  const element = document.createElement("button");
  element.type = "button";
  element.textContent = label;
  element.addEventListener("click", act);
  return element;
}

/** Returns a select element in its label. Entries are pairs of value and text. */
export function labelledSelect(
  name: string,
  entries: [string, string][],
  selected: string,
  act: (value: string) => void,
): HTMLElement {
  const label = document.createElement("label");
  const select = document.createElement("select");
  select.append(...options(entries, selected));
  select.addEventListener("change", () => {
    act(select.value);
  });
  label.append(`${name} `, select);
  return label;
}

/** Replaces the options of a select element made by `labelledSelect`. */
export function replaceOptions(
  control: HTMLElement,
  entries: [string, string][],
  selected: string,
): void {
  control.querySelector("select")?.replaceChildren(...options(entries, selected));
}

function options(entries: [string, string][], selected: string): HTMLOptionElement[] {
  return entries.map(([value, text]) => new Option(text, value, false, value === selected));
}

/** A row of radio buttons. */
export class Radios {
  readonly element = document.createElement("div");
  private readonly radios = new Map<string, HTMLInputElement>();

  constructor(name: string, entries: [string, string][], act: (value: string) => void) {
    this.element.className = "radios";
    this.element.setAttribute("role", "radiogroup");
    this.element.setAttribute("aria-label", name);
    this.element.append(
      name,
      ...entries.map(([value, text]) => this.radio(name.toLowerCase(), value, text, act)),
    );
  }

  /** Checks the chosen button and hides those that are not offered. */
  show(selected: string, isOffered: (value: string) => boolean): void {
    for (const [value, radio] of this.radios) {
      radio.checked = value === selected;
      if (radio.parentElement) radio.parentElement.hidden = !isOffered(value);
    }
  }

  private radio(
    name: string,
    value: string,
    text: string,
    act: (value: string) => void,
  ): HTMLElement {
    const radio = document.createElement("input");
    radio.type = "radio";
    radio.name = name;
    radio.addEventListener("change", () => {
      act(value);
    });
    this.radios.set(value, radio);
    const caption = document.createElement("span");
    caption.textContent = text;
    const label = document.createElement("label");
    label.append(radio, caption);
    return label;
  }
}

/** Saves the content of an object URL as a file, and revokes the URL. */
export function download(url: string, name: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => {
    URL.revokeObjectURL(url);
  }, 1000);
}
