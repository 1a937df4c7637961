import { useState } from "react";
import { api, unwrap } from "@/api/client";
import { plural } from "@/lib/format";
import { ConfirmDialog } from "@/ui/Dialog";
import { forEachJob, reportFailures } from "@/views/jobs/bulk";
import type { JobSummary } from "@/views/jobs/store";

interface CancelDialogProps {
  jobs: readonly JobSummary[];
  onClose: () => void;
  onChanged: (jobs: readonly JobSummary[]) => void;
}

/** Asks before jobs are cancelled, and says what is lost and what is kept. */
export function CancelDialog({ jobs, onClose, onChanged }: CancelDialogProps) {
  const [pending, setPending] = useState(false);
  const cancel = async () => {
    setPending(true);
    const result = await forEachJob(jobs, (job) =>
      unwrap(api.POST("/api/v1/training/{ref}/cancel", { params: { path: { ref: job.id } } })),
    );
    reportFailures("cancelled", result);
    onChanged(result.done);
    onClose();
  };
  const one = jobs.length === 1;
  const name = jobs[0]?.name || "this job";
  return (
    <ConfirmDialog
      open
      title={one ? `Cancel ${name}?` : `Cancel ${plural(jobs.length, "job")}?`}
      keep={one ? "Keep it running" : "Keep them running"}
      act={one ? "Cancel the job" : `Cancel ${plural(jobs.length, "job")}`}
      pending={pending}
      onKeep={onClose}
      onAct={() => void cancel()}
    >
      <p>{lossText(jobs)}</p>
      <p>Logs, metrics, checkpoints and files that are stored are kept. Rented machines are ended.</p>
    </ConfirmDialog>
  );
}

function lossText(jobs: readonly JobSummary[]): string {
  const running = jobs.filter((job) => job.attempt > 0);
  const saved = running.filter((job) => job.checkpoint !== null);
  if (running.length === 0) return "Nothing has started yet, so no work is lost.";
  if (saved.length === 0) return "No checkpoint was saved, so all work so far is lost.";
  if (saved.length === running.length) {
    const [first] = saved;
    const at = saved.length === 1 ? ` (step ${first?.checkpoint?.step})` : "";
    return `Work since the last checkpoint${at} is lost. You can resume from the checkpoint later.`;
  }
  return (
    `${plural(saved.length, "job has", "jobs have")} a checkpoint and can be resumed from it. ` +
    `The others lose all work so far.`
  );
}
