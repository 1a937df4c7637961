import { useEffect, useRef, useState } from "react";
import { useShortcuts } from "@/app/shortcuts";
import { plural } from "@/lib/format";
import { Button } from "@/ui/Button";
import { Checkbox } from "@/ui/controls";
import { Icon } from "@/ui/Icon";
import { Popover } from "@/ui/Menu";
import { FilterMenu } from "@/views/jobs/FilterMenu";
import { COLUMNS, filterChips, filtersOf, type ColumnName, type JobsSearch } from "@/views/jobs/search";

interface FilterBarProps {
  search: JobsSearch;
  /** How many jobs match, and whether there are more. */
  hits: { count: number; exact: boolean } | null;
  suggestions: Record<"name" | "tag" | "backend" | "person", string[]>;
  onChange: (change: Partial<JobsSearch>) => void;
  /** Begin to select jobs. Undefined where every row has a box. */
  onSelect: (() => void) | undefined;
}

export function FilterBar({ search, hits, suggestions, onChange, onSelect }: FilterBarProps) {
  const setFilters = (change: Partial<JobsSearch>) => onChange({ ...change, selected: [] });
  return (
    <div className="filters">
      <SearchField value={search.q} onChange={(q) => setFilters({ q })} />
      {filterChips(filtersOf(search), search.statuses).map((chip) => (
        <span key={chip.key} className="chip">
          <span className="k">{chip.label}</span>
          <span className="v cut" title={chip.value}>
            {chip.value}
          </span>
          <button
            type="button"
            aria-label={`Remove the filter ${chip.label} ${chip.value}`}
            onClick={() => setFilters(chip.cleared)}
          >
            <Icon name="close" size={12} />
          </button>
        </span>
      ))}
      <FilterMenu search={search} suggestions={suggestions} onFilter={setFilters} />
      {onSelect !== undefined && <Button onClick={onSelect}>Select</Button>}
      {hits !== null && (
        <span className="t3 small nowrap hits" role="status">
          {plural(hits.count, "job")}
          {hits.exact ? "" : " or more"}
        </span>
      )}
      <div className="push row view">
        <ColumnChoice hidden={search.hide} onChange={(hide) => onChange({ hide })} />
      </div>
    </div>
  );
}

const TYPING_MS = 250;

/** The search text becomes part of the URL shortly after the last key. */
function SearchField({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const [typed, setTyped] = useState(value);
  const [known, setKnown] = useState(value);
  const input = useRef<HTMLInputElement>(null);
  if (value !== known) {
    setKnown(value);
    setTyped(value);
  }
  useEffect(() => {
    if (typed === value) return undefined;
    const timer = setTimeout(() => onChange(typed.trim()), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed, value, onChange]);
  useShortcuts([{ keys: "/", label: "Search jobs", group: "Jobs", run: () => input.current?.focus() }]);
  return (
    <label className="field search">
      <span className="sr">Search jobs</span>
      <Icon name="search" size={14} />
      <input
        ref={input}
        type="search"
        placeholder="Name, tag or note"
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
        onKeyDown={(event) => event.key === "Escape" && input.current?.blur()}
      />
      <kbd aria-hidden="true">/</kbd>
    </label>
  );
}

interface ColumnChoiceProps {
  hidden: readonly ColumnName[];
  onChange: (hidden: ColumnName[]) => void;
}

function ColumnChoice({ hidden, onChange }: ColumnChoiceProps) {
  const names = Object.keys(COLUMNS) as ColumnName[];
  return (
    <Popover
      label="Columns"
      align="end"
      trigger={
        <Button look="quiet" icon="columns">
          Columns
        </Button>
      }
    >
      <div className="choices">
        {names.map((name) => (
          <Checkbox
            key={name}
            showLabel
            label={COLUMNS[name]}
            checked={!hidden.includes(name)}
            onChange={(shown) =>
              onChange(names.filter((each) => (each === name ? !shown : hidden.includes(each))))
            }
          />
        ))}
      </div>
    </Popover>
  );
}
