import { expect, it } from "vitest";
import { firstHits, hitText, lastHitUpTo, withNewer, withOlder, type HitsAnswer } from "@/log/hits";

const answer = (numbers: number[], more: Partial<HitsAnswer> = {}): HitsAnswer => ({
  hits: numbers.map((number) => ({ number })),
  total: numbers.length,
  truncated: false,
  next: null,
  ...more,
});

it("collects hits from the newest to the oldest", () => {
  let hits = firstHits(answer([90, 80], { total: 5, next: 80 }), 100);
  expect(hits.numbers).toEqual([80, 90]);
  expect(hitText(hits, null, String)).toBe("5 hits");
  expect(hitText(hits, 0, String)).toBe("4 of 5");
  hits = withOlder(hits, answer([70, 20, 10]));
  expect(hits.numbers).toEqual([10, 20, 70, 80, 90]);
  expect(hits.older).toBeNull();
  expect(hitText(hits, 0, String)).toBe("1 of 5");
});

it("adds hits in new lines once", () => {
  let hits = firstHits(answer([90]), 100);
  hits = withNewer(hits, answer([90, 103]), 110);
  expect(hits.numbers).toEqual([90, 103]);
  expect(hits).toMatchObject({ total: 2, searchedTo: 110 });
});

it("says when it does not know all hits", () => {
  const hits = firstHits(answer([5], { total: 300, truncated: true, next: 5 }), 10);
  expect(hitText(hits, 0, String)).toBe("300+ hits");
  expect(hitText(firstHits(answer([]), 10), null, String)).toBe("no hits");
  expect(hitText(firstHits(answer([4]), 10), null, String)).toBe("1 hit");
});

it("finds the last hit at or before a line", () => {
  expect(lastHitUpTo([3, 7, 9], 7)).toBe(1);
  expect(lastHitUpTo([3, 7, 9], 2)).toBe(-1);
  expect(lastHitUpTo([3, 7, 9], 100)).toBe(2);
});
