/** The files of the draft as tabs: open, add, rename, remove, and choose the one that runs. */

import { useState, type FormEvent } from "react";
import { formatBytes, plural } from "@/lib/format";
import { Button, IconButton } from "@/ui/Button";
import { TextField } from "@/ui/controls";
import { Dialog } from "@/ui/Dialog";
import { Icon } from "@/ui/Icon";
import { Menu, type MenuItem } from "@/ui/Menu";
import {
  pathProblem,
  scriptOf,
  textFile,
  totalSize,
  withFile,
  withRenamed,
  withoutFile,
  type Draft,
} from "@/views/new/draft";
import type { Lint } from "@/views/new/fixes";

const MAX_TABS = 12;
const MAX_MENU = 200;

interface FileTabsProps {
  draft: Draft;
  update: (change: (draft: Draft) => Draft) => void;
  lints: readonly Lint[];
}

export function FileTabs({ draft, update, lints }: FileTabsProps) {
  const [asked, setAsked] = useState<"add" | "rename" | null>(null);
  const script = scriptOf(draft);
  const tabs = shownTabs(draft);
  const open = (path: string) => update((current) => ({ ...current, open: path }));
  const count = (path: string) => lints.filter((lint) => lint.file === path && lint.line > 0).length;
  const others = draft.files.filter((file) => !tabs.includes(file)).slice(0, MAX_MENU);
  return (
    <nav className="ftabs" aria-label="Files">
      {tabs.map((file) => (
        <button
          key={file.path}
          type="button"
          className="ftab"
          aria-current={file.path === draft.open ? "true" : undefined}
          onClick={() => open(file.path)}
        >
          <Icon name={file.path === script && draft.source === "code" ? "play" : "file"} size={12} />
          {file.path}
          {count(file.path) > 0 && (
            <span className="warnn" title={plural(count(file.path), "finding")}>
              {count(file.path)}
            </span>
          )}
        </button>
      ))}
      {others.length > 0 && (
        <Menu
          trigger={<Button look="quiet">{`${draft.files.length - tabs.length} more`}</Button>}
          align="start"
          items={others.map((file) => ({
            label: file.path,
            detail: formatBytes(file.size),
            onSelect: () => open(file.path),
          }))}
        />
      )}
      <IconButton icon="plus" label="New file" mini onClick={() => setAsked("add")} />
      <span className="t3 tiny push nowrap fsum">
        {plural(draft.files.length, "file")}, {formatBytes(totalSize(draft.files))}
      </span>
      <Menu
        trigger={<IconButton icon="more" label="Actions for the open file" mini />}
        items={fileActions(draft, update, () => setAsked("rename"))}
      />
      {asked !== null && (
        <PathDialog
          draft={draft}
          update={update}
          rename={asked === "rename"}
          onClose={() => setAsked(null)}
        />
      )}
    </nav>
  );
}

/** The script and the open file are always shown; then the files nearest to the root. */
function shownTabs(draft: Draft): Draft["files"] {
  if (draft.files.length <= MAX_TABS) return draft.files;
  const script = scriptOf(draft);
  const rank = (path: string) => (path === script ? -2 : path === draft.open ? -1 : path.split("/").length);
  return [...draft.files].sort((one, other) => rank(one.path) - rank(other.path)).slice(0, MAX_TABS);
}

function fileActions(
  draft: Draft,
  update: (change: (draft: Draft) => Draft) => void,
  onRename: () => void,
): MenuItem[] {
  const file = draft.files.find((each) => each.path === draft.open);
  if (file === undefined) return [];
  const { path } = file;
  const executable = (current: Draft) => withFile(current, { ...file, executable: !file.executable });
  return [
    {
      label: "Run this file",
      icon: "play",
      ...(path.endsWith(".py") ? {} : { disabledReason: "Only a Python file can be the script" }),
      onSelect: () => update((current) => ({ ...current, script: path })),
    },
    { label: "Rename", onSelect: onRename },
    {
      label: file.executable ? "Make it not executable" : "Make it executable",
      onSelect: () => update(executable),
    },
    { label: "Remove", danger: true, onSelect: () => update((current) => withoutFile(current, path)) },
  ];
}

interface PathDialogProps {
  draft: Draft;
  update: (change: (draft: Draft) => Draft) => void;
  rename: boolean;
  onClose: () => void;
}

function PathDialog({ draft, update, rename, onClose }: PathDialogProps) {
  const [path, setPath] = useState(rename ? draft.open : "");
  const [checked, setChecked] = useState(false);
  const problem = pathProblem(draft, path, rename ? draft.open : null);
  const apply = (event: FormEvent) => {
    event.preventDefault();
    setChecked(true);
    if (problem !== "") return;
    update((current) =>
      rename
        ? withRenamed(current, current.open, path)
        : { ...withFile(current, textFile(path, "")), open: path },
    );
    onClose();
  };
  return (
    <Dialog open title={rename ? `Rename ${draft.open}` : "New file"} onClose={onClose}>
      <form className="path-form" onSubmit={apply}>
        <TextField
          label="Path in the working directory"
          showLabel
          value={path}
          placeholder="data/load.py"
          onChange={setPath}
          {...(checked && problem !== "" ? { error: problem } : {})}
        />
        <div className="row dialog-actions">
          <Button onClick={onClose}>Keep it as it is</Button>
          <button type="submit" className="btn primary">
            {rename ? "Rename" : "Add the file"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
