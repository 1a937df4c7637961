import { useState, type FormEvent } from "react";
import { api, unwrap } from "@/api/client";
import { plural } from "@/lib/format";
import { Button } from "@/ui/Button";
import { TextField } from "@/ui/controls";
import { Dialog } from "@/ui/Dialog";
import { Icon } from "@/ui/Icon";
import { forEachJob, reportFailures } from "@/views/jobs/bulk";
import type { JobSummary } from "@/views/jobs/store";

interface TagDialogProps {
  jobs: readonly JobSummary[];
  onClose: () => void;
  onChanged: (jobs: readonly JobSummary[]) => void;
}

/** Split what was typed into tags: "night, best" are two. */
export function parseTags(text: string): string[] {
  return [...new Set(text.split(/[,\s]+/).filter((each) => each !== ""))];
}

/** Adds tags to the selected jobs and removes others. */
export function TagDialog({ jobs, onClose, onChanged }: TagDialogProps) {
  const [typed, setTyped] = useState("");
  const [removed, setRemoved] = useState<readonly string[]>([]);
  const [pending, setPending] = useState(false);
  const tags = [...new Set(jobs.flatMap((job) => job.tags))].sort();
  const added = parseTags(typed);
  const nothing = added.length === 0 && removed.length === 0;
  const save = async (event: FormEvent) => {
    event.preventDefault();
    if (nothing) return;
    setPending(true);
    const result = await forEachJob(jobs, (job) =>
      unwrap(
        api.PATCH("/api/v1/training/{ref}", {
          params: { path: { ref: job.id } },
          body: { name: null, tags: null, notes: null, add_tags: added, remove_tags: [...removed] },
        }),
      ),
    );
    reportFailures("tagged", result);
    onChanged(result.done);
    onClose();
  };
  const toggle = (tag: string) =>
    setRemoved(removed.includes(tag) ? removed.filter((each) => each !== tag) : [...removed, tag]);
  return (
    <Dialog open onClose={onClose} title={`Tag ${plural(jobs.length, "job")}`}>
      <form className="tag-form" onSubmit={(event) => void save(event)}>
        <TextField
          label="Add tags"
          showLabel
          value={typed}
          onChange={setTyped}
          placeholder="best, night"
          autoComplete="off"
        />
        {tags.length > 0 && (
          <fieldset>
            <legend className="field-label">Remove tags</legend>
            <div className="row wrap">
              {tags.map((tag) => (
                <button
                  key={tag}
                  type="button"
                  className={removed.includes(tag) ? "tag line gone" : "tag"}
                  aria-pressed={removed.includes(tag)}
                  onClick={() => toggle(tag)}
                >
                  {tag}
                  <Icon name="close" size={12} />
                </button>
              ))}
            </div>
          </fieldset>
        )}
        <div className="row dialog-actions">
          <Button onClick={onClose}>Leave as it is</Button>
          <Button
            type="submit"
            look="primary"
            disabled={pending || nothing}
            title={nothing ? "Type a tag, or choose one to remove" : undefined}
          >
            Save the tags
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
