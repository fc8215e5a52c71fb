// Formats numbers for people, as crates/report/src/format.rs does. The tests of both compare with
// tests/data/numbers.json. This file does not know the report.

/** Formats a number: three significant digits, separated thousands, an exponent below 1e-6. */
export function number(x: number): string {
  if (!Number.isFinite(x)) return "–";
  if (x === 0) return "0";
  const [digits, power] = threeDigits(Math.abs(x));
  return `${x < 0 ? "−" : ""}${atPower(String(digits), power)}`;
}

/**
 * Returns the first three digits of a number, rounded half up, and the power of ten of the first
 * digit. They come from the shortest text of the number, which is the same in Rust. The method
 * `toPrecision` rounds 1.125 differently.
 */
function threeDigits(x: number): [number, number] {
  const [mantissa = "", exponent = ""] = x.toExponential().split("e");
  const digits = mantissa.replace(".", "").padEnd(4, "0");
  const three = Number(digits.slice(0, 3)) + (Number(digits[3]) >= 5 ? 1 : 0);
  const power = Number(exponent);
  // Rounding may carry into the next power: 9.999 is 10.0.
  return three === 1000 ? [100, power + 1] : [three, power];
}

/** Formats three digits as a decimal number whose first digit has this power of ten. */
function atPower(digits: string, power: number): string {
  if (power >= 2) return thousands(digits + "0".repeat(power - 2));
  if (power >= 0) return `${digits.slice(0, power + 1)}.${digits.slice(power + 1)}`;
  if (power >= -6) return `0.${"0".repeat(-power - 1)}${digits}`;
  return `${digits.slice(0, 1)}.${digits.slice(1)}e${power}`;
}

function thousands(digits: string): string {
  return digits.replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Formats a count, with all digits if it is an integer. */
export function amount(x: number): string {
  return Number.isInteger(x) ? thousands(String(x)) : number(x);
}

function withUnit(x: number, unit: string): string {
  return Number.isFinite(x) ? `${number(x)} ${unit}` : number(x);
}

/** Formats microseconds. The unit changes where three digits would read 1,000. */
export function micros(us: number): string {
  const u = Math.abs(us);
  if (u < 0.9995) return withUnit(us * 1e3, "ns");
  if (u < 999.5) return withUnit(us, "µs");
  if (u < 999_500) return withUnit(us / 1e3, "ms");
  return withUnit(us / 1e6, "s");
}

/** Formats milliseconds. */
export function millis(ms: number): string {
  return micros(ms * 1e3);
}

/** Formats a size in bytes, in decimal units. */
export function bytes(count: number): string {
  const b = Math.abs(count);
  if (b < 999.5) return withUnit(count, "B");
  if (b < 999_500) return withUnit(count / 1e3, "kB");
  if (b < 999_500_000) return withUnit(count / 1e6, "MB");
  return withUnit(count / 1e9, "GB");
}

/** Formats memory × time, given in 10⁶ bytes × seconds. */
export function megabyteSeconds(amount: number): string {
  return withUnit(amount * 1e3, "kB·s");
}

/** Formats a share (0 to 1) as a percentage. */
export function percent(share: number): string {
  return withUnit(share * 100, "%");
}

/** Formats a percentile beyond the longest known wait: `> 1.20 s (5.9 % not ok)`. */
export function longerThanWait(longestWait: number | null, share: number): string {
  const wait = longestWait === null ? "–" : `> ${micros(longestWait)}`;
  return `${wait} (${failurePercent(share)} not ok)`;
}

function failurePercent(share: number): string {
  const percentage = share * 100;
  if (percentage >= 9.95) return `${Math.round(percentage).toFixed(0)} %`;
  if (percentage >= 0.1) return `${(Math.round(percentage * 10) / 10).toFixed(1)} %`;
  return withUnit(percentage, "%");
}

/** The load of a step. */
export interface Shape {
  connections: number;
  streams: number;
  pipeline: number;
  rate: number | null;
  schedule?: Schedule | null;
  pass: number;
}

/** An open loop whose rate changes. If its rates are null, the times come from a recording. */
export interface Schedule {
  from_rps: number | null;
  to_rps: number | null;
  stretches: number;
}

/** Returns `500–1,500/s`, `500…1,500/s in 3 stretches` or `recorded times`. */
export function scheduleName({ from_rps: from, to_rps: to, stretches }: Schedule): string {
  if (from === null || to === null) return "recorded times";
  return stretches === 1
    ? `${number(from)}–${number(to)}/s`
    : `${number(from)}…${number(to)}/s in ${stretches} stretches`;
}

/** Returns the rate of a step: ` at 1,000/s`, ` at 500–1,500/s`; empty in a closed loop. */
function rateText({ rate, schedule }: Shape): string {
  if (rate !== null) return ` at ${number(rate)}/s`;
  return schedule ? ` at ${scheduleName(schedule)}` : "";
}

/** Returns the name of a step. Streams, pipeline, rate and pass are omitted if they are default. */
export function stepName(shape: Shape): string {
  const connections = shape.connections === 1 ? "1 connection" : `${shape.connections} connections`;
  const factor = (n: number, noun: string): string => (n > 1 ? ` × ${n} ${noun}` : "");
  const rate = rateText(shape);
  const pass = shape.pass > 1 ? ` (${shape.pass})` : "";
  const depth = `${factor(shape.streams, "streams")}${factor(shape.pipeline, "pipelined")}`;
  return `${connections}${depth}${rate}${pass}`;
}

/** Returns a short label for an axis: `1.5k`. */
export function axisNumber(x: number): string {
  if (Math.abs(x) >= 1e6) return `${+(x / 1e6).toPrecision(3)}M`;
  if (Math.abs(x) >= 1e3) return `${+(x / 1e3).toPrecision(3)}k`;
  return String(+x.toPrecision(3));
}

/** Returns a label for an axis of time: `1.5 s`. */
export function axisSeconds(s: number): string {
  return `${+s.toPrecision(3)} s`;
}

/** Formats a quantile as a percentile: 0.999 is `99.9 %`. */
export function axisPercentile(quantile: number): string {
  return `${+(quantile * 100).toPrecision(6)} %`;
}
