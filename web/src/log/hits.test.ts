import { expect, it } from "vitest";
import {
  continuedHits,
  firstHits,
  hitText,
  lastHitUpTo,
  unfinishedFrom,
  withNewer,
  withOlder,
  type HitsAnswer,
} from "@/log/hits";

const all = (lines: number, bytes = 1000) => ({ lines, complete: lines, bytes });

const answer = (numbers: number[], more: Partial<HitsAnswer> = {}): HitsAnswer => ({
  hits: numbers.map((number) => ({ number })),
  total: numbers.length,
  truncated: false,
  next: null,
  ...more,
});

it("collects hits from the newest to the oldest", () => {
  let hits = firstHits(answer([90, 80], { total: 5, next: 80 }), all(100));
  expect(hits.numbers).toEqual([80, 90]);
  expect(hitText(hits, null, String)).toBe("5 hits");
  expect(hitText(hits, 0, String)).toBe("4 of 5");
  hits = withOlder(hits, answer([70, 20, 10]));
  expect(hits.numbers).toEqual([10, 20, 70, 80, 90]);
  expect(hits.older).toBeNull();
  expect(hitText(hits, 0, String)).toBe("1 of 5");
});

it("adds hits in new lines once", () => {
  let hits = firstHits(answer([90]), all(100));
  hits = withNewer(hits, answer([90, 103]), all(110, 1100));
  expect(hits.numbers).toEqual([90, 103]);
  expect(hits).toMatchObject({ total: 2, searchedTo: 110, searchedBytes: 1100 });
});

it("searches an unfinished line again", () => {
  let hits = firstHits(answer([90, 3]), { lines: 91, complete: 90, bytes: 1000 });
  expect(hits).toMatchObject({ searchedTo: 90, searchedBytes: 1000 });
  hits = withNewer(hits, answer([91, 92]), { lines: 92, complete: 91, bytes: 1010 });
  expect(hits).toMatchObject({ numbers: [3, 90, 91, 92], total: 4, searchedTo: 91 });
  hits = withNewer(hits, answer([]), { lines: 92, complete: 91, bytes: 1020 });
  expect(hits).toMatchObject({ numbers: [3, 90, 91], total: 3, searchedTo: 91, searchedBytes: 1020 });
});

it("goes on where a search for new hits ended before the end of the log", () => {
  let hits = firstHits(answer([]), all(100));
  hits = withNewer(hits, answer([120], { next: 120 }), all(500, 5000));
  expect(hits).toMatchObject({ numbers: [120], searchedTo: 120, searchedBytes: 1000 });
});

it("goes on backwards as long as nothing was found", () => {
  let hits = firstHits(answer([], { truncated: true, next: 80 }), all(100));
  expect(unfinishedFrom(hits)).toBe(80);
  expect(hitText(hits, null, String)).toBe("searching");
  hits = continuedHits(hits, answer([], { truncated: true, next: 40 }));
  expect(unfinishedFrom(hits)).toBe(40);
  const found = continuedHits(hits, answer([30], { truncated: true, next: 20 }));
  expect(found).toMatchObject({ numbers: [30], older: 20, searchedTo: 100, searchedBytes: 1000 });
  expect(unfinishedFrom(found)).toBeNull();
  expect(hitText(found, null, String)).toBe("1+ hits");
  const none = continuedHits(hits, answer([]));
  expect(unfinishedFrom(none)).toBeNull();
  expect(hitText(none, null, String)).toBe("no hits");
});

it("says when it does not know all hits", () => {
  const hits = firstHits(answer([5], { total: 300, truncated: true, next: 5 }), all(10));
  expect(hitText(hits, 0, String)).toBe("300+ hits");
  expect(hitText(firstHits(answer([]), all(10)), null, String)).toBe("no hits");
  expect(hitText(firstHits(answer([4]), all(10)), null, String)).toBe("1 hit");
});

it("finds the last hit at or before a line", () => {
  expect(lastHitUpTo([3, 7, 9], 7)).toBe(1);
  expect(lastHitUpTo([3, 7, 9], 2)).toBe(-1);
  expect(lastHitUpTo([3, 7, 9], 100)).toBe(2);
});
