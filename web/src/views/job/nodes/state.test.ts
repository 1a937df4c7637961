import { describe, expect, it } from "vitest";
import type { Schemas } from "@/api/client";
import { endMessage, exitText, failedNode, nodeState } from "@/views/job/nodes/state";

const NODE = {
  node: 1,
  host: "gpu-b",
  state: "ready",
  outcome: null,
  exit_code: null,
  signal: null,
  message: "",
};
const TIME = "2026-11-17T15:00:00Z";
const RUNNING = { training_at: TIME, ended_at: null };

describe("nodeState", () => {
  it("tells a machine that waits for the others from one that runs", () => {
    const waiting = nodeState({ training_at: null, ended_at: null }, NODE);
    expect(waiting).toMatchObject({ phase: "waiting", note: "ready, waits for the other machines" });
    expect(nodeState(RUNNING, NODE)).toMatchObject({ phase: "training", note: "" });
    expect(nodeState(RUNNING, { ...NODE, state: "starting" }).phase).toBe("provisioning");
  });

  it("says how a machine ended", () => {
    const ended = { ...NODE, state: "ended", outcome: "exited", exit_code: 0 };
    expect(nodeState(RUNNING, ended)).toMatchObject({ status: "completed", note: "exit code 0" });
    expect(nodeState(RUNNING, { ...ended, exit_code: null, signal: 9 })).toMatchObject({
      status: "failed",
      note: "signal 9",
    });
    expect(nodeState(RUNNING, { ...ended, outcome: "stopped", exit_code: 143 })).toMatchObject({
      word: "Stopped",
      note: "on request",
    });
    const peer = { ...ended, outcome: "stopped", exit_code: null, message: "peer" };
    expect(nodeState(RUNNING, peer).note).toBe("because another node failed");
    expect(endMessage(peer)).toBe("");
  });

  it("says that a machine did not report its end", () => {
    expect(nodeState({ training_at: TIME, ended_at: TIME }, NODE).note).toBe("no end reported");
  });
});

describe("failedNode", () => {
  const failed: Schemas["NodeDetails"] = { ...NODE, state: "ended", outcome: "exited", exit_code: 3 };
  const stopped = { ...failed, node: 0, outcome: "stopped", exit_code: null, message: "peer" };
  const attempt = (nodes: Schemas["NodeDetails"][]) =>
    ({ exit_code: 3, signal: null, nodes }) as unknown as Schemas["AttemptDetails"];

  it("is the machine with the exit of the attempt, unless that is node 0", () => {
    const other = { ...failed, node: 2, exit_code: 1 };
    expect(failedNode(attempt([stopped, other, failed]))?.node).toBe(1);
    expect(failedNode(attempt([{ ...failed, node: 0 }, other]))).toBeNull();
    expect(failedNode(undefined)).toBeNull();
  });
});

describe("exitText", () => {
  it("is empty while the machine runs", () => {
    expect(exitText(NODE)).toBe("");
    expect(exitText({ ...NODE, outcome: "lease_lost" })).toBe("lost contact with the server");
  });
});
