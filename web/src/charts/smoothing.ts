/** Smooth one attempt's values. Each attempt is smoothed by itself, so smoothing restarts at each attempt. */

/**
 * Exponential moving average with weight `factor` (0 to 0.99) on the past. It is corrected for its start, so that the
 * first value is not pulled towards zero. NaN and infinities stay as they are and do not enter the average.
 */
export function smooth(values: readonly number[], factor: number): number[] {
  if (factor <= 0) return [...values];
  let sum = 0;
  let weight = 0;
  return values.map((value) => {
    if (!Number.isFinite(value)) return value;
    sum = sum * factor + value * (1 - factor);
    weight = weight * factor + (1 - factor);
    return sum / weight;
  });
}

const TYPICAL_POINTS = 300;

/**
 * The factor for a line of `count` points that looks as smooth as `factor` does on a line of 300 points. Without this,
 * the same setting would do nothing to long series and distort short ones.
 */
export function factorForCount(factor: number, count: number): number {
  return factor <= 0 || count < 1 ? 0 : factor ** (TYPICAL_POINTS / count);
}
