/** The points and axes of the scatter plot of runs. */

import { enclosingTicks, formatTick, logTicks } from "@/charts/ticks";

export interface ScatterPoint {
  id: string;
  label: string;
  color: string;
  x: number | string;
  y: number;
}

export interface AxisTick {
  /** 0 to 1 */
  place: number;
  text: string;
}

export interface ScatterAxis {
  ticks: AxisTick[];
  place: (value: number | string) => number;
  /** The axis is logarithmic. */
  log: boolean;
}

const LOG_RATIO = 50;

/** An axis for numbers (logarithmic when they differ by more than a factor of 50), or one place for each text. */
export function scatterAxis(
  values: readonly (number | string)[],
  format: (value: number) => string = formatNumber,
): ScatterAxis {
  const numbers = values.filter((value) => typeof value === "number");
  if (numbers.length < values.length) return textAxis(values.map(String));
  const low = Math.min(...numbers);
  const high = Math.max(...numbers);
  const log = low > 0 && high / low > LOG_RATIO;
  const ticks = log ? logTicks(low, high) : enclosingTicks(low, high, 4);
  const scale = (value: number) => (log ? Math.log10(value) : value);
  const [first, last] = [scale(ticks[0]!), scale(ticks.at(-1)!)];
  const place = (value: number | string) => (scale(Number(value)) - first) / (last - first || 1);
  return { ticks: ticks.map((tick) => ({ place: place(tick), text: format(tick) })), place, log };
}

/** The horizontal axis: as `scatterAxis`, but equal numbers have one tick, as no cost or time is below zero. */
export function horizontalAxis(
  values: readonly (number | string)[],
  format: (value: number) => string = formatNumber,
): ScatterAxis {
  const [first] = values;
  const equal = values.every((value) => value === first);
  if (typeof first !== "number" || !equal) return scatterAxis(values, format);
  return { ticks: [{ place: 0.5, text: format(first) }], place: () => 0.5, log: false };
}

function formatNumber(value: number): string {
  return formatTick(value, value);
}

function textAxis(texts: readonly string[]): ScatterAxis {
  const different = [...new Set(texts)].sort();
  const place = (value: number | string) => (different.indexOf(String(value)) + 0.5) / different.length;
  return { ticks: different.map((text) => ({ place: place(text), text })), place, log: false };
}

/** A setting as a number if it is one. */
export function settingValue(text: string): number | string {
  const number = Number(text);
  return text.trim() !== "" && Number.isFinite(number) ? number : text;
}
