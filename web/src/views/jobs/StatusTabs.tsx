import { Link } from "@tanstack/react-router";
import type { Schemas } from "@/api/client";
import { formatCount, sentenceCase } from "@/lib/format";
import { formatSearch, STATUSES, type JobsSearch } from "@/views/jobs/search";

interface StatusTabsProps {
  search: JobsSearch;
  counts: Schemas["JobCountList"] | undefined;
}

const TABS = ["all", ...STATUSES] as const;

/** A tab for each status. None is current while jobs of several statuses are listed. */
export function StatusTabs({ search, counts }: StatusTabsProps) {
  const current = search.statuses.length === 0 ? "all" : search.statuses.join(",");
  return (
    <nav className="tabs" aria-label="Status">
      {TABS.map((status) => (
        <Link
          key={status}
          to="/jobs"
          search={formatSearch({ ...search, statuses: status === "all" ? [] : [status], selected: [] })}
          activeOptions={{ exact: true, includeSearch: true }}
          activeProps={{}}
          aria-current={status === current ? "page" : undefined}
        >
          {sentenceCase(status)}
          {counts !== undefined && (
            <span className="n">
              {formatCount(counts[status])}
              {!counts.exact && status !== "active" && "+"}
            </span>
          )}
        </Link>
      ))}
    </nav>
  );
}
