import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useSession } from "@/app/session";
import { useShortcuts, type Shortcut } from "@/app/shortcuts";
import { Button, IconButton } from "@/ui/Button";
import { isEnded } from "@/ui/Status";
import { CancelDialog } from "@/views/jobs/CancelDialog";
import type { JobSummary } from "@/views/jobs/store";
import { TagDialog } from "@/views/jobs/TagDialog";

interface SelectionBarProps {
  jobs: readonly JobSummary[];
  count: number;
  onClear: () => void;
  onChanged: (jobs: readonly JobSummary[]) => void;
}

/** Actions for the selected jobs, at the bottom of the screen. */
export function SelectionBar({ jobs, count, onClear, onChanged }: SelectionBarProps) {
  const [dialog, setDialog] = useState<"tag" | "cancel" | null>(null);
  const navigate = useNavigate();
  const { can } = useSession();
  const active = jobs.filter((job) => !isEnded(job.status));
  const group = "Selected jobs";
  const compare = () =>
    void navigate({ to: "/compare", search: { jobs: jobs.map((job) => job.id).join(",") } });
  const shortcuts: Shortcut[] = [{ keys: "c", label: "Compare", group, run: compare }];
  if (can("write")) shortcuts.push({ keys: "t", label: "Tag", group, run: () => setDialog("tag") });
  useShortcuts(shortcuts);
  const close = () => setDialog(null);
  return (
    <>
      <div className="selbar" role="toolbar" aria-label="Actions for the selected jobs">
        <b className="nowrap" role="status">
          {count} selected
        </b>
        <span className="sep" />
        <Button look="quiet" icon="compare" shortcut="C" onClick={compare}>
          Compare
        </Button>
        {can("write") && (
          <Button look="quiet" icon="tag" shortcut="T" onClick={() => setDialog("tag")}>
            Tag
          </Button>
        )}
        {can("write") && active.length > 0 && (
          <Button look="quiet" className="danger" icon="stop" onClick={() => setDialog("cancel")}>
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
      {dialog === "tag" && <TagDialog jobs={jobs} onClose={close} onChanged={onChanged} />}
      {dialog === "cancel" && <CancelDialog jobs={active} onClose={close} onChanged={onChanged} />}
    </>
  );
}
