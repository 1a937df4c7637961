import { useSession } from "@/app/session";
import { attemptColour, vars } from "@/lib/css";
import { formatBytes, formatCount, plural } from "@/lib/format";
import { absoluteTime, shortTime } from "@/lib/time";
import type { Schemas } from "@/api/client";
import { Button } from "@/ui/Button";
import { EmptyState, ErrorState, Skeleton } from "@/ui/states";
import { isEnded } from "@/ui/Status";
import { useNow } from "@/ui/Time";
import type { JobRequests } from "@/views/job/actions";
import type { Job } from "@/views/job/merge";
import { DownloadLink, Hash } from "@/views/job/tabs/files";
import { PreviewButton } from "@/views/job/tabs/PreviewDialog";
import { useCheckpoints } from "@/views/job/header/ResumeDialog";

type Checkpoint = Schemas["CheckpointDetails"];

interface CheckpointsTabProps {
  job: Job;
  requests: JobRequests;
}

/** The checkpoints that are kept, newest first, with their files. */
export function CheckpointsTab({ job, requests }: CheckpointsTabProps) {
  const query = useCheckpoints(job);
  if (query.data === undefined) {
    return query.error === null ? (
      <Skeleton label="Loading the checkpoints" />
    ) : (
      <ErrorState
        title="The checkpoints could not be loaded"
        error={query.error}
        onRetry={() => void query.refetch()}
      />
    );
  }
  const kept = query.data;
  if (kept.length === 0) {
    return (
      <EmptyState small title="No checkpoint yet">
        A job that saves checkpoints loses little when its machine is taken back. Name the files with{" "}
        <code>checkpoint.paths</code>, or call <code>anygpu.checkpoint()</code>.
      </EmptyState>
    );
  }
  const saved = job.attempts.reduce((total, each) => total + each.checkpoints_saved, 0);
  const size = kept.reduce((total, each) => total + each.size, 0);
  return (
    <section className="panel">
      <header>
        <h2>Checkpoints</h2>
        <span className="sub">
          {formatCount(saved)} saved, {formatCount(kept.length)} kept, {formatBytes(size)}
        </span>
      </header>
      <div className="scroll-x" tabIndex={0} role="region" aria-label="Checkpoints">
        <table className="tbl wide">
          <thead>
            <tr>
              <th className="num">Step</th>
              <th className="num">Epoch</th>
              <th className="num">Saved</th>
              <th className="num">Attempt</th>
              <th>Files</th>
              <th>
                <span className="sr">Note</span>
              </th>
              <th>
                <span className="sr">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {kept.map((each) => (
              <CheckpointRow key={each.id} job={job} checkpoint={each} requests={requests} />
            ))}
          </tbody>
        </table>
      </div>
      {!isEnded(job.status) && (
        <footer className="panel-foot t3 small">
          If its machine is lost, the job resumes from the newest intact checkpoint by itself. To resume from
          an earlier one, cancel the job first.
        </footer>
      )}
    </section>
  );
}

interface CheckpointRowProps extends CheckpointsTabProps {
  checkpoint: Checkpoint;
}

function CheckpointRow({ job, checkpoint, requests }: CheckpointRowProps) {
  const { can } = useSession();
  const now = useNow();
  const canResume = can("write") && isEnded(job.status) && checkpoint.problem === null;
  return (
    <tr>
      <td className="num med">{formatCount(checkpoint.step)}</td>
      <td className="num">{checkpoint.epoch === null ? "" : formatCount(checkpoint.epoch)}</td>
      <td className="num" title={absoluteTime(checkpoint.saved_at)}>
        {shortTime(checkpoint.saved_at, now)}
      </td>
      <td className="num">
        {checkpoint.inherited ? (
          "before"
        ) : (
          <>
            <i className="swatch" style={vars({ "--c": attemptColour(checkpoint.attempt) })} />{" "}
            {checkpoint.attempt}
          </>
        )}
      </td>
      <td>
        <FileList checkpoint={checkpoint} />
      </td>
      <td className="t2">{checkpointNote(checkpoint)}</td>
      <td className="num">
        {canResume && (
          <Button
            look={checkpoint.newest ? "default" : "quiet"}
            icon="play"
            disabled={requests.resume.isPending}
            onClick={() => requests.resume.mutate(checkpoint.step)}
          >
            Resume from here
          </Button>
        )}
      </td>
    </tr>
  );
}

function FileList({ checkpoint }: { checkpoint: Checkpoint }) {
  if (checkpoint.problem !== null) return <span className="bad">{checkpoint.problem}</span>;
  return (
    <ul className="file-list">
      {checkpoint.files.map((file) => (
        <li key={file.path}>
          <span className="cut" title={file.path}>
            {file.path}
          </span>
          <span className="num">{formatBytes(file.size)}</span>
          <Hash sha256={file.sha256} />
          <span className="row">
            {file.preview !== null && (
              <PreviewButton name={file.path} download={file.download} kind={file.preview} mini />
            )}
            <DownloadLink
              href={file.download}
              label={`Download ${file.path} of step ${checkpoint.step}`}
              mini
            />
          </span>
        </li>
      ))}
    </ul>
  );
}

function checkpointNote(checkpoint: Checkpoint): string {
  const notes: string[] = [];
  if (checkpoint.newest) notes.push("newest, resumed from next");
  if (checkpoint.inherited) notes.push("of the job that this one continues");
  if (checkpoint.resumed_attempts.length > 0) {
    notes.push(
      `${plural(checkpoint.resumed_attempts.length, "attempt")} started here: ${checkpoint.resumed_attempts.join(", ")}`,
    );
  }
  return notes.join("; ");
}
