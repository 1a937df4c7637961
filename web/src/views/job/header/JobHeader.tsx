import { Link } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";
import { useSession } from "@/app/session";
import { showToast } from "@/app/toasts";
import { copyText } from "@/lib/clipboard";
import { shortId } from "@/lib/format";
import { IconButton } from "@/ui/Button";
import { Icon } from "@/ui/Icon";
import { Status } from "@/ui/Status";
import { RelativeTime } from "@/ui/Time";
import type { JobRequests } from "@/views/job/actions";
import { InlineEdit, Notes } from "@/views/job/header/InlineEdit";
import type { Job } from "@/views/job/merge";
import { TagList } from "@/views/job/header/TagList";

interface JobHeaderProps {
  job: Job;
  requests: JobRequests;
  actions: ReactNode;
}

/** Name, status, origin, tags and notes of the job, and what can be done with it. */
export function JobHeader({ job, requests, actions }: JobHeaderProps) {
  const { can, identity } = useSession();
  const [renaming, setRenaming] = useState(false);
  const [writing, setWriting] = useState(false);
  const canEdit = can("write") && job.damaged === null;
  const title = job.name || shortId(job.id);
  return (
    <div className="job-head">
      <div className="ttl">
        {renaming ? (
          <InlineEdit
            label="Name of the job"
            value={job.name}
            onSave={(name) => requests.edit.mutate({ name })}
            onClose={() => setRenaming(false)}
          />
        ) : (
          <h1>{title}</h1>
        )}
        <Status pill status={job.status} phase={job.cancel_requested ? "cancelling" : job.phase} />
        {canEdit && !renaming && (
          <IconButton icon="edit" label="Rename the job" mini onClick={() => setRenaming(true)} />
        )}
      </div>
      <div className="meta">
        <CopyId id={job.id} />
        <span>
          submitted <RelativeTime at={job.submitted_at} /> by{" "}
          {job.person === identity.person ? "you" : job.person || "nobody known"}
        </span>
        {job.attempt > 1 && <span>attempt {job.attempt}</span>}
        {job.resumed_from !== null && (
          <span>
            continues{" "}
            <Link className="link" to="/jobs/$ref" params={{ ref: job.resumed_from }}>
              {shortId(job.resumed_from)}
            </Link>
          </span>
        )}
        <TagList
          tags={job.tags}
          editable={canEdit}
          onAdd={(tag) => requests.edit.mutate({ add_tags: [tag] })}
          onRemove={(tag) => requests.edit.mutate({ remove_tags: [tag] })}
        />
        {canEdit && job.notes === "" && !writing && (
          <button type="button" className="link-quiet" onClick={() => setWriting(true)}>
            Add a note
          </button>
        )}
      </div>
      <Notes
        notes={job.notes}
        editable={canEdit}
        writing={writing}
        onWrite={setWriting}
        onSave={(notes) => requests.edit.mutate({ notes })}
      />
      <div className="acts">{actions}</div>
    </div>
  );
}

function CopyId({ id }: { id: string }) {
  const copy = () => {
    void copyText(id);
    showToast({ title: "Id copied", icon: <Icon name="copy" /> });
  };
  return (
    <button type="button" className="mono" title={`Copy the id ${id}`} onClick={copy}>
      {shortId(id)}
    </button>
  );
}
