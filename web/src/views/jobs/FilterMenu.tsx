import { Popover as Primitive } from "radix-ui";
import { useState } from "react";
import { sentenceCase } from "@/lib/format";
import { Button } from "@/ui/Button";
import { DatesForm, PhaseForm, ValueForm } from "@/views/jobs/FilterForms";
import {
  SUBMITTED,
  TEXT_FILTERS,
  type JobFilters,
  type Submitted,
  type TextFilter,
} from "@/views/jobs/search";

interface FilterMenuProps {
  filters: JobFilters;
  suggestions: Record<TextFilter, string[]>;
  onFilter: (change: Partial<JobFilters>) => void;
}

type FilterKey = TextFilter | "phase" | "submitted" | "dates";

const LABELS: Record<FilterKey, string> = {
  ...TEXT_FILTERS,
  phase: "Phase",
  submitted: "Submitted",
  dates: "Submitted between",
};
const AGES = Object.entries(SUBMITTED).map(([value, label]) => [value, sentenceCase(label)] as const);

/** Adds a filter: first what to filter by, then the value. */
export function FilterMenu({ filters, suggestions, onFilter }: FilterMenuProps) {
  const [open, setOpen] = useState(false);
  const [key, setKey] = useState<FilterKey | null>(null);
  const show = (next: boolean) => {
    setOpen(next);
    setKey(null);
  };
  const apply = (change: Partial<JobFilters>) => {
    if (Object.values(change).some((value) => value !== "")) onFilter(change);
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
          {key === "phase" && (
            <PhaseForm
              chosen={filters.phase.split(",").filter(Boolean)}
              onApply={(phase) => apply({ phase })}
            />
          )}
          {key === "dates" && <DatesForm from={filters.from} until={filters.until} onApply={apply} />}
          {key !== null && key in TEXT_FILTERS && (
            <ValueForm
              label={LABELS[key]}
              suggestions={suggestions[key as TextFilter]}
              onApply={(value) => apply({ [key]: value })}
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
