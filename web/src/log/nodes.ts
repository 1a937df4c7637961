/** The machines of an attempt on several machines, as the log names them. */

import type { Schemas } from "@/api/client";
import { plural } from "@/lib/format";
import type { LogNode } from "@/log/LogToolbar";

type AttemptNodes = Pick<Schemas["AttemptDetails"], "number" | "nodes" | "processes_per_node">;

interface JobNodes {
  attempts: readonly AttemptNodes[];
}

function findAttempt(job: JobNodes, attempt: number | null): AttemptNodes | undefined {
  return attempt === null ? job.attempts.at(-1) : job.attempts.find((each) => each.number === attempt);
}

/** The machine that is shown: the chosen one, or node 0 if the attempt has no such machine. */
export function shownNode(job: JobNodes, attempt: number | null, chosen: number): number {
  return chosen < (findAttempt(job, attempt)?.nodes?.length ?? 0) ? chosen : 0;
}

/** The machines of an attempt with their ranks and hosts; none for an attempt on one machine. */
export function logNodes(job: JobNodes, attempt: number): LogNode[] {
  const found = findAttempt(job, attempt);
  return (found?.nodes ?? []).map(({ node, host }) => {
    const ranks = rankText(node, found?.processes_per_node ?? 1);
    return { node, detail: host === "" ? ranks : `${ranks}, ${host}` };
  });
}

/** "rank 1", or "ranks 8–15" for a machine with several processes. */
export function rankText(node: number, processes: number): string {
  const first = node * processes;
  return processes === 1 ? `rank ${first}` : `ranks ${first}–${first + processes - 1}`;
}

/** "2 machines, 16 ranks". */
export function sizeText(attempt: AttemptNodes): string {
  const nodes = attempt.nodes?.length ?? 0;
  const processes = attempt.processes_per_node ?? 1;
  const machines = plural(nodes, "machine");
  return processes === 1 ? machines : `${machines}, ${plural(nodes * processes, "rank")}`;
}
