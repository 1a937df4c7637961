/** What a machine of an attempt does, or how it ended, in words. */

import type { Schemas } from "@/api/client";

type Attempt = Pick<Schemas["AttemptDetails"], "training_at" | "ended_at">;
type NodeDetails = Schemas["NodeDetails"];

export interface NodeState {
  /** Status and phase, as the status icon takes them. */
  status: string;
  phase: string;
  /** The word beside the icon; empty: that of the phase or status. */
  word: string;
  /** What the icon and the word do not say, such as "waits for the other machines". */
  note: string;
}

const OUTCOMES: Record<string, string> = {
  cancelled: "by a cancel",
  stopped: "on request",
  timeout: "time limit reached",
  failed_to_start: "could not start",
  lease_lost: "lost contact with the server",
  results_missing: "results not uploaded",
};
/** The message of a machine that was stopped because another one failed. */
const PEER = "peer";
const STOPS = new Set(["cancelled", "stopped"]);

/** The state of a machine. A machine that has not reported its end when the attempt ends has no exit. */
export function nodeState(attempt: Attempt, node: NodeDetails): NodeState {
  if (node.outcome !== null) return endState(node);
  if (attempt.ended_at !== null) return active("cancelled", "", "no end reported", "Unknown");
  if (node.state === "ready") {
    return attempt.training_at === null
      ? active("running", "waiting", "ready, waits for the other machines")
      : active("running", "training");
  }
  return active("running", node.state === "preparing" ? "preparing" : "provisioning");
}

function active(status: string, phase: string, note = "", word = ""): NodeState {
  return { status, phase, note, word };
}

function endState(node: NodeDetails): NodeState {
  const note = exitText(node);
  if (!hasFailed(node)) return { status: "completed", phase: "", word: "", note };
  if (STOPS.has(node.outcome ?? "")) return { status: "cancelled", phase: "", word: "Stopped", note };
  return { status: "failed", phase: "", word: "", note };
}

function hasFailed(node: NodeDetails): boolean {
  return node.outcome !== null && !(node.outcome === "exited" && node.exit_code === 0);
}

/** What the machine says about its end. Why it was stopped is in `exitText`. */
export function endMessage(node: NodeDetails): string {
  return STOPS.has(node.outcome ?? "") ? "" : node.message;
}

/** The machine whose failure ended the attempt, if it is not node 0, whose output the page shows anyway. */
export function failedNode(attempt: Schemas["AttemptDetails"] | undefined): NodeDetails | null {
  const failed = (attempt?.nodes ?? []).filter((node) => hasFailed(node) && !STOPS.has(node.outcome ?? ""));
  const isCause = (node: NodeDetails) =>
    node.exit_code === attempt?.exit_code && node.signal === attempt?.signal;
  const cause = failed.find(isCause) ?? failed[0];
  return cause === undefined || cause.node === 0 ? null : cause;
}

/** "exit code 1", "signal 9", or how it was stopped; empty while it runs. */
export function exitText({ outcome, exit_code, signal, message }: NodeDetails): string {
  if (outcome === "stopped" && message === PEER) return "because another node failed";
  if (outcome !== null && outcome !== "exited") return OUTCOMES[outcome] ?? outcome;
  if (signal !== null) return `signal ${signal}`;
  return exit_code === null ? "" : `exit code ${exit_code}`;
}
