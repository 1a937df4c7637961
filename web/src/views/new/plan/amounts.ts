/** Amounts of the limits: what people write into the exact fields, and the positions of the sliders. */

const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** The number of steps of a slider. */
export const STEPS = 100;

/**
 * The limit at a position of a slider that ends at `end`; null, no limit, at its right end. Micro-dollars are whole
 * numbers, and a deadline is above zero, so that `least` is 1 there.
 */
export function limitAt(position: number, end: number, least: number): number | null {
  return position >= STEPS ? null : Math.max(least, Math.round((position / STEPS) * end));
}

/** "12", "$12.50" or "12 USD" in micro-dollars; null for an empty text, undefined for anything else. */
export function parseDollars(text: string): number | null | undefined {
  const plain = text.replaceAll(/[$\s,]|usd/gi, "");
  if (plain === "") return null;
  const dollars = Number(plain);
  return Number.isFinite(dollars) && dollars >= 0 ? Math.round(dollars * 1_000_000) : undefined;
}

/** "14", "1h30m" or "2d" in seconds; a plain number is hours. Null for an empty text, undefined for anything else. */
export function parseHours(text: string): number | null | undefined {
  const plain = text.replaceAll(/\s/g, "").toLowerCase();
  if (plain === "") return null;
  if (/^\d+(\.\d*)?$/.test(plain)) return positive(Number(plain) * 3600);
  if (!/^(\d+(\.\d+)?[smhd])+$/.test(plain)) return undefined;
  const parts = plain.matchAll(/(\d+(?:\.\d+)?)([smhd])/g);
  return positive(
    [...parts].reduce((sum, [, count, unit]) => sum + Number(count) * (UNITS[unit ?? ""] ?? 0), 0),
  );
}

function positive(seconds: number): number | undefined {
  return seconds > 0 ? seconds : undefined;
}
