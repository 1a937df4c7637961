/** Reduce a series that has more points than a chart can show. */

const FEWEST_WITH_NAN = 8;

/**
 * The indices of at most `maxCount` values: the first, the last, and of each of many equal parts the lowest, the
 * highest and the first NaN.
 */
export function downsampleIndices(values: readonly number[], maxCount: number): number[] {
  const count = values.length;
  if (count <= maxCount) return Array.from({ length: count }, (_, index) => index);
  if (maxCount < 2) return maxCount < 1 ? [] : [count - 1];
  const chosen = new Set([0, count - 1]);
  const keepNan = maxCount >= FEWEST_WITH_NAN && values.some(Number.isNaN);
  const parts = Math.floor((maxCount - 2) / (keepNan ? 3 : 2));
  const inner = count - 2;
  for (let part = 0; part < parts; part += 1) {
    const start = 1 + Math.floor((part * inner) / parts);
    const end = 1 + Math.floor(((part + 1) * inner) / parts);
    for (const index of extremes(values, start, end, keepNan)) chosen.add(index);
  }
  return [...chosen].sort((a, b) => a - b);
}

function extremes(values: readonly number[], start: number, end: number, keepNan: boolean): number[] {
  let low = -1;
  let high = -1;
  let nan = -1;
  for (let index = start; index < end; index += 1) {
    const value = values[index]!;
    if (Number.isNaN(value)) {
      if (nan < 0) nan = index;
      continue;
    }
    if (low < 0 || value < values[low]!) low = index;
    if (high < 0 || value > values[high]!) high = index;
  }
  return [low, high, keepNan ? nan : -1].filter((index) => index >= 0);
}
