/** The lines that a search found: the newest ones, and how many there are. */

export interface HitsAnswer {
  hits: { number: number }[];
  total: number;
  truncated: boolean;
  next: number | null;
}

/** How far the page knows a log. */
export interface LogExtent {
  lines: number;
  /** Number of complete lines. The last line may be unfinished. */
  complete: number;
  bytes: number;
}

export interface Hits {
  /** Line numbers, ascending. Without a gap up to `searchedTo`; those after it are searched again. */
  numbers: readonly number[];
  total: number;
  /** Whether there may be more than `total`. */
  isLowerBound: boolean;
  /** Where to continue the search backwards; null if all older hits are known. */
  older: number | null;
  /** Lines up to this one were complete when they were searched. */
  searchedTo: number;
  /** Size of the log when it was searched to its end. */
  searchedBytes: number;
}

/** The hits of a search backwards from the end of a log. */
export function firstHits(answer: HitsAnswer, log: LogExtent): Hits {
  return { ...newestHits(answer), searchedTo: log.complete, searchedBytes: log.bytes };
}

function newestHits(answer: HitsAnswer): Pick<Hits, "numbers" | "total" | "isLowerBound" | "older"> {
  return {
    numbers: answer.hits.map((hit) => hit.number).toReversed(),
    total: answer.total,
    isLowerBound: answer.truncated,
    older: answer.next,
  };
}

/** Where to continue a search that found nothing before its time was over; null if there is no need. */
export function unfinishedFrom(hits: Hits): number | null {
  return hits.numbers.length === 0 ? hits.older : null;
}

/** The hits of a search that was continued backwards because it had found nothing yet. */
export function continuedHits(hits: Hits, answer: HitsAnswer): Hits {
  return { ...hits, ...newestHits(answer) };
}

/** Add the hits of a search backwards from `hits.older`. */
export function withOlder(hits: Hits, answer: HitsAnswer): Hits {
  const older = answer.hits.map((hit) => hit.number).toReversed();
  const numbers = [...older, ...hits.numbers];
  const isLowerBound = hits.isLowerBound && answer.next !== null;
  const total = Math.max(hits.total, numbers.length);
  return { ...hits, numbers, older: answer.next, total, isLowerBound };
}

/** Add the hits of a search forwards from `hits.searchedTo`, after the log has grown to `log`. */
export function withNewer(hits: Hits, answer: HitsAnswer, log: LogExtent): Hits {
  const known = hits.numbers.filter((number) => number <= hits.searchedTo);
  const newer = answer.hits.map((hit) => hit.number).filter((number) => number > hits.searchedTo);
  const numbers = [...known, ...newer];
  return {
    ...hits,
    numbers,
    total: hits.total + numbers.length - hits.numbers.length,
    searchedTo: Math.min(log.complete, answer.next ?? log.complete),
    searchedBytes: answer.next === null ? log.bytes : hits.searchedBytes,
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
