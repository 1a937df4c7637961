import { describe, expect, it } from "vitest";
import { logNodes, rankText, shownNode, sizeText } from "@/log/nodes";

const node = (number: number, host: string) => ({
  node: number,
  host,
  state: "ready",
  outcome: null,
  exit_code: null,
  signal: null,
  message: "",
});

const JOB = {
  attempts: [
    { number: 1, nodes: [node(0, "gpu-a"), node(1, "")], processes_per_node: 1 },
    { number: 2, nodes: [node(0, "gpu-a"), node(1, "gpu-b"), node(2, "gpu-c")], processes_per_node: 8 },
  ],
};

describe("shownNode", () => {
  it("is the chosen machine of the shown attempt, else node 0", () => {
    expect(shownNode(JOB, null, 2)).toBe(2);
    expect(shownNode(JOB, 1, 2)).toBe(0);
    expect(shownNode(JOB, 1, 1)).toBe(1);
    expect(shownNode({ attempts: [] }, null, 1)).toBe(0);
  });
});

describe("logNodes", () => {
  it("names ranks and hosts, as far as they are known", () => {
    expect(logNodes(JOB, 1)).toEqual([
      { node: 0, detail: "rank 0, gpu-a" },
      { node: 1, detail: "rank 1" },
    ]);
    expect(logNodes(JOB, 2).map((each) => each.detail)).toEqual([
      "ranks 0–7, gpu-a",
      "ranks 8–15, gpu-b",
      "ranks 16–23, gpu-c",
    ]);
  });
});

describe("texts", () => {
  it("count machines and ranks", () => {
    expect(rankText(3, 1)).toBe("rank 3");
    expect(sizeText(JOB.attempts[0]!)).toBe("2 machines");
    expect(sizeText(JOB.attempts[1]!)).toBe("3 machines, 24 ranks");
  });
});
