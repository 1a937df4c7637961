import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useSession } from "@/app/session";
import { useShortcuts, type Shortcut } from "@/app/shortcuts";
import { Button, IconButton } from "@/ui/Button";
import { isEnded } from "@/ui/Status";
import { CancelDialog } from "@/views/jobs/CancelDialog";
import { MAX_SELECTED } from "@/views/jobs/search";
import { useSelectedJobs, type SelectedJobs } from "@/views/jobs/selection";
import type { JobSummary } from "@/views/jobs/store";
import { TagDialog } from "@/views/jobs/TagDialog";

interface SelectionBarProps {
  ids: ReadonlySet<string>;
  rows: readonly JobSummary[];
  /** Whether the list is loaded; jobs that are not in it are loaded then. */
  ready: boolean;
  onClear: () => void;
  onChanged: (jobs: readonly JobSummary[]) => void;
}

/** Actions for the selected jobs, at the bottom of the screen. */
export function SelectionBar({ ids, rows, ready, onClear, onChanged }: SelectionBarProps) {
  const selection = useSelectedJobs(ids, rows, ready);
  const { jobs } = selection;
  const complete = selection.loading === 0;
  const client = useQueryClient();
  const [dialog, setDialog] = useState<"tag" | "cancel" | null>(null);
  const navigate = useNavigate();
  const { can } = useSession();
  const active = jobs.filter((job) => !isEnded(job.status));
  const group = "Selected jobs";
  const compare = () => void navigate({ to: "/compare", search: { jobs: [...ids].join(",") } });
  const shortcuts: Shortcut[] = [{ keys: "c", label: "Compare", group, run: compare }];
  if (can("write") && complete)
    shortcuts.push({ keys: "t", label: "Tag", group, run: () => setDialog("tag") });
  useShortcuts(shortcuts);
  const close = () => setDialog(null);
  const changed = (done: readonly JobSummary[]) => {
    void client.invalidateQueries({ queryKey: ["selected job"] });
    void client.invalidateQueries({ queryKey: ["selected jobs"] });
    onChanged(done);
  };
  return (
    <>
      <div className="selbar" role="toolbar" aria-label="Actions for the selected jobs">
        <b className="nowrap" role="status">
          {countText(ids.size, selection)}
        </b>
        <span className="sep" />
        <Button look="quiet" icon="compare" shortcut="C" onClick={compare}>
          Compare
        </Button>
        {can("write") && (
          <Button
            look="quiet"
            icon="tag"
            shortcut="T"
            disabled={!complete}
            title={complete ? undefined : LOADING}
            onClick={() => setDialog("tag")}
          >
            Tag
          </Button>
        )}
        {can("write") && active.length > 0 && (
          <Button
            look="quiet"
            className="danger"
            icon="stop"
            disabled={!complete}
            title={complete ? undefined : LOADING}
            onClick={() => setDialog("cancel")}
          >
            Cancel {active.length}
            <span className="wide-only">active</span>
          </Button>
        )}
        <span className="sep" />
        <IconButton
          icon="close"
          label="Clear the selection"
          title="Clear the selection  Esc"
          onClick={onClear}
        />
      </div>
      {dialog === "tag" && <TagDialog jobs={jobs} onClose={close} onChanged={changed} />}
      {dialog === "cancel" && <CancelDialog jobs={active} onClose={close} onChanged={changed} />}
    </>
  );
}

const LOADING = "The selected jobs that are not in the list are being loaded";

/** How many jobs the actions are for. */
function countText(count: number, { loading, lost }: SelectedJobs): string {
  const parts = [`${count - lost} selected`];
  if (lost > 0) parts.push(`${lost} not found`);
  if (loading > 0) parts.push(`loading ${loading}`);
  if (count === MAX_SELECTED) parts.push("the most at once");
  return parts.join(", ");
}
