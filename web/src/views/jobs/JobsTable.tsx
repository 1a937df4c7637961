import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useMemo, useRef, useState, type CSSProperties, type ReactNode } from "react";
import { isEditable } from "@/app/shortcuts";
import { formatCount } from "@/lib/format";
import { useIsSmall } from "@/lib/useIsSmall";
import { Button } from "@/ui/Button";
import { Checkbox } from "@/ui/controls";
import { JobRow } from "@/views/jobs/JobRow";
import { COLUMNS, MAX_SELECTED, type ColumnName } from "@/views/jobs/search";
import type { JobListSnapshot, JobSummary } from "@/views/jobs/store";
import type { CurrentRow } from "@/views/jobs/useRowKeys";

type Item =
  | { kind: "group"; key: string; title: string; count: number | null }
  | { kind: "job"; key: string; job: JobSummary };

interface JobsTableProps {
  snapshot: JobListSnapshot;
  counts: { active: number | null; finished: number | null };
  hidden: readonly ColumnName[];
  selected: ReadonlySet<string>;
  current: CurrentRow | null;
  onSelect: (id: string, selected: boolean) => void;
  onSelectAll: (selected: boolean) => void;
  onMore: () => void;
  /** Whether cards have boxes; the rows of a table always have. */
  selecting: boolean;
}

const ROW_PX = 48;
const CARD_PX = 110;
const GROUP_PX = 34;
/** What covers the ends of the window: the top bar and the head of the table, and the bar of the selection. */
const COVERED_TOP_PX = 84;
const COVERED_BOTTOM_PX = 76;
const COVERED_BOTTOM_SMALL_PX = 128;
const AHEAD_ROWS = 20;
const FIXED_COLUMNS = 3; // box, name and status are always there

