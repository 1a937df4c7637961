import { describe, expect, it } from "vitest";
import { absoluteTime, clockTime, dayText, relativeTime, shortTime } from "@/lib/time";

const NOW = Date.parse("2026-11-17T15:32:00Z");
const plain = (text: string) => text.replaceAll("\u00a0", " ");

describe("relativeTime", () => {
  it.each([
    ["2026-11-17T15:31:58Z", "just now"],
    ["2026-11-17T15:31:20Z", "40 s ago"],
    ["2026-11-17T15:20:30Z", "11 m ago"],
    ["2026-11-17T07:00:00Z", "8 h ago"],
    ["2026-11-14T15:00:00Z", "3 d ago"],
    ["2026-11-17T15:37:00Z", "in 5 m"],
  ])("writes %s as %s", (iso, text) => {
    expect(plain(relativeTime(iso, NOW))).toBe(text);
  });
});

describe("times that are no dates", () => {
  it.each([NaN, Infinity, 1e20])("are unknown: %s", (time) => {
    const texts = [absoluteTime(time), clockTime(time, true), dayText(time), shortTime(time, NOW)];
    expect(texts).toEqual(["unknown", "unknown", "unknown", "unknown"]);
  });
});
