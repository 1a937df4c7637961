import { describe, expect, it } from "vitest";
import { describeEvent } from "@/views/job/tabs/events";

function words(type: string, data: Record<string, unknown>) {
  return describeEvent({ position: 1, job_id: "j", at: "2026-11-17T07:00:00Z", type, version: 1, data });
}

describe("describeEvent", () => {
  it("says where an attempt starts and from which step", () => {
    const offer = { backend: "aws", name: "g5.xlarge", interruptible: true, region: "us-east-2" };
    expect(words("AttemptLaunching", { attempt: 2, offer, resume: { step: 56760 } }).text).toBe(
      "attempt 2, on aws g5.xlarge spot, us-east-2, from step 56,760",
    );
  });

  it("says what an interruption lost", () => {
    const data = { failure: { message: "machine gone" }, work_lost_s: 388, work_lost_microusd: 50_000 };
    expect(words("RecoveryStarted", { ...data, counts: false }).text).toBe(
      "machine gone, 6\u00a0m 28\u00a0s of work lost, $0.05, counts as no retry",
    );
  });

  it("reads a better place and its end", () => {
    const offer = { backend: "runpod", name: "RTX4090" };
    const better = { offer, saves_microusd: 1_470_000, sooner_s: 2280 };
    expect(words("BetterPlaceFound", { better }).text).toBe("runpod RTX4090: $1.47 less, 38\u00a0m sooner");
    expect(words("BetterPlaceFound", {}).text).toBe("no better place any more");
  });

  it("survives damaged and unknown data", () => {
    expect(words("CheckpointSaved", { checkpoint: "x" }).text).toBe("attempt ?");
    expect(words("FromTheFuture", { a: 1 }).text).toBe("1 field");
    expect(words("JobFailed", { failure: null }).tone).toBe("bad");
  });
});
