import { useEffect, useId, useRef, useState, type FormEvent } from "react";
import { sentenceCase } from "@/lib/format";
import { Button } from "@/ui/Button";
import { Checkbox } from "@/ui/controls";
import type { JobFilters } from "@/views/jobs/search";

interface ValueFormProps {
  label: string;
  suggestions: readonly string[];
  onApply: (value: string) => void;
}

export function ValueForm({ label, suggestions, onApply }: ValueFormProps) {
  const [value, setValue] = useState("");
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  return (
    <form className="value-form" onSubmit={onSubmit(() => onApply(value.trim()))}>
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

interface ChoiceFormProps {
  options: readonly string[];
  chosen: readonly string[];
  onApply: (chosen: string[]) => void;
}

/** One or several of the options. */
export function ChoiceForm({ options, chosen, onApply }: ChoiceFormProps) {
  const [checked, setChecked] = useState(() => [...chosen]);
  return (
    <form className="value-form" onSubmit={onSubmit(() => onApply(checked))}>
      <div className="choices">
        {options.map((option) => (
          <Checkbox
            key={option}
            showLabel
            label={sentenceCase(option)}
            checked={checked.includes(option)}
            onChange={(next) =>
              setChecked(options.filter((each) => (each === option ? next : checked.includes(each))))
            }
          />
        ))}
      </div>
      <Button type="submit">Apply</Button>
    </form>
  );
}

interface DatesFormProps {
  from: string;
  until: string;
  onApply: (change: Partial<JobFilters>) => void;
}

/** The first and the last day on which jobs were submitted. One of them is enough. */
export function DatesForm({ from, until, onApply }: DatesFormProps) {
  const [first, setFirst] = useState(from);
  const [last, setLast] = useState(until);
  const id = useId();
  return (
    <form
      className="value-form"
      onSubmit={onSubmit(() =>
        onApply({ from: first, until: last, ...(first || last ? { submitted: "" } : {}) }),
      )}
    >
      <label className="field-label" htmlFor={`${id}-from`}>
        First day
      </label>
      <span className="field">
        <input
          id={`${id}-from`}
          type="date"
          value={first}
          max={last || undefined}
          onChange={(event) => setFirst(event.target.value)}
        />
      </span>
      <label className="field-label" htmlFor={`${id}-until`}>
        Last day
      </label>
      <span className="field">
        <input
          id={`${id}-until`}
          type="date"
          value={last}
          min={first || undefined}
          onChange={(event) => setLast(event.target.value)}
        />
      </span>
      <Button type="submit">Apply</Button>
    </form>
  );
}

function onSubmit(apply: () => void) {
  return (event: FormEvent) => {
    event.preventDefault();
    apply();
  };
}
