/** Text for numbers, money, times and sizes. A no-break space separates a number from its unit. */

export const NBSP = "\u00a0";

const integer = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const MICRO = 1_000_000;
/** Smaller amounts are written as smaller than this one. */
const SMALLEST = 100;

/** 6630000 micro-dollars as "$6.63". Amounts below one cent keep two significant digits. */
export function formatMoney(microusd: number): string {
  const dollars = Math.abs(microusd) / MICRO;
  const sign = microusd < 0 ? "−" : "";
  if (microusd > 0 && microusd < SMALLEST) return "<$0.0001";
  if (dollars > 0 && dollars < 0.01) return `${sign}$${trimZeros(dollars.toPrecision(2))}`;
  if (dollars >= 10_000) return `${sign}$${integer.format(dollars)}`;
  return `${sign}$${dollars.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

/** The price per hour of a plan's offer: of all nodes together, and of one. */
export function formatNodesPrice(offer: { price_microusd_per_hour: number; nodes?: number }): string {
  const nodes = offer.nodes ?? 1;
  const each = formatPrice(offer.price_microusd_per_hour);
  if (nodes === 1) return each;
  if (offer.price_microusd_per_hour === 0) return `${nodes} nodes`;
  return `${formatPrice(offer.price_microusd_per_hour * nodes)} (${nodes} nodes at ${each})`;
}

/** The price of a machine: "$1.29/h", or "own" for a machine without a price. */
export function formatPrice(microusdPerHour: number): string {
  return microusdPerHour === 0 ? "own" : `${formatMoney(microusdPerHour)}/h`;
}

/** 6480 seconds as "1 h 48 m". Two units at most. */
export function formatDuration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "unknown";
  const total = Math.max(0, seconds);
  if (total < 1) return `${trimZeros(total.toFixed(1))}${NBSP}s`;
  if (total < 60) return `${Math.round(total)}${NBSP}s`;
  const minutes = Math.round(total / 60);
  if (total < 600) return twoUnits(Math.floor(total / 60), "m", Math.round(total % 60) % 60, "s");
  if (minutes < 60) return `${minutes}${NBSP}m`;
  if (minutes < 24 * 60) return twoUnits(Math.floor(minutes / 60), "h", minutes % 60, "m");
  const hours = Math.round(minutes / 60);
  return twoUnits(Math.floor(hours / 24), "d", hours % 24, "h");
}

function twoUnits(large: number, largeUnit: string, small: number, smallUnit: string): string {
  const first = `${large}${NBSP}${largeUnit}`;
  return small === 0 ? first : `${first} ${small}${NBSP}${smallUnit}`;
}

/** "1 h 39 m – 2 h 4 m" */
export function formatInterval(low: string, high: string): string {
  return low === high ? low : `${low} – ${high}`;
}

/** 0.827 as "83 %". */
export function formatPercent(fraction: number, digits = 0): string {
  return `${(fraction * 100).toFixed(digits)}${NBSP}%`;
}

/** The progress of a job, never rounded up to 100 % before the end. */
export function formatProgress(fraction: number): string {
  const percent = Math.round(fraction * 100);
  return `${percent === 100 && fraction < 1 ? 99 : percent}${NBSP}%`;
}

/** 1284 as "1,284". */
export function formatCount(value: number): string {
  return integer.format(value);
}

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** 6396315 as "6.1 MiB". */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < BYTE_UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const text = unit === 0 || value >= 100 ? value.toFixed(0) : trimZeros(value.toFixed(1));
  return `${text}${NBSP}${BYTE_UNITS[unit]}`;
}

/** The value of a metric with four significant digits: 0.7381, 1.466, 4.2e-5. Strings are NaN and infinities. */
export function formatValue(value: number | string): string {
  if (typeof value === "string") return value;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-4) return value.toExponential(2).replace("e+", "e");
  if (size >= 1000) return integer.format(value);
  return trimZeros(value.toPrecision(4));
}

function trimZeros(text: string): string {
  return text.includes(".") && !text.includes("e") ? text.replace(/\.?0+$/, "") : text;
}

/** "one job", "3 jobs" */
export function plural(count: number, singular: string, several = `${singular}s`): string {
  return `${formatCount(count)} ${count === 1 ? singular : several}`;
}

/** The last eight digits of a job id, as `anygpu ls` shows them. */
export function shortId(id: string): string {
  return id.replaceAll("-", "").slice(-8);
}

/** "Training" from "training". */
export function sentenceCase(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
