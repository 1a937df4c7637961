import { Link } from "@tanstack/react-router";
import { useSession } from "@/app/session";
import { Button } from "@/ui/Button";
import { EmptyState } from "@/ui/states";
import { filterChips, filtersOf, hasFilters, NO_FILTERS, type JobsSearch } from "@/views/jobs/search";

interface NoJobsProps {
  search: JobsSearch;
  onChange: (change: Partial<JobsSearch>) => void;
}

/** Says why the list is empty and what to do. */
export function NoJobs({ search, onChange }: NoJobsProps) {
  const { identity, can } = useSession();
  const filters = filtersOf(search);
  if (hasFilters(filters)) {
    const words = filterChips(filters, search.statuses).map(
      (chip) => `${chip.label.toLowerCase()} ${chip.value}`,
    );
    if (filters.q !== "") words.unshift(`“${filters.q}”`);
    const tab = search.statuses.length === 1 ? search.statuses : [];
    const status = tab.map((each) => `${each} `).join("");
    return (
      <EmptyState
        small
        title={`No ${status}jobs match`}
        actions={
          <Button onClick={() => onChange({ ...NO_FILTERS, statuses: tab, selected: [] })}>
            Clear the filters
          </Button>
        }
      >
        Nothing was found for {words.join(", ")}.
      </EmptyState>
    );
  }
  if (search.statuses.length > 0) {
    const statuses = search.statuses.join(" or ");
    const title = statuses === "active" ? "Nothing is running or waiting" : `No ${statuses} jobs`;
    return (
      <EmptyState
        small
        title={title}
        actions={<Button onClick={() => onChange({ statuses: [] })}>Show all jobs</Button>}
      />
    );
  }
  return (
    <EmptyState
      title={`No jobs in ${identity.project} yet`}
      command={can("write") ? "anygpu run train.py" : undefined}
      actions={
        can("write") && (
          <Link className="btn" to="/new">
            Write one here
          </Link>
        )
      }
    >
      {can("write")
        ? "Start one from a terminal, or write one in the browser."
        : "Jobs of others appear here."}
    </EmptyState>
  );
}