/** A table of which only the rows on the screen are in the page. */
export function JobsTable(props: JobsTableProps) {
  const { snapshot, counts, hidden, selected, current, onSelect, onSelectAll, onMore, selecting } = props;
  const items = useMemo(() => toItems(snapshot, counts), [snapshot, counts]);
  const body = useRef<HTMLTableSectionElement>(null);
  const [offset, setOffset] = useState(0);
  useEffect(() => {
    const top = body.current?.getBoundingClientRect().top ?? 0;
    setOffset(top + window.scrollY);
  }, [items.length]);
  const isSmall = useIsSmall();
  const rowPx = isSmall ? CARD_PX : ROW_PX;
  // Stable functions: with new ones, the virtualizer measures all rows again at each render.
  const getItemKey = useCallback((index: number) => items[index]?.key ?? index, [items]);
  const estimateSize = useCallback(
    (index: number) => (items[index]?.kind === "group" ? GROUP_PX : rowPx),
    [items, rowPx],
  );
  const virtualizer = useWindowVirtualizer({
    count: items.length,
    estimateSize,
    getItemKey,
    overscan: 8,
    scrollMargin: offset,
    scrollPaddingStart: COVERED_TOP_PX,
    scrollPaddingEnd: isSmall ? COVERED_BOTTOM_SMALL_PX : COVERED_BOTTOM_PX,
  });
  const shown = virtualizer.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  const nearEnd = last >= items.length - AHEAD_ROWS;
  const wantsMore = nearEnd && snapshot.hasMore && !snapshot.loadingMore && snapshot.moreError === null;
  useEffect(() => {
    if (wantsMore) onMore();
  }, [wantsMore, items.length, onMore]);
  const rowToFocus = useRef<CurrentRow | null>(null);
  const shownRow = useRef(current);
  useEffect(() => {
    // A table that is drawn anew, e.g. for another search, leaves the focus where it is.
    if (current === shownRow.current) return;
    shownRow.current = current;
    const index = items.findIndex((item) => item.kind === "job" && item.job.id === current?.id);
    if (index >= 0) virtualizer.scrollToIndex(index, { align: "auto" });
    rowToFocus.current = current;
    // Only a changed row scrolls; new rows above it do not.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [current]);
  // The focus moves with the current row, which may be drawn only after the scroll: Enter and Tab act from there.
  useEffect(() => {
    if (isEditable(document.activeElement)) rowToFocus.current = null;
    if (rowToFocus.current === null) return;
    const link = body.current?.querySelector<HTMLElement>(`tr[data-job="${rowToFocus.current.id}"] a[href]`);
    if (link == null) return;
    link.focus({ preventScroll: true });
    rowToFocus.current = null;
  });
  const before = (shown[0]?.start ?? offset) - offset;
  const after = virtualizer.getTotalSize() - ((shown.at(-1)?.end ?? offset) - offset);
  const jobs = snapshot.active.length + snapshot.finished.length;
  const columns = (Object.keys(COLUMNS) as ColumnName[]).filter((each) => !hidden.includes(each));
  return (
    <div className="jobs-wrap">
      <table
        className={selecting ? "jobs selecting" : "jobs"}
        aria-label="Jobs"
        aria-rowcount={snapshot.hasMore ? -1 : items.length + 1}
      >
        <TableHead
          columns={columns}
          checked={
            selected.size === 0 ? false : selected.size >= Math.min(jobs, MAX_SELECTED) ? true : "mixed"
          }
          onSelectAll={onSelectAll}
        />
        <tbody ref={body}>
          {before > 0 && <Space height={before} />}
          {shown.map(({ index }) => {
            const item = items[index];
            if (item === undefined) return null;
            return item.kind === "group" ? (
              <tr key={item.key} ref={virtualizer.measureElement} data-index={index} className="grp">
                <th colSpan={FIXED_COLUMNS} scope="rowgroup">
                  {item.title}
                  {item.count !== null && <span className="n">{formatCount(item.count)}</span>}
                </th>
                {columns.map((each) => (
                  <td key={each} className={CLASSES[each]} />
                ))}
              </tr>
            ) : (
              <JobRow
                key={item.key}
                job={item.job}
                itemIndex={index}
                rowIndex={index + 2}
                selected={selected.has(item.job.id)}
                current={item.job.id === current?.id}
                hidden={hidden}
                onSelect={onSelect}
                measure={virtualizer.measureElement}
              />
            );
          })}
          {after > 0 && <Space height={after} />}
        </tbody>
      </table>
      <TableFoot snapshot={snapshot} onMore={onMore} />
    </div>
  );
}

function toItems(snapshot: JobListSnapshot, counts: JobsTableProps["counts"]): Item[] {
  const toItem = (job: JobSummary): Item => ({ kind: "job", key: job.id, job });
  const items: Item[] = [];
  if (snapshot.active.length > 0) {
    items.push({ kind: "group", key: "active", title: "Active", count: counts.active });
    items.push(...snapshot.active.map(toItem));
  }
  if (snapshot.finished.length > 0) {
    items.push({ kind: "group", key: "finished", title: "Finished", count: counts.finished });
    items.push(...snapshot.finished.map(toItem));
  }
  return items;
}

const CLASSES: Record<ColumnName, string> = {
  progress: "c-prog",
  time: "c-eta num",
  metric: "c-metric",
  where: "c-where",
  cost: "c-cost num",
  age: "c-age num",
};

interface TableHeadProps {
  columns: readonly ColumnName[];
  checked: boolean | "mixed";
  onSelectAll: (selected: boolean) => void;
}

function TableHead({ columns, checked, onSelectAll }: TableHeadProps): ReactNode {
  return (
    <thead>
      <tr>
        <th className="c-check">
          <Checkbox label="Select all loaded jobs" checked={checked} onChange={onSelectAll} />
        </th>
        <th className="c-name">Job</th>
        <th className="c-status">Status</th>
        {columns.map((each) => (
          <th key={each} className={CLASSES[each]}>
            {COLUMNS[each]}
          </th>
        ))}
      </tr>
    </thead>
  );
}

/** Takes the place of rows that are not in the page. */
function Space({ height }: { height: number }) {
  return (
    <tr className="space" aria-hidden="true" style={{ "--h": `${height}px` } as CSSProperties}>
      <td colSpan={FIXED_COLUMNS} />
    </tr>
  );
}

function TableFoot({ snapshot, onMore }: { snapshot: JobListSnapshot; onMore: () => void }) {
  if (snapshot.moreError !== null) {
    return (
      <p className="jobs-foot bad" role="alert">
        More jobs could not be loaded. <Button onClick={onMore}>Try again</Button>
      </p>
    );
  }
  return snapshot.loadingMore ? <p className="jobs-foot t3">Loading more jobs</p> : null;
}
