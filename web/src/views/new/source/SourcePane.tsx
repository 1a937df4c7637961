/** The left side: what to run (code, trainer or command), and the form below. */

import { useState, type DragEvent } from "react";
import { shortTime } from "@/lib/time";
import { Button } from "@/ui/Button";
import { Segmented } from "@/ui/controls";
import { Callout } from "@/ui/states";
import { useNow } from "@/ui/Time";
import type { Draft, Source } from "@/views/new/draft";
import { droppedEntries, droppedFiles, readDrop, readPicked } from "@/views/new/files/read";
import type { Fix } from "@/views/new/fixes";
import { AddFiles, MAX_FILES, useAddFiles } from "@/views/new/source/AddFiles";
import { CodeFiles } from "@/views/new/source/CodeFiles";
import { CommandField } from "@/views/new/source/CommandField";
import { JobForm } from "@/views/new/source/JobForm";
import { TrainerForm } from "@/views/new/source/TrainerForm";
import { useLints } from "@/views/new/useLints";
import type { PlanState } from "@/views/new/usePlan";

const CHOICES = [
  { value: "code", label: "Code" },
  { value: "trainer", label: "Trainer" },
  { value: "command", label: "Command" },
] as const;

interface SourcePaneProps {
  draft: Draft;
  /** The browser keeps the draft, so that it survives a reload. */
  kept: boolean;
  /** For a clone with changes that the browser kept: when they were made, and how to drop them. */
  changed: ChangedNoticeProps | null;
  update: (change: (draft: Draft) => Draft) => void;
  plan: PlanState;
  jump: { line: number; count: number } | null;
  errors: Record<string, string>;
  onSource: (source: Source) => void;
  onFix: (fix: Fix) => void;
  onSubmit: () => void;
}

export function SourcePane(props: SourcePaneProps) {
  const { draft, kept, changed, update, plan, jump, errors, onSource, onFix, onSubmit } = props;
  const [dropping, setDropping] = useState(false);
  const lints = useLints(plan);
  const add = useAddFiles(update);
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setDropping(false);
    const entries = droppedEntries(event.dataTransfer);
    const files = droppedFiles(event.dataTransfer);
    void add(() => (entries.length > 0 ? readDrop(entries, MAX_FILES) : readPicked(files, MAX_FILES)));
  };
  return (
    <section
      className={dropping ? "pane ed dropping" : "pane ed"}
      aria-label="What to run"
      onDragOver={(event) => {
        if (!event.dataTransfer.types.includes("Files")) return;
        event.preventDefault();
        setDropping(true);
      }}
      onDragLeave={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setDropping(false);
      }}
      onDrop={drop}
    >
      <header className="pbar">
        <Segmented label="Source" value={draft.source} choices={CHOICES} onChange={onSource} />
        <AddFiles onAdd={(files) => void add(() => readPicked(files, MAX_FILES))} />
      </header>
      {changed !== null && <ChangedNotice {...changed} />}
      {draft.source === "trainer" && <TrainerForm draft={draft} update={update} errors={errors} />}
      {draft.source === "command" && <CommandField draft={draft} update={update} errors={errors} />}
      {draft.source !== "trainer" && (
        <CodeFiles
          draft={draft}
          update={update}
          lints={lints}
          jump={jump}
          onFix={onFix}
          onSubmit={onSubmit}
        />
      )}
      {!kept && (
        <p className="not-kept warn small">The files are too large to survive a reload of this page.</p>
      )}
      <JobForm draft={draft} update={update} errors={errors} plan={plan.plan} />
    </section>
  );
}

interface ChangedNoticeProps {
  /** Time of the last change, in milliseconds. */
  at: number;
  onRestart: () => void;
}

function ChangedNotice({ at, onRestart }: ChangedNoticeProps) {
  const time = shortTime(at, useNow());
  const restart = (
    <Button className="small" onClick={onRestart}>
      Start again from the job
    </Button>
  );
  return (
    <div className="changed">
      <Callout actions={restart}>This clone has your changes of {time}, which were not submitted.</Callout>
    </div>
  );
}
