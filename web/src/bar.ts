// Creates the selection bar at the top of the page. The reader selects the workload, protocol, step
// and subjects that charts, tables and cards show.
import { labelledSelect, replaceOptions, Radios } from "./button.ts";
import {
  type Choice,
  hasProtocols,
  hasSeveralWorkloads,
  protocolsOf,
  stepsOf,
  workloadsOf,
  workloadsOfProtocol,
} from "./choice.ts";
import { stepName } from "./format.ts";
import type { Report } from "./schema.ts";
import { subjectsControl } from "./subjects.ts";

/** A part of the bar, which shows the choice of the reader and changes it. */
export interface Control {
  element: HTMLElement;
  show: (choice: Choice) => void;
}

export type Change = (part: Partial<Choice>) => void;

/** Maximum number of workloads whose names are in the bar. More names would fill the bar. */
const WORKLOADS_IN_A_ROW = 8;

/** The value of the entry for all workloads, protocols or steps. */
const ALL = "";

/** Fills the bar. Returns a function that must be called at every change of the choice. */
export function selectionBar(
  report: Report,
  bar: HTMLElement,
  change: Change,
): (choice: Choice) => void {
  const controls = [
    ...(hasSeveralWorkloads(report) ? [workloadControl(report, change)] : []),
    ...(hasProtocols(report) ? [protocolControl(report, change)] : []),
    ...(stepsOf(report, { workload: null, protocol: null }).length > 1
      ? [stepControl(report, change)]
      : []),
    subjectsControl(report, change),
  ];
  bar.hidden = false;
  bar.append(...controls.map(({ element }) => element));
  return (choice) => {
    controls.forEach((control) => {
      control.show(choice);
    });
  };
}

/** Returns the control that selects a workload: radio buttons, or a select for many workloads. */
function workloadControl(report: Report, change: Change): Control {
  const entries = (choice: Pick<Choice, "protocol">): [string, string][] => [
    ...workloadsOfProtocol(report, choice.protocol).map((name): [string, string] => [name, name]),
    [ALL, "all workloads"],
  ];
  const changeWorkload = (value: string): void => {
    change({ workload: value === ALL ? null : value });
  };
  const allEntries = entries({ protocol: null });
  if (workloadsOf(report).length > WORKLOADS_IN_A_ROW) {
    const element = labelledSelect("Workload", allEntries, ALL, changeWorkload);
    return {
      element,
      show: (choice) => {
        replaceOptions(element, entries(choice), choice.workload ?? ALL);
      },
    };
  }
  const radios = new Radios("Workload", allEntries, changeWorkload);
  return {
    element: radios.element,
    show: (choice) => {
      const offered = entries(choice).map(([value]) => value);
      radios.show(choice.workload ?? ALL, (value) => offered.includes(value));
    },
  };
}

/** Returns the control that selects a protocol. */
function protocolControl(report: Report, change: Change): Control {
  const entries = protocolsOf(report).map((name): [string, string] => [name, name]);
  const radios = new Radios("Protocol", [...entries, [ALL, "all protocols"]], (value) => {
    change({ protocol: value === ALL ? null : value });
  });
  return {
    element: radios.element,
    show: (choice) => {
      radios.show(choice.protocol ?? ALL, () => true);
    },
  };
}

/** Returns the control that selects a step. It offers the steps of the shown workloads. */
function stepControl(report: Report, change: Change): Control {
  const entries = (choice: Pick<Choice, "workload" | "protocol">): [string, string][] => [
    [ALL, "all steps"],
    ...stepsOf(report, choice).map((s): [string, string] => [String(s.step), stepName(s)]),
  ];
  const element = labelledSelect("Step", [], ALL, (value) => {
    change({ step: value === ALL ? null : Number(value) });
  });
  element.className = "step";
  return {
    element,
    show: (choice) => {
      replaceOptions(element, entries(choice), String(choice.step ?? ALL));
    },
  };
}
