import { Popover as Primitive } from "radix-ui";
import { useState } from "react";
import { sentenceCase } from "@/lib/format";
import { Button } from "@/ui/Button";
import { ChoiceForm, DatesForm, ValueForm } from "@/views/jobs/FilterForms";
import {
  PHASES,
  someStatuses,
  STATUSES,
  SUBMITTED,
  TEXT_FILTERS,
  type JobsSearch,
  type Submitted,
  type TextFilter,
} from "@/views/jobs/search";

interface FilterMenuProps {
  search: JobsSearch;
  suggestions: Record<TextFilter, string[]>;
  onFilter: (change: Partial<JobsSearch>) => void;
}

type FilterKey = TextFilter | "status" | "phase" | "submitted" | "dates";

const LABELS: Record<FilterKey, string> = {
  ...TEXT_FILTERS,
  status: "Status",
  phase: "Phase",
  submitted: "Submitted",
  dates: "Submitted between",
};
const AGES = Object.entries(SUBMITTED).map(([value, label]) => [value, sentenceCase(label)] as const);

/** Adds a filter: first what to filter by, then the value. */
export function FilterMenu({ search, suggestions, onFilter }: FilterMenuProps) {
  const [open, setOpen] = useState(false);
  const [key, setKey] = useState<FilterKey | null>(null);
  const show = (next: boolean) => {
    setOpen(next);
    setKey(null);
  };
  const apply = (change: Partial<JobsSearch>) => {
    onFilter(change);
    show(false);
  };
  return (
    <Primitive.Root open={open} onOpenChange={show}>
      <Primitive.Trigger asChild>
        <Button className="add" icon="plus">
          Filter
        </Button>
      </Primitive.Trigger>
      <Primitive.Portal>
        <Primitive.Content
          className="popover filter-menu"
          align="start"
          sideOffset={4}
          aria-label="Add a filter"
        >
          {key === null && (
            <OptionList options={Object.entries(LABELS)} onChoose={(value) => setKey(value as FilterKey)} />
          )}
          {key === "submitted" && (
            <OptionList
              options={AGES}
              onChoose={(value) => apply({ submitted: value as Submitted, from: "", until: "" })}
            />
          )}
          {key === "status" && (
            <ChoiceForm
              options={STATUSES}
              chosen={search.statuses}
              onApply={(statuses) => apply({ statuses: someStatuses(statuses) })}
            />
          )}
          {key === "phase" && (
            <ChoiceForm
              options={PHASES}
              chosen={search.phase.split(",").filter(Boolean)}
              onApply={(phases) => apply({ phase: phases.join(",") })}
            />
          )}
          {key === "dates" && <DatesForm from={search.from} until={search.until} onApply={apply} />}
          {key !== null && key in TEXT_FILTERS && (
            <ValueForm
              label={LABELS[key]}
              suggestions={suggestions[key as TextFilter]}
              onApply={(value) => (value === "" ? show(false) : apply({ [key]: value }))}
            />
          )}
        </Primitive.Content>
      </Primitive.Portal>
    </Primitive.Root>
  );
}

interface OptionListProps {
  options: readonly (readonly [string, string])[];
  onChoose: (value: string) => void;
}

function OptionList({ options, onChoose }: OptionListProps) {
  return (
    <ul className="option-list">
      {options.map(([value, label]) => (
        <li key={value}>
          <button type="button" className="menu-item" onClick={() => onChoose(value)}>
            {label}
          </button>
        </li>
      ))}
    </ul>
  );
}
