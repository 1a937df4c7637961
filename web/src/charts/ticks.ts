/** Round numbers and texts for the axes of charts. */

import { formatValue } from "@/lib/format";
import { clockTime, dayText } from "@/lib/time";

const ROUND = [1, 2, 2.5, 5, 10];

/** The smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `raw`. */
export function roundStep(raw: number): number {
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ROUND.find((each) => each * power >= raw * 0.9999) ?? 10;
  return step * power;
}

/** Ticks that enclose a range: about `target` equal steps between round numbers. */
export function enclosingTicks(low: number, high: number, target: number): number[] {
  const span = high - low;
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (!(span > size * 1e-12)) {
    const half = size === 0 ? 0.5 : size * 0.1;
    return enclosingTicks(low - half, high + half, target);
  }
  const step = roundStep(span / target);
  const first = Math.floor(low / step + 1e-9);
  const last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, index) => cleaned((first + index) * step));
}

/** Ticks inside a range, at round numbers. */
export function innerTicks(low: number, high: number, target: number, wholeNumbers = false): number[] {
  if (!(high > low)) return [low];
  let step = roundStep((high - low) / target);
  if (wholeNumbers) step = Math.max(1, step === 2.5 ? 2 : step);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => cleaned((first + index) * step));
}

/** Ticks of a logarithmic axis: powers of ten that enclose the range; 1, 2 and 5 of each when there are few. */
export function logTicks(low: number, high: number): number[] {
  const first = Math.floor(Math.log10(low) + 1e-9);
  const last = Math.max(first + 1, Math.ceil(Math.log10(high) - 1e-9));
  const every = Math.ceil((last - first) / 6);
  const powers: number[] = [];
  for (let power = first; power < last + every; power += every) powers.push(10 ** power);
  if (last - first > 2) return powers;
  const fine = powers.flatMap((power) => [power, 2 * power, 5 * power]);
  const start = fine.findLastIndex((tick) => tick <= low * (1 + 1e-9));
  const end = fine.findIndex((tick) => tick >= high * (1 - 1e-9));
  return fine.slice(Math.max(0, start), end < 0 ? undefined : end + 1);
}

const TIME_STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
];

function timeStep(raw: number): number {
  return TIME_STEPS.find((each) => each >= raw) ?? 86_400 * Math.ceil(raw / 86_400);
}

/** Ticks of an axis of seconds since a start, at round durations. */
export function elapsedTicks(low: number, high: number, target: number): number[] {
  const step = timeStep((high - low) / target);
  return equalSteps(Math.ceil(low / step) * step, high, step);
}

/** 5400 seconds as "1h 30m". */
export function formatElapsedTick(seconds: number): string {
  if (seconds === 0) return "0";
  if (seconds < 0) return `-${formatElapsedTick(-seconds)}`;
  const units: [number, string][] = [
    [86_400, "d"],
    [3600, "h"],
    [60, "m"],
    [1, "s"],
  ];
  let rest = Math.round(seconds);
  const parts: string[] = [];
  for (const [size, unit] of units) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(`${count}${unit}`);
  }
  return parts.slice(0, 2).join(" ");
}

/** Ticks of a time axis (Unix seconds) at round local times. */
export function timeTicks(low: number, high: number, target: number): number[] {
  const step = timeStep((high - low) / target);
  const shift = new Date(low * 1000).getTimezoneOffset() * 60;
  return equalSteps(Math.ceil((low - shift) / step) * step + shift, high, step);
}

/** Counted, because adding a step to a very large number may not change it. */
function equalSteps(first: number, last: number, step: number): number[] {
  const count = Math.floor((last - first) / step) + 1;
  return count > 0 ? Array.from({ length: count }, (_, index) => first + index * step) : [];
}

export function formatTimeTick(tick: number, span: number): string {
  if (span > 3 * 86_400) return dayText(tick * 1000);
  return clockTime(tick * 1000, span < 300);
}

/** 25000 as "25k", 1200 as "1,200", 0.75 as "0.75". */
export function formatTick(value: number, largest: number): string {
  if (value === 0) return "0";
  const size = Math.abs(largest);
  if (size >= 1e15 || size < 1e-4) return value.toExponential().replace("e+", "e");
  if (size >= 1e9) return `${cleaned(value / 1e9)}G`;
  if (size >= 1e6) return `${cleaned(value / 1e6)}M`;
  if (size >= 1e4) return `${cleaned(value / 1e3)}k`;
  return Math.abs(value) >= 1000 ? formatValue(value) : String(cleaned(value));
}

/** Remove the digits that come from floating point arithmetic: 0.30000000000000004 is 0.3. */
function cleaned(value: number): number {
  return Number(value.toPrecision(12));
}
