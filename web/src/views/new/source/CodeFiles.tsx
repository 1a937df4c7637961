/** The files of the job: tabs, findings about the whole script, and the editor. */

import { lazy, Suspense } from "react";
import { plural } from "@/lib/format";
import { Icon } from "@/ui/Icon";
import { withText, type Draft } from "@/views/new/draft";
import type { Fix, Lint } from "@/views/new/fixes";
import { FileTabs } from "@/views/new/source/FileTabs";

const CodeEditor = lazy(() => import("@/views/new/editor/CodeEditor"));

interface CodeFilesProps {
  draft: Draft;
  update: (change: (draft: Draft) => Draft) => void;
  lints: readonly Lint[];
  jump: { line: number; count: number } | null;
  onFix: (fix: Fix) => void;
  onSubmit: () => void;
}

export function CodeFiles({ draft, update, lints, jump, onFix, onSubmit }: CodeFilesProps) {
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
        <Suspense
          fallback={
            <pre className="editor loading" tabIndex={0}>
              {file.text}
            </pre>
          }
        >
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
