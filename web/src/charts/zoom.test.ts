import { describe, expect, it } from "vitest";
import { pinch, zoomAround } from "@/charts/zoom";

describe("zooming around the crosshair", () => {
  it("keeps the crosshair at its place", () => {
    expect(zoomAround([0, 100], 20, 0.5, [0, 100])).toEqual([10, 60]);
    expect(zoomAround([10, 60], 20, 2, [0, 200])).toEqual([0, 100]);
  });

  it("stays inside the whole axis, and shows everything at the end", () => {
    expect(zoomAround([80, 100], 95, 2, [0, 100])).toEqual([60, 100]);
    expect(zoomAround([10, 90], 50, 2, [0, 100])).toBeNull();
    expect(zoomAround([10, 90], 50, 2, null)).toEqual([-30, 130]);
  });

  it("ends where positions cannot be told apart", () => {
    expect(zoomAround([5, 5 + 1e-8], 5, 0.5, [0, 100])).toEqual([5, 5 + 1e-8]);
  });
});

describe("two fingers", () => {
  it("keep the values under them", () => {
    expect(pinch([0, 100], [0.4, 0.6], [0.2, 0.8], [0, 100])).toEqual([
      expect.closeTo(33.33),
      expect.closeTo(66.67),
    ]);
    expect(pinch([20, 40], [0.25, 0.75], [0.5, 1], [0, 100])).toEqual([15, 35]);
  });

  it("show everything when they come together", () => {
    expect(pinch([40, 60], [0.1, 0.9], [0.45, 0.55], [0, 100])).toBeNull();
  });

  it("do not turn the chart around", () => {
    expect(pinch([0, 10], [0.2, 0.8], [0.8, 0.2], [0, 10])).toEqual([0, 10]);
  });
});
