import { describe, expect, it } from "vitest";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatMoney,
  formatNodesPrice,
  formatPrice,
  formatProgress,
  formatValue,
  shortId,
} from "@/lib/format";

const plain = (text: string) => text.replaceAll("\u00a0", " ");

describe("formatMoney", () => {
  it.each([
    [0, "$0.00"],
    [6_630_000, "$6.63"],
    [15_300, "$0.02"],
    [1_530, "$0.0015"],
    [16, "<$0.0001"],
    [412_060_000, "$412.06"],
    [1_234_560_000, "$1,234.56"],
    [12_345_678_900, "$12,346"],
    [-1_470_000, "−$1.47"],
  ])("writes %d micro-dollars as %s", (microusd, text) => {
    expect(formatMoney(microusd)).toBe(text);
  });

  it("calls a machine without a price own", () => {
    expect(formatPrice(0)).toBe("own");
    expect(formatPrice(1_290_000)).toBe("$1.29/h");
  });

  it("shows the price of all nodes and of one", () => {
    expect(formatNodesPrice({ price_microusd_per_hour: 1_290_000 })).toBe("$1.29/h");
    expect(formatNodesPrice({ price_microusd_per_hour: 1_000_000, nodes: 4 })).toBe(
      "$4.00/h (4 nodes at $1.00/h)",
    );
    expect(formatNodesPrice({ price_microusd_per_hour: 0, nodes: 4 })).toBe("4 nodes");
  });
});

describe("formatDuration", () => {
  it.each([
    [0.24, "0.2 s"],
    [41, "41 s"],
    [90, "1 m 30 s"],
    [119.9, "1 m"],
    [660, "11 m"],
    [6480, "1 h 48 m"],
    [7200, "2 h"],
    [137_000, "1 d 14 h"],
    [Number.POSITIVE_INFINITY, "unknown"],
  ])("writes %d seconds as %s", (seconds, text) => {
    expect(plain(formatDuration(seconds))).toBe(text);
  });
});

describe("other numbers", () => {
  it("never shows 100 % before the end", () => {
    expect(plain(formatProgress(0.999))).toBe("99 %");
    expect(plain(formatProgress(1))).toBe("100 %");
  });

  it("writes sizes in binary units", () => {
    expect(plain(formatBytes(512))).toBe("512 B");
    expect(plain(formatBytes(6_396_315))).toBe("6.1 MiB");
    expect(plain(formatBytes(2 * 1024 ** 3))).toBe("2 GiB");
  });

  it("writes metric values with four significant digits", () => {
    expect(formatValue(0.738149)).toBe("0.7381");
    expect(formatValue(123_456)).toBe("123,456");
    expect(formatValue(0.000042)).toBe("4.20e-5");
    expect(formatValue("NaN")).toBe("NaN");
  });

  it("separates thousands", () => {
    expect(formatCount(1284)).toBe("1,284");
  });

  it("shortens ids to their last eight digits", () => {
    expect(shortId("0198f3c2-7a10-7c3e-9d2b-5b1f6f0c1a2e")).toBe("6f0c1a2e");
  });
});
