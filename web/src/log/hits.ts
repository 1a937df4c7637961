/** The lines that a search found: the newest ones, and how many there are. */

export interface HitsAnswer {
  hits: { number: number }[];
  total: number;
  truncated: boolean;
  next: number | null;
}

export interface Hits {
  /** Line numbers, ascending. Without a gap up to `searchedTo`. */
  numbers: readonly number[];
  total: number;
  /** Whether there may be more than `total`. */
  isLowerBound: boolean;
  /** Where to continue the search backwards; null if all older hits are known. */
  older: number | null;
  searchedTo: number;
}

/** The hits of a search backwards from the end of a log with `totalLines` lines. */
export function firstHits(answer: HitsAnswer, totalLines: number): Hits {
  return {
    numbers: answer.hits.map((hit) => hit.number).toReversed(),
    total: answer.total,
    isLowerBound: answer.truncated,
    older: answer.next,
    searchedTo: totalLines,
  };
}

/** Add the hits of a search backwards from `hits.older`. */
export function withOlder(hits: Hits, answer: HitsAnswer): Hits {
  const older = answer.hits.map((hit) => hit.number).toReversed();
  const numbers = [...older, ...hits.numbers];
  const isLowerBound = hits.isLowerBound && answer.next !== null;
  const total = Math.max(hits.total, numbers.length);
  return { ...hits, numbers, older: answer.next, total, isLowerBound };
}

/** Add the hits of a search forwards from `hits.searchedTo`, after new lines arrived. */
export function withNewer(hits: Hits, answer: HitsAnswer, totalLines: number): Hits {
  const newer = answer.hits.map((hit) => hit.number).filter((number) => number > hits.searchedTo);
  const searchedTo = answer.next ?? Math.max(totalLines, newer.at(-1) ?? 0);
  return {
    ...hits,
    numbers: [...hits.numbers, ...newer],
    total: hits.total + newer.length,
    searchedTo,
  };
}

/** Index of the last hit at or before a line; -1 if there is none. */
export function lastHitUpTo(numbers: readonly number[], line: number): number {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle]! <= line) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** "12 of 2,406", "2,406 hits" or "300,000+ hits". `current` is an index of `numbers`, or null. */
export function hitText(hits: Hits, current: number | null, format: (value: number) => string): string {
  if (hits.total === 0) return hits.isLowerBound ? "searching" : "no hits";
  if (hits.isLowerBound) return `${format(hits.total)}+ hits`;
  if (current === null) return hits.total === 1 ? "1 hit" : `${format(hits.total)} hits`;
  return `${format(hits.total - hits.numbers.length + current + 1)} of ${format(hits.total)}`;
}
