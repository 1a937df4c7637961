import { Popover as Primitive } from "radix-ui";
import { useEffect, useId, useRef, useState } from "react";
import { sentenceCase } from "@/lib/format";
import { Button } from "@/ui/Button";
import { PHASES, SUBMITTED, TEXT_FILTERS, type JobFilters, type TextFilter } from "@/views/jobs/search";

interface FilterMenuProps {
  suggestions: Record<TextFilter, string[]>;
  onFilter: (key: keyof JobFilters, value: string) => void;
}

type FilterKey = TextFilter | "phase" | "submitted";

const LABELS: Record<FilterKey, string> = { ...TEXT_FILTERS, phase: "Phase", submitted: "Submitted" };
const CHOICES: Partial<Record<FilterKey, [value: string, label: string][]>> = {
  phase: PHASES.map((each) => [each, sentenceCase(each)]),
  submitted: Object.entries(SUBMITTED).map(([value, label]) => [value, sentenceCase(label)]),
};

/** Adds a filter: first what to filter by, then the value. */
export function FilterMenu({ suggestions, onFilter }: FilterMenuProps) {
  const [open, setOpen] = useState(false);
  const [key, setKey] = useState<FilterKey | null>(null);
  const show = (next: boolean) => {
    setOpen(next);
    setKey(null);
  };
  const apply = (value: string) => {
    if (key !== null && value !== "") onFilter(key, value);
    show(false);
  };
  const choices = key === null ? undefined : CHOICES[key];
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
          {choices !== undefined && <OptionList options={choices} onChoose={apply} />}
          {key !== null && choices === undefined && (
            <ValueForm label={LABELS[key]} suggestions={suggestions[key as TextFilter]} onApply={apply} />
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

interface ValueFormProps {
  label: string;
  suggestions: readonly string[];
  onApply: (value: string) => void;
}

function ValueForm({ label, suggestions, onApply }: ValueFormProps) {
  const [value, setValue] = useState("");
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  return (
    <form
      className="value-form"
      onSubmit={(event) => {
        event.preventDefault();
        onApply(value.trim());
      }}
    >
      <label className="field-label" htmlFor={id}>
        {label} is exactly
      </label>
      <span className="row">
        <span className="field">
          <input
            id={id}
            ref={input}
            value={value}
            list={`${id}-list`}
            onChange={(event) => setValue(event.target.value)}
          />
        </span>
        <Button type="submit">Apply</Button>
      </span>
      <datalist id={`${id}-list`}>
        {suggestions.map((each) => (
          <option key={each} value={each} />
        ))}
      </datalist>
    </form>
  );
}
