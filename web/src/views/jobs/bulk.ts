/** Do one action for several jobs, and say which of them failed. */

import { asProblem } from "@/api/client";
import { showToast } from "@/app/toasts";
import { plural } from "@/lib/format";
import type { JobSummary } from "@/views/jobs/store";

const AT_ONCE = 6;

export interface BulkResult {
  done: JobSummary[];
  failed: { job: JobSummary; reason: string }[];
}

/** Run an action for each job, a few at a time. */
export async function forEachJob(
  jobs: readonly JobSummary[],
  action: (job: JobSummary) => Promise<JobSummary>,
): Promise<BulkResult> {
  const result: BulkResult = { done: [], failed: [] };
  const waiting = [...jobs];
  const work = async () => {
    for (let job = waiting.shift(); job !== undefined; job = waiting.shift()) {
      try {
        result.done.push(await action(job));
      } catch (error) {
        result.failed.push({ job, reason: asProblem(error).message });
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return result;
}

/** Tell about failures. What succeeded is visible in the list. */
export function reportFailures(verb: string, { failed }: BulkResult): void {
  const first = failed[0];
  if (first === undefined) return;
  const name = first.job.name || first.job.id;
  showToast({
    title: `${plural(failed.length, "job")} could not be ${verb}`,
    text: `${name}: ${first.reason}`,
  });
}
