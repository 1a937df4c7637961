import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, unwrap } from "@/api/client";
import { useSession } from "@/app/session";
import { useShortcuts } from "@/app/shortcuts";
import { toggleWatch } from "@/app/watch-toggle";
import { useWatched } from "@/app/watched";
import { copyText } from "@/lib/clipboard";
import { formatDuration, formatMoney } from "@/lib/format";
import { shortTime } from "@/lib/time";
import { Button, IconButton } from "@/ui/Button";
import { ConfirmDialog } from "@/ui/Dialog";
import { Icon } from "@/ui/Icon";
import { Menu, type MenuItem } from "@/ui/Menu";
import { useNow } from "@/ui/Time";
import type { JobRequests } from "@/views/job/actions";
import { possibleActions } from "@/views/job/possible";
import type { Job } from "@/views/job/merge";
import { moneyGain } from "@/views/job/timeline/AttemptTimeline";

interface JobActionsProps {
  job: Job;
  requests: JobRequests;
  /** Opens the dialog that chooses a checkpoint. */
  onResume: () => void;
}

type Asking = "cancel" | "delete" | null;

/** The buttons of the header: only those that the role and the state of the job allow. */
export function JobActions({ job, requests, onResume }: JobActionsProps) {
  const { can } = useSession();
  const [asking, setAsking] = useState<Asking>(null);
  const possible = possibleActions(job);
  if (!can("write")) return <WatchButton job={job} />;
  const copyItem: MenuItem = {
    label: "Copy the link",
    icon: "copy",
    onSelect: () => void copyText(location.href),
  };
  const removeItem: MenuItem = {
    label: "Delete the job",
    icon: "stop",
    danger: true,
    onSelect: () => setAsking("delete"),
  };
  return (
    <>
      <WatchButton job={job} />
      <Link className="btn" to="/new" search={{ from: job.id }}>
        <Icon name="branch" size={14} />
        Clone
      </Link>
      {possible.resume && (
        <Button icon="play" onClick={onResume}>
          Resume
        </Button>
      )}
      {possible.start && (
        <Button icon="play" disabled={requests.start.isPending} onClick={() => requests.start.mutate()}>
          Start now
        </Button>
      )}
      {possible.migrate && <MigrateMenu job={job} requests={requests} />}
      {possible.cancel && (
        <Button look="danger" icon="stop" onClick={() => setAsking("cancel")}>
          Cancel
        </Button>
      )}
      <Menu
        trigger={<IconButton icon="more" label="More actions" className="framed" />}
        items={possible.remove ? [copyItem, removeItem] : [copyItem]}
      />
      <CancelDialog
        job={job}
        open={asking === "cancel"}
        onKeep={() => setAsking(null)}
        onAct={() => {
          requests.cancel.mutate();
          setAsking(null);
        }}
      />
      <ConfirmDialog
        open={asking === "delete"}
        title="Delete the job?"
        keep="Keep it"
        act="Delete the job"
        onKeep={() => setAsking(null)}
        onAct={() => {
          requests.remove.mutate();
          setAsking(null);
        }}
      >
        Its log, metrics, checkpoints and files are deleted and cannot be restored. Its cost stays in the
        books.
      </ConfirmDialog>
    </>
  );
}

/** Watched jobs are in the sidebar, and a message tells when something happens to them. */
function WatchButton({ job }: { job: Job }) {
  const watched = useWatched().includes(job.id);
  const toggle = () => toggleWatch(job.id, job.name);
  useShortcuts([{ keys: "w", label: "Watch the job", group: "Job", run: toggle }]);
  return (
    <Button icon="bell" aria-pressed={watched} title="Watch the job  w" onClick={toggle}>
      {watched ? "Watching" : "Watch"}
    </Button>
  );
}

interface CancelDialogProps {
  job: Job;
  open: boolean;
  onKeep: () => void;
  onAct: () => void;
}

function CancelDialog({ job, open, onKeep, onAct }: CancelDialogProps) {
  const now = useNow();
  const saved = job.checkpoint;
  const age = saved === null ? null : (now - Date.parse(saved.saved_at)) / 1000;
  return (
    <ConfirmDialog
      open={open}
      title="Cancel the job?"
      keep="Keep it running"
      act="Cancel the job"
      onKeep={onKeep}
      onAct={onAct}
    >
      {saved === null || age === null
        ? "It has no checkpoint, so its training is lost."
        : `Training since the checkpoint of ${shortTime(saved.saved_at, now)} (${formatDuration(age)}) is lost.`}{" "}
      Its log, metrics and files stay, and its machine is ended.
      {saved !== null && " You can resume it later from its checkpoints."}
    </ConfirmDialog>
  );
}

/** The backends to which the job can move. The better place comes first. */
function MigrateMenu({ job, requests }: { job: Job; requests: JobRequests }) {
  const items = useMigrationItems(job, requests);
  return (
    <Menu
      trigger={
        <Button icon="move" disabled={requests.migrate.isPending}>
          Migrate
        </Button>
      }
      items={items}
    />
  );
}

function useMigrationItems(job: Job, requests: JobRequests): MenuItem[] {
  const backends = useQuery({
    queryKey: ["backends"],
    queryFn: () => unwrap(api.GET("/api/v1/backends")),
    staleTime: 60_000,
  });
  const { better } = job;
  const others = (backends.data?.backends ?? []).filter((each) => each.name !== better?.place.backend);
  const items: MenuItem[] = others.map((each) => ({
    label: each.name,
    detail: each.name === job.backend ? "another machine there" : undefined,
    onSelect: () => requests.migrate.mutate(each.name),
  }));
  if (better !== null) {
    const price = `${formatMoney(better.place.price_microusd_per_hour)}/h`;
    items.unshift({
      label: [better.place.backend, better.place.gpu_kind].filter(Boolean).join(" "),
      icon: "move",
      detail: `${moneyGain(better.saves_microusd)}, ${price}`,
      onSelect: () => requests.migrate.mutate(better.place.backend),
    });
  }
  if (items.length > 0) return items;
  const reason = "There is no backend to move to";
  return [{ label: "No backend", disabledReason: reason, detail: reason, onSelect: () => undefined }];
}
