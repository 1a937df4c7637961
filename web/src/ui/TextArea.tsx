import { useId, type ReactNode, type TextareaHTMLAttributes } from "react";

interface TextAreaProps extends Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, "onChange" | "value"> {
  label: string;
  value: string;
  onChange: (value: string) => void;
  /** What is wrong with the value. */
  error?: string;
  /** How to write the value. */
  hint?: ReactNode;
}

/** A field for several lines, with its label above. */
export function TextArea({ label, value, onChange, error, hint, rows = 2, ...rest }: TextAreaProps) {
  const id = useId();
  const described = [error === undefined ? "" : `${id}-error`, hint === undefined ? "" : `${id}-hint`];
  return (
    <div className="text-field">
      <label className="field-label" htmlFor={id}>
        {label}
      </label>
      <span className={error === undefined ? "field area" : "field area invalid"}>
        <textarea
          id={id}
          rows={rows}
          value={value}
          aria-invalid={error !== undefined}
          aria-describedby={described.filter(Boolean).join(" ") || undefined}
          onChange={(event) => onChange(event.target.value)}
          {...rest}
        />
      </span>
      {hint !== undefined && (
        <small id={`${id}-hint`} className="t3 tiny">
          {hint}
        </small>
      )}
      {error !== undefined && (
        <small id={`${id}-error`} className="bad field-error">
          {error}
        </small>
      )}
    </div>
  );
}
