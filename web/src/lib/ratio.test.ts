import { expect, it } from "vitest";
import type { Schemas } from "@/api/client";
import { offBy, ratioAxis, ratioPlace, ratioPoints } from "@/lib/ratio";

const prediction = {
  wall_s: 100,
  wall_low_s: 80,
  wall_high_s: 150,
  cost_microusd: 0,
  cost_low_microusd: 0,
  cost_high_microusd: 0,
  basis: "history",
  confidence: "high",
};

function job(seconds: number, predicted: typeof prediction | null = prediction): Schemas["JudgedJob"] {
  const actual = { seconds, cost_microusd: 0 };
  return { id: "1", name: "a", backend: "local", ended_at: "", predicted, calibrated: null, actual };
}

it("places the actual value relative to the predicted one", () => {
  const [inside, outside] = ratioPoints([job(120), job(50)], "time", "before");
  expect(inside).toMatchObject({ ratio: 1.2, low: 0.8, high: 1.5, inside: true });
  expect(outside).toMatchObject({ ratio: 0.5, inside: false });
  expect(ratioPoints([job(120)], "cost", "before")).toEqual([]);
  expect(ratioPoints([job(120)], "time", "first-steps")).toEqual([]);
  expect(ratioPoints([job(120, null)], "time", "before")).toEqual([]);
});

it("chooses the smallest axis for nine of ten points", () => {
  expect(ratioAxis([]).span).toBe(2);
  expect(ratioAxis(ratioPoints([job(120)], "time", "before")).span).toBe(2);
  expect(ratioAxis(ratioPoints([job(350)], "time", "before")).span).toBe(4);
  expect(ratioAxis(ratioPoints([job(5000)], "time", "before")).span).toBe(10);
});

it("is logarithmic and stays on the axis", () => {
  expect(ratioPlace(1, 2)).toBe(0.5);
  expect(ratioPlace(2, 2)).toBe(1);
  expect(ratioPlace(0.5, 2)).toBe(0);
  expect(ratioPlace(2, 4)).toBe(0.75);
  expect(ratioPlace(0, 4)).toBe(0);
});

it("says by how much the prediction was off", () => {
  expect([1.02, 0.914, 1.001, 2].map(offBy)).toEqual(["+2\u00a0%", "−9\u00a0%", "0\u00a0%", "+100\u00a0%"]);
});

it("leaves out what has no cost, and compares the cost of the others", () => {
  const cost = { ...prediction, cost_microusd: 100, cost_low_microusd: 80, cost_high_microusd: 120 };
  const paid = { ...job(100, cost), actual: { seconds: 100, cost_microusd: 110 } };
  expect(ratioPoints([job(100, cost), paid], "cost", "before")).toMatchObject([{ ratio: 1.1, inside: true }]);
});
