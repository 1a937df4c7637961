/** The left side: what to run (code, trainer or command), and the form below. */

import { lazy, Suspense, useRef, useState, type DragEvent } from "react";
import { showError } from "@/app/toasts";
import { plural } from "@/lib/format";
import { Button } from "@/ui/Button";
import { Segmented } from "@/ui/controls";
import { Icon } from "@/ui/Icon";
import { Menu } from "@/ui/Menu";
import { withFiles, withText, type Draft, type Source } from "@/views/new/draft";
import type { Fix, Lint } from "@/views/new/fixes";
import { TooManyFiles, type FoundFile } from "@/views/new/files/ignore";
import { droppedEntries, droppedFiles, readDrop, readFile, readPicked } from "@/views/new/files/read";
import { FileTabs } from "@/views/new/source/FileTabs";
import { JobForm } from "@/views/new/source/JobForm";
import { TrainerForm } from "@/views/new/source/TrainerForm";
import { CommandField } from "@/views/new/source/CommandField";
import type { PlanState } from "@/views/new/usePlan";
import { useLints } from "@/views/new/useLints";

const CodeEditor = lazy(() => import("@/views/new/editor/CodeEditor"));
const MAX_FILES = 20_000;
const CHOICES = [
  { value: "code", label: "Code" },
  { value: "trainer", label: "Trainer" },
  { value: "command", label: "Command" },
] as const;

interface SourcePaneProps {
  draft: Draft;
  /** The browser keeps the draft, so that it survives a reload. */
  kept: boolean;
  update: (change: (draft: Draft) => Draft) => void;
  plan: PlanState;
  jump: { line: number; count: number } | null;
  errors: Record<string, string>;
  onSource: (source: Source) => void;
  onFix: (fix: Fix) => void;
  onSubmit: () => void;
}

export function SourcePane(props: SourcePaneProps) {
  const { draft, kept, update, plan, jump, errors, onSource, onFix, onSubmit } = props;
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
      {draft.source === "trainer" && <TrainerForm draft={draft} update={update} errors={errors} />}
      {draft.source === "command" && <CommandField draft={draft} update={update} errors={errors} />}
      {draft.source !== "trainer" && (
        <Files draft={draft} update={update} lints={lints} jump={jump} onFix={onFix} onSubmit={onSubmit} />
      )}
      {!kept && (
        <p className="not-kept warn small">The files are too large to survive a reload of this page.</p>
      )}
      <JobForm draft={draft} update={update} errors={errors} plan={plan.plan} />
    </section>
  );
}

interface FilesProps {
  draft: Draft;
  update: (change: (draft: Draft) => Draft) => void;
  lints: readonly Lint[];
  jump: { line: number; count: number } | null;
  onFix: (fix: Fix) => void;
  onSubmit: () => void;
}

function Files({ draft, update, lints, jump, onFix, onSubmit }: FilesProps) {
  const file = draft.files.find((each) => each.path === draft.open);
  const general = lints.filter((lint) => lint.line === 0);
  return (
    <>
      <FileTabs draft={draft} update={update} lints={lints} />
      {general.length > 0 && draft.source === "code" && <GeneralLints lints={general} />}
      {file === undefined || file.text === null ? (
        <p className="editor binary t3">
          {file === undefined
            ? "No file is open."
            : `${file.path} is not shown here: it is not a small text file.`}
        </p>
      ) : (
        <Suspense fallback={<pre className="editor loading">{file.text}</pre>}>
          <div className="editor">
            <CodeEditor
              key={file.path}
              path={file.path}
              text={file.text}
              lints={fileLints(lints, file.path)}
              jump={jump}
              onChange={(text) => update((current) => withText(current, file.path, text))}
              onFix={onFix}
              onSubmit={onSubmit}
            />
            {file.text === "" && draft.files.length === 1 && (
              <p className="drop-hint t3" aria-hidden="true">
                Write a training script, or drop files or a folder here
              </p>
            )}
          </div>
        </Suspense>
      )}
    </>
  );
}

const NO_LINTS: readonly Lint[] = [];
const byFile = new WeakMap<readonly Lint[], Map<string, readonly Lint[]>>();

/** Lints of one file, always the same array for the same plan, so that the editor is not updated needlessly. */
function fileLints(lints: readonly Lint[], path: string): readonly Lint[] {
  const known = byFile.get(lints) ?? new Map<string, readonly Lint[]>();
  byFile.set(lints, known);
  const found = known.get(path) ?? lints.filter((lint) => lint.file === path);
  known.set(path, found);
  return found.length > 0 ? found : NO_LINTS;
}

/** Findings without a line. The first is shown; all are listed on request. */
function GeneralLints({ lints }: { lints: readonly Lint[] }) {
  return (
    <details className="general-lints">
      <summary>
        <Icon name="warning" size={12} />
        <span className="cut">{lints[0]?.says}</span>
        <span className="t3 nowrap">{plural(lints.length, "finding")} about the whole script</span>
      </summary>
      <ul>
        {lints.map((lint) => (
          <li key={lint.code}>
            {lint.says} <span className="t2">{lint.do}</span> <span className="t3 mono">{lint.code}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}

function useAddFiles(update: (change: (draft: Draft) => Draft) => void) {
  return async (find: () => Promise<FoundFile[]>): Promise<void> => {
    try {
      const files = await Promise.all((await find()).map(readFile));
      update((current) => withFiles(current, files));
    } catch (error) {
      const detail = new Error(`The folder has more than ${MAX_FILES} files. Add those that the job needs.`);
      showError("The files could not be read", error instanceof TooManyFiles ? detail : error);
    }
  };
}

function AddFiles({ onAdd }: { onAdd: (files: File[]) => void }) {
  const files = useRef<HTMLInputElement>(null);
  const folder = useRef<HTMLInputElement>(null);
  const picked = (input: HTMLInputElement) => {
    onAdd([...(input.files ?? [])]);
    input.value = "";
  };
  return (
    <>
      <Menu
        trigger={
          <Button look="quiet" icon="folder" className="push">
            Add files or a folder
          </Button>
        }
        items={[
          { label: "Files", icon: "file", onSelect: () => files.current?.click() },
          {
            label: "Folder",
            icon: "folder",
            detail: "without what .gitignore names",
            onSelect: () => folder.current?.click(),
          },
        ]}
      />
      <input
        ref={files}
        type="file"
        multiple
        hidden
        aria-label="Files"
        onChange={(event) => picked(event.target)}
      />
      <input
        ref={folder}
        type="file"
        hidden
        aria-label="Folder"
        onChange={(event) => picked(event.target)}
        {...{ webkitdirectory: "" }}
      />
    </>
  );
}
