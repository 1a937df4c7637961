/** Bring lines with different horizontal positions into the one table that the chart library draws. */

export interface DrawnLine {
  xs: readonly number[];
  /** null is a gap. */
  ys: readonly (number | null)[];
}

export type AlignedTable = [number[], ...(number | null | undefined)[][]];

/**
 * The indices that bring positions into ascending order. Of equal positions the last one is kept. Positions that are
 * not finite cannot be drawn and are left out.
 */
export function ascendingIndices(xs: readonly number[]): number[] {
  let sorted = true;
  const indices: number[] = [];
  xs.forEach((x, index) => {
    if (!Number.isFinite(x)) return;
    if (indices.length > 0 && !(x > xs[indices.at(-1)!]!)) sorted = false;
    indices.push(index);
  });
  if (sorted) return indices;
  indices.sort((a, b) => xs[a]! - xs[b]! || a - b);
  return indices.filter((index, place) => xs[indices[place + 1] ?? -1] !== xs[index]);
}

/**
 * One column of all positions, and for each line a column of its values. `undefined` says that the line has no point
 * at a position, which is not a gap. Positions of each line must ascend.
 */
export function alignLines(lines: readonly DrawnLine[]): AlignedTable {
  const all = Float64Array.from(lines.flatMap((line) => line.xs)).sort();
  const xs: number[] = [];
  for (const x of all) if (x !== xs.at(-1)) xs.push(x);
  const columns = lines.map((line) => {
    const column = new Array<number | null | undefined>(xs.length).fill(undefined);
    let place = 0;
    line.xs.forEach((x, index) => {
      while (xs[place]! < x) place += 1;
      if (xs[place] === x) column[place] = line.ys[index]!;
    });
    return column;
  });
  return [xs, ...columns];
}

/** The indices of points without a neighbour to draw a line to. */
export function isolatedIndices(column: readonly (number | null | undefined)[]): number[] {
  const isolated: number[] = [];
  let before: number | null = null;
  let candidate = -1;
  for (let index = 0; index < column.length; index += 1) {
    const value = column[index];
    if (value === undefined) continue;
    if (value === null) {
      if (candidate >= 0) isolated.push(candidate);
      candidate = -1;
    } else {
      candidate = before === null ? index : -1;
    }
    before = value;
  }
  if (candidate >= 0) isolated.push(candidate);
  return isolated;
}

/** The index of the first position that is `x` or more; the number of positions if all are less. They must ascend. */
export function firstIndexFrom(xs: ArrayLike<number>, x: number): number {
  let low = 0;
  let high = xs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle]! < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The index of the position nearest to `x`; -1 if there are none. Positions must ascend. */
export function nearestIndex(xs: ArrayLike<number>, x: number): number {
  const found = Math.min(xs.length - 1, firstIndexFrom(xs, x));
  return found > 0 && x - xs[found - 1]! <= xs[found]! - x ? found - 1 : found;
}
