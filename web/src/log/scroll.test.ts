import { describe, expect, it } from "vitest";
import {
  afterScroll,
  endPosition,
  isAtEnd,
  LINE_HEIGHT,
  MAX_HEIGHT,
  positionOfLine,
  scrolledHeight,
  shownLines,
  topOf,
  visibleLines,
  type ScrollPosition,
} from "@/log/scroll";

const small = { lines: 1000, viewport: 400 };
const large = { lines: 10_000_000, viewport: 400 };

describe("a log that fits into an element", () => {
  it("scrolls by pixels", () => {
    expect(scrolledHeight(small)).toBe(20_000);
    expect(afterScroll({ top: 0, position: 0 }, 5000, small)).toEqual({ top: 5000, position: 5000 });
    expect(visibleLines(5000, small, 0)).toEqual({ first: 251, last: 270 });
    expect(visibleLines(0, small, 10)).toEqual({ first: 1, last: 30 });
  });

  it("knows its end", () => {
    const end = endPosition(small);
    expect(end).toEqual({ top: 19_600, position: 19_600 });
    expect(isAtEnd(end, small)).toBe(true);
    expect(isAtEnd({ top: 0, position: 19_000 }, small)).toBe(false);
    expect(endPosition({ lines: 3, viewport: 400 })).toEqual({ top: 0, position: 0 });
  });
});

describe("a log that is higher than an element can be", () => {
  it("limits the height and reaches both ends", () => {
    expect(scrolledHeight(large)).toBe(MAX_HEIGHT);
    const end = endPosition(large);
    expect(visibleLines(end.position, large, 0).last).toBe(10_000_000);
    expect(end.top).toBe(MAX_HEIGHT - 400);
    const jumped = afterScroll({ top: 0, position: 0 }, MAX_HEIGHT - 400, large);
    expect(isAtEnd(jumped, large)).toBe(true);
    expect(afterScroll(end, 0, large).position).toBe(0);
  });

  it("goes to the proportional place when the scroll bar is dragged", () => {
    const middle = afterScroll({ top: 0, position: 0 }, (MAX_HEIGHT - 400) / 2, large);
    expect(visibleLines(middle.position, large, 0).first).toBeCloseTo(5_000_000, -2);
  });

  it("moves by pixels with the wheel, and shows every line on the way to the end", () => {
    let state = positionOfLine(9_999_000, large);
    const seen = new Set<number>();
    let steps = 0;
    while (!isAtEnd(state, large) && steps < 1000) {
      const top: number = Math.min(state.top + 100, MAX_HEIGHT - 400);
      const next: ScrollPosition = afterScroll(state, top, large);
      expect(next.position - state.position).toBeLessThanOrEqual(100);
      state = next;
      const { first, last } = visibleLines(state.position, large, 0);
      for (let line = first; line <= last; line += 1) seen.add(line);
      steps += 1;
    }
    expect(isAtEnd(state, large)).toBe(true);
    for (let line = 9_999_010; line <= 10_000_000; line += 1) expect(seen.has(line)).toBe(true);
  });

  it("corrects a scroll bar that drifted far", () => {
    let state = positionOfLine(5_000_000, large);
    const start = state.position;
    for (let step = 0; step < 200; step += 1) state = afterScroll(state, state.top - 100, large);
    expect(state.position).toBe(start - 20_000);
    expect(Math.abs(state.top - topOf(state.position, large))).toBeLessThanOrEqual(400);
  });
});

describe("positionOfLine", () => {
  it("puts the line into the middle", () => {
    const { position } = positionOfLine(500, small);
    expect(position).toBe(499 * LINE_HEIGHT - 190);
    expect(positionOfLine(1, small).position).toBe(0);
    expect(positionOfLine(1000, small).position).toBe(19_600);
  });
});

describe("shownLines", () => {
  const visible = { first: 1001, last: 1060 };

  it("keeps selected lines in the page without the lines between them and the visible ones", () => {
    const above = { first: 1, last: 3 };
    expect(shownLines({ first: 999_941, last: 1_000_000 }, above)).toEqual({
      ranges: [above, { first: 999_941, last: 1_000_000 }],
      gap: 20_000,
      above: 20_000 + 3 * LINE_HEIGHT,
    });
    const below = { first: 1063, last: 1070 };
    expect(shownLines(visible, below)).toEqual({ ranges: [visible, below], gap: 2 * LINE_HEIGHT, above: 0 });
  });

  it("joins selected lines with the visible ones where they touch", () => {
    expect(shownLines(visible, null)).toEqual({ ranges: [visible], gap: 0, above: 0 });
    expect(shownLines(visible, { first: 991, last: 1000 })).toEqual({
      ranges: [{ first: 991, last: 1060 }],
      gap: 0,
      above: 10 * LINE_HEIGHT,
    });
    expect(shownLines(visible, { first: 1010, last: 1061 }).ranges).toEqual([{ first: 1001, last: 1061 }]);
  });
});
