/** The keyboard of the list: j and k move between rows, x selects, Enter opens, w watches, Escape clears. */

import { useNavigate } from "@tanstack/react-router";
import { useShortcuts } from "@/app/shortcuts";
import { toggleWatch } from "@/app/watch-toggle";
import type { JobSummary } from "@/views/jobs/store";

/** The row that the keys act on. Each move makes a new object, also at the end of the list. */
export interface CurrentRow {
  readonly id: string;
}

interface RowKeysOptions {
  rows: readonly JobSummary[];
  current: CurrentRow | null;
  setCurrent: (row: CurrentRow | null) => void;
  toggle: (id: string) => void;
  clear: () => void;
}

export function useRowKeys({ rows, current, setCurrent, toggle, clear }: RowKeysOptions): void {
  const navigate = useNavigate();
  const group = "Jobs";
  const move = (by: number) => {
    const index = rows.findIndex((job) => job.id === current?.id);
    const next = index < 0 ? (by > 0 ? 0 : rows.length - 1) : index + by;
    const job = rows[Math.max(0, Math.min(rows.length - 1, next))];
    if (job !== undefined) setCurrent({ id: job.id });
  };
  const withCurrent = (act: (id: string) => void) => () => {
    if (current !== null) act(current.id);
  };
  useShortcuts([
    { keys: "j", label: "Next row", group, run: () => move(1) },
    { keys: "k", label: "Previous row", group, run: () => move(-1) },
    { keys: "x", label: "Select the row", group, run: withCurrent(toggle) },
    {
      keys: "Enter",
      label: "Open the row",
      group,
      run: withCurrent((id) => void navigate({ to: "/jobs/$ref", params: { ref: id } })),
    },
    {
      keys: "w",
      label: "Watch the row",
      group,
      run: withCurrent((id) => toggleWatch(id, rows.find((job) => job.id === id)?.name)),
    },
    { keys: "Escape", label: "Clear the selection", group, run: clear },
  ]);
}
