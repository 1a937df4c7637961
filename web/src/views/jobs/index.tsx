/** The list of jobs. */

import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useState } from "react";
import { PageTitle } from "@/app/TopBar";
import { plural } from "@/lib/format";
import { useIsSmall } from "@/lib/useIsSmall";
import { Button } from "@/ui/Button";
import { ErrorState, Skeleton } from "@/ui/states";
import { Announcements } from "@/views/jobs/Announcements";
import { FilterBar } from "@/views/jobs/FilterBar";
import { JobsTable } from "@/views/jobs/JobsTable";
import { NoJobs } from "@/views/jobs/NoJobs";
import {
  filtersOf,
  formatSearch,
  hasFilters,
  parseSearch,
  STATUSES,
  type JobsSearch,
  type ListedStatus,
} from "@/views/jobs/search";
import { SelectBar, useSelection } from "@/views/jobs/selection";
import { SelectionBar } from "@/views/jobs/SelectionBar";
import { StatusTabs } from "@/views/jobs/StatusTabs";
import type { JobSummary } from "@/views/jobs/store";
import { useJobCounts, useJobList } from "@/views/jobs/useJobList";
import { useRowKeys, type CurrentRow } from "@/views/jobs/useRowKeys";
import "@/views/jobs/jobs.css";

const TOP_PX = 40;

export default function JobsPage() {
  const [search, change] = useJobsSearch();
  const filters = useMemo(() => filtersOf(search), [search]);
  const { store, snapshot } = useJobList(search.statuses, filters);
  const counts = useJobCounts(filters).data;
  const [current, setCurrent] = useState<CurrentRow | null>(null);
  const [pointerInside, setPointerInside] = useState(false);
  const rows = useMemo(() => [...snapshot.active, ...snapshot.finished], [snapshot]);
  const { ids: selected, toggle, selectAll } = useSelection(search, rows, change);
  const isSmall = useIsSmall();
  const [selectMode, setSelectMode] = useState(false);
  const selecting = selectMode || selected.size > 0;
  const endSelection = () => {
    setSelectMode(false);
    if (selected.size > 0) change({ selected: [] });
  };
  const clear = () => {
    if (selected.size > 0) change({ selected: [] });
    else setCurrent(null);
  };
  useRowKeys({ rows, current, setCurrent, toggle: (id) => toggle(id, !selected.has(id)), clear });
  const busy = pointerInside || current !== null || selected.size > 0;
  useEffect(() => {
    if (snapshot.fresh > 0 && !busy && window.scrollY < TOP_PX) store.showFresh();
  }, [snapshot.fresh, busy, store]);
  const more = useCallback(() => void store.loadMore(), [store]);
  const groupCounts = useMemo(
    () => ({
      active: counts?.active ?? null,
      finished: counts === undefined ? null : finishedCount(search.statuses, counts),
    }),
    [counts, search],
  );
  const showsHits = counts !== undefined && (hasFilters(filters) || search.statuses.length > 1);
  return (
    <>
      <PageTitle text="Jobs" />
      <Announcements />
      <div className="jobs-head">
        <StatusTabs search={search} counts={counts} />
        <FilterBar
          search={search}
          hits={showsHits ? { count: listedCount(search.statuses, counts), exact: counts.exact } : null}
          suggestions={useMemo(() => suggestionsOf(rows), [rows])}
          onChange={change}
          onSelect={isSmall && !selecting && rows.length > 0 ? () => setSelectMode(true) : undefined}
        />
      </div>
      {snapshot.fresh > 0 && (
        <div className="fresh">
          <Button icon="up" onClick={() => store.showFresh()}>
            {plural(snapshot.fresh, "new or changed job")}
          </Button>
        </div>
      )}
      {snapshot.state === "loading" && <Skeleton label="Loading jobs" rows={12} />}
      {snapshot.state === "failed" && (
        <ErrorState
          title="The jobs could not be loaded"
          error={snapshot.error}
          onRetry={() => void store.start()}
        />
      )}
      {snapshot.state === "ready" && rows.length === 0 && <NoJobs search={search} onChange={change} />}
      {rows.length > 0 && (
        <div onPointerEnter={() => setPointerInside(true)} onPointerLeave={() => setPointerInside(false)}>
          {isSmall && selecting && (
            <SelectBar
              selected={selected.size}
              rows={rows.length}
              onSelectAll={selectAll}
              onDone={endSelection}
            />
          )}
          <JobsTable
            snapshot={snapshot}
            counts={groupCounts}
            hidden={search.hide}
            selected={selected}
            current={current}
            onSelect={toggle}
            onSelectAll={selectAll}
            onMore={more}
            selecting={selecting}
          />
        </div>
      )}
      {selected.size > 0 && (
        <SelectionBar
          ids={selected}
          rows={rows}
          ready={snapshot.state !== "loading"}
          onClear={endSelection}
          onChanged={(jobs) => store.update(jobs)}
        />
      )}
    </>
  );
}

type Change = Partial<JobsSearch> | ((state: JobsSearch) => Partial<JobsSearch>);

function useJobsSearch(): [JobsSearch, (change: Change) => void] {
  const raw: Record<string, unknown> = useSearch({ strict: false });
  const navigate = useNavigate();
  const search = useMemo(() => parseSearch(raw), [raw]);
  const change = useCallback(
    (change: Change) =>
      void navigate({
        to: "/jobs",
        replace: true,
        resetScroll: false,
        search: (before: Record<string, unknown>) => {
          const state = parseSearch(before);
          return {
            ...before,
            ...formatSearch({ ...state, ...(typeof change === "function" ? change(state) : change) }),
          };
        },
      }),
    [navigate],
  );
  return [search, change];
}

type Counts = Record<ListedStatus, number>;

function listedCount(statuses: readonly ListedStatus[], counts: Counts): number {
  const listed = statuses.length === 0 ? STATUSES : statuses;
  return listed.reduce((sum, each) => sum + counts[each], 0);
}

function finishedCount(statuses: readonly ListedStatus[], counts: Counts): number {
  return listedCount(statuses, { ...counts, active: 0 });
}

const MAX_SUGGESTIONS = 50;

/** Values that occur in the loaded rows. */
function suggestionsOf(rows: readonly JobSummary[]) {
  const unique = (values: (string | null)[]) =>
    [...new Set(values.filter((each) => each !== null && each !== ""))].slice(0, MAX_SUGGESTIONS) as string[];
  const some = rows.slice(0, 500);
  return {
    name: unique(some.map((job) => job.name)),
    tag: unique(some.flatMap((job) => job.tags)),
    backend: unique(some.map((job) => job.backend)),
    person: unique(some.map((job) => job.person)),
  };
}
