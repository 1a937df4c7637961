/** Findings in the code, and the edits that resolve them. */

import type { Schemas } from "@/api/client";

export type Lint = Schemas["CodeLint"];
export type Fix = NonNullable<Lint["fix"]>;

/** Apply the edits of a fix to the text of a file. Return null if a line has changed since the plan was made. */
export function applyFix(text: string, path: string, fix: Fix): string | null {
  const lines = text.split(/\r?\n/);
  for (const edit of fix.edits.filter((each) => each.file === path)) {
    if (lines[edit.line - 1] !== edit.old) return null;
    lines[edit.line - 1] = edit.new;
  }
  return lines.join("\n");
}
