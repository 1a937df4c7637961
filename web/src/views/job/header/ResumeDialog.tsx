import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "@/api/client";
import { formatBytes, formatCount } from "@/lib/format";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { ErrorState, Skeleton } from "@/ui/states";
import { RelativeTime } from "@/ui/Time";
import type { JobRequests } from "@/views/job/actions";
import { checkpointsKey } from "@/views/job/data";
import type { Job } from "@/views/job/merge";

export function useCheckpoints(job: Job) {
  return useQuery({
    queryKey: checkpointsKey(job.id),
    queryFn: async () => {
      const answer = await unwrap(
        api.GET("/api/v1/training/{ref}/checkpoints", { params: { path: { ref: job.id } } }),
      );
      return answer.checkpoints.toReversed();
    },
  });
}

interface ResumeDialogProps {
  job: Job;
  requests: JobRequests;
  open: boolean;
  onClose: () => void;
}

/** Chooses the checkpoint from which a new job continues. */
export function ResumeDialog({ job, requests, open, onClose }: ResumeDialogProps) {
  return (
    <Dialog open={open} onClose={onClose} title="Resume the job">
      {open && <CheckpointChoice job={job} requests={requests} onClose={onClose} />}
    </Dialog>
  );
}

function CheckpointChoice({ job, requests, onClose }: Omit<ResumeDialogProps, "open">) {
  const query = useCheckpoints(job);
  const [chosen, setChosen] = useState<number | null>(null);
  if (query.data === undefined) {
    return query.error === null ? (
      <Skeleton label="Loading the checkpoints" rows={2} />
    ) : (
      <ErrorState title="The checkpoints could not be loaded" error={query.error} />
    );
  }
  const usable = query.data.filter((each) => each.problem === null);
  const step = chosen ?? usable[0]?.step ?? null;
  return (
    <>
      <p className="t2">A new job continues from the checkpoint, with the same spec and files.</p>
      <div className="choice-list" role="radiogroup" aria-label="Checkpoint">
        {usable.map((each, index) => (
          <label key={each.id}>
            <input
              type="radio"
              name="checkpoint"
              checked={each.step === step}
              onChange={() => setChosen(each.step)}
            />
            <b>step {formatCount(each.step)}</b>
            <span className="t3">
              <RelativeTime at={each.saved_at} />, {formatBytes(each.size)}
              {index === 0 && ", newest"}
            </span>
          </label>
        ))}
      </div>
      <div className="row dialog-actions">
        <Button onClick={onClose}>Close</Button>
        <Button
          look="primary"
          disabled={step === null || requests.resume.isPending}
          onClick={() => {
            requests.resume.mutate(step);
            onClose();
          }}
        >
          Resume from step {step === null ? "–" : formatCount(step)}
        </Button>
      </div>
    </>
  );
}
