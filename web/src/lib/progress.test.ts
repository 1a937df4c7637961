import { describe, expect, it } from "vitest";
import { progressFraction } from "@/lib/progress";

const nothing = { fraction: null, step: null, steps: null, epoch: null, epochs: null, message: null };

describe("progressFraction", () => {
  it("prefers what was reported, then steps, then epochs", () => {
    expect(progressFraction({ ...nothing, fraction: 0.3, step: 1, steps: 2 })).toBe(0.3);
    expect(progressFraction({ ...nothing, step: 1, steps: 4, epoch: 9, epochs: 10 })).toBe(0.25);
    expect(progressFraction({ ...nothing, epoch: 9, epochs: 10 })).toBe(0.9);
    expect(progressFraction({ ...nothing, step: 12, steps: 10 })).toBe(1);
    expect(progressFraction({ ...nothing, step: 12, steps: 0 })).toBeNull();
    expect(progressFraction(nothing)).toBeNull();
  });
});
