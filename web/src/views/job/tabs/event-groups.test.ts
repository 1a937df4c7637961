import { describe, expect, it } from "vitest";
import { groupEvents } from "@/views/job/tabs/event-groups";
import type { JobEvent } from "@/views/job/merge";

const event = (position: number, type = "CheckpointSaved"): JobEvent => ({
  position,
  job_id: "j",
  at: "2026-11-17T07:00:00Z",
  type,
  version: 1,
  data: {},
});

describe("groupEvents", () => {
  it("folds runs of saved checkpoints and keeps the order", () => {
    const events = [9, 8, 7, 6].map((each) => event(each));
    const groups = groupEvents([event(10, "JobPlanned"), ...events, event(5, "TrainingStarted"), event(4)]);
    expect(groups.map((each) => (each.kind === "run" ? each.events.length : each.event.type))).toEqual([
      "JobPlanned",
      4,
      "TrainingStarted",
      "CheckpointSaved",
    ]);
  });

  it("keeps a run at the end", () => {
    expect(groupEvents([1, 2, 3, 4].map((each) => event(each)))).toHaveLength(1);
    expect(groupEvents([])).toEqual([]);
  });
});
