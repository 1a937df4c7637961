import { Link } from "@tanstack/react-router";
import type { Schemas } from "@/api/client";
import { formatCount, sentenceCase } from "@/lib/format";
import { formatSearch, STATUS_TABS, type JobsSearch } from "@/views/jobs/search";

interface StatusTabsProps {
  search: JobsSearch;
  counts: Schemas["JobCountList"] | undefined;
}

export function StatusTabs({ search, counts }: StatusTabsProps) {
  return (
    <nav className="tabs" aria-label="Status">
      {STATUS_TABS.map((status) => (
        <Link
          key={status}
          to="/jobs"
          search={formatSearch({ ...search, status, selected: [] })}
          activeOptions={{ exact: true, includeSearch: true }}
          activeProps={{}}
          aria-current={status === search.status ? "page" : undefined}
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
