/** Which jobs are selected. The URL has their ids, so a shared selection may have jobs that are not loaded. */

import { useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef } from "react";
import { api, asProblem, unwrap } from "@/api/client";
import { showToast } from "@/app/toasts";
import { formatCount } from "@/lib/format";
import { Button } from "@/ui/Button";
import { Checkbox } from "@/ui/controls";
import { MAX_SELECTED, type JobsSearch } from "@/views/jobs/search";
import type { JobSummary } from "@/views/jobs/store";

type Change = (change: (state: JobsSearch) => Partial<JobsSearch>) => void;

export interface Selection {
  ids: ReadonlySet<string>;
  toggle: (id: string, next: boolean) => void;
  selectAll: (next: boolean) => void;
}

export function useSelection(search: JobsSearch, rows: readonly JobSummary[], change: Change): Selection {
  const ids = useMemo(() => new Set(search.selected), [search.selected]);
  const latest = useRef({ ids, rows });
  useEffect(() => {
    latest.current = { ids, rows };
  });
  const toggle = useCallback(
    (id: string, next: boolean) => {
      if (next && latest.current.ids.size >= MAX_SELECTED) return tellLimit("One more was not selected");
      change(({ selected }) => ({
        selected: next ? [...selected, id] : selected.filter((each) => each !== id),
      }));
    },
    [change],
  );
  const selectAll = useCallback(
    (next: boolean) => {
      const all = next ? latest.current.rows.map((job) => job.id) : [];
      if (all.length > MAX_SELECTED) {
        tellLimit(`${MAX_SELECTED} of ${formatCount(all.length)} loaded jobs are selected`);
      }
      change(() => ({ selected: all.slice(0, MAX_SELECTED) }));
    },
    [change],
  );
  return { ids, toggle, selectAll };
}

function tellLimit(title: string): void {
  showToast({
    title,
    text: `A selection has at most ${MAX_SELECTED} jobs. Act on these, then on the others.`,
  });
}

export interface SelectedJobs {
  jobs: readonly JobSummary[];
  /** How many are being loaded, and how many do not exist or could not be read. */
  loading: number;
  lost: number;
}

/** The selected jobs: those of the list, and the others one by one. Nothing is loaded before the list is. */
export function useSelectedJobs(
  ids: ReadonlySet<string>,
  rows: readonly JobSummary[],
  ready: boolean,
): SelectedJobs {
  const client = useQueryClient();
  const loaded = useMemo(() => rows.filter((job) => ids.has(job.id)), [rows, ids]);
  const missing = useMemo(() => {
    const known = new Set(loaded.map((job) => job.id));
    return [...ids].filter((id) => !known.has(id));
  }, [ids, loaded]);
  const others = useQuery({
    queryKey: ["selected jobs", missing],
    queryFn: () => readJobs(client, missing),
    enabled: ready && missing.length > 0,
  });
  if (missing.length === 0) return { jobs: loaded, loading: 0, lost: 0 };
  const found = others.data ?? [];
  const rest = missing.length - found.length;
  return {
    jobs: [...loaded, ...found],
    loading: others.isSuccess ? 0 : rest,
    lost: others.isSuccess ? rest : 0,
  };
}

const AT_ONCE = 6;
const FRESH_MS = 5000;
const NOT_FOUND = 404;

async function readJobs(client: QueryClient, ids: readonly string[]): Promise<JobSummary[]> {
  const waiting = [...ids];
  const found: JobSummary[] = [];
  const work = async () => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      const job = await readJob(client, id);
      if (job !== null) found.push(job);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return found;
}

async function readJob(client: QueryClient, id: string): Promise<JobSummary | null> {
  try {
    return await client.fetchQuery({
      queryKey: ["selected job", id],
      queryFn: () => unwrap(api.GET("/api/v1/training/{ref}", { params: { path: { ref: id } } })),
      staleTime: FRESH_MS,
    });
  } catch (error) {
    if (asProblem(error).status === NOT_FOUND) return null;
    throw error;
  }
}

interface SelectBarProps {
  selected: number;
  rows: number;
  onSelectAll: (next: boolean) => void;
  onDone: () => void;
}

/** Takes the place of the table's head on phones while jobs are selected. */
export function SelectBar({ selected, rows, onSelectAll, onDone }: SelectBarProps) {
  const all = selected >= Math.min(rows, MAX_SELECTED);
  return (
    <div className="select-bar">
      <Checkbox
        showLabel
        label="Select all loaded jobs"
        checked={selected === 0 ? false : all ? true : "mixed"}
        onChange={onSelectAll}
      />
      <Button onClick={onDone}>Done</Button>
    </div>
  );
}
