import { useId } from "react";
import { Checkbox, TextField } from "@/ui/controls";
import { TextArea } from "@/ui/TextArea";
import {
  choiceText,
  defaultText,
  hasChoices,
  hasLines,
  isSwitch,
  optionHelp,
  optionLabel,
  type BackendOption,
  type FormValues,
} from "@/views/machines/form";

export interface OptionFieldsProps {
  options: readonly BackendOption[];
  values: FormValues;
  errors: Record<string, string>;
  onChange: (option: BackendOption, value: string | boolean) => void;
}

/** A field for each option of a kind of backend. */
export function OptionFields({ options, values, errors, onChange }: OptionFieldsProps) {
  return (
    <div className="option-fields">
      {options.map((option) => (
        <div key={option.name} className={hasLines(option) ? "option-field lines" : "option-field"}>
          <OptionField
            option={option}
            value={values[option.name]}
            error={errors[option.name]}
            onChange={(value) => onChange(option, value)}
          />
        </div>
      ))}
    </div>
  );
}

interface OptionFieldProps {
  option: BackendOption;
  value: string | boolean | undefined;
  error: string | undefined;
  onChange: (value: string | boolean) => void;
}

function OptionField({ option, value, error, onChange }: OptionFieldProps) {
  const common = { label: optionLabel(option), error, required: option.required, autoComplete: "off" };
  const text = String(value ?? "");
  const help = error?.includes(option.about) ? null : <TextWithCode text={optionHelp(option)} />;
  if (isSwitch(option)) {
    return (
      <>
        <Checkbox
          showLabel
          label={common.label}
          checked={value === undefined ? option.default === true : value === true}
          onChange={onChange}
        />
        <small className="t3">{help}</small>
        {error !== undefined && <small className="bad field-error">{error}</small>}
      </>
    );
  }
  if (hasLines(option)) {
    return (
      <TextArea
        {...common}
        rows={option.secret ? 4 : 2}
        className="mono"
        spellCheck={false}
        value={text}
        hint={help ?? undefined}
        onChange={onChange}
      />
    );
  }
  return (
    <>
      {hasChoices(option) ? (
        <ChoiceField option={option} value={value} error={error} onChange={onChange} />
      ) : (
        <TextField
          {...common}
          showLabel
          type={option.secret ? "password" : "text"}
          value={text}
          placeholder={defaultText(option)}
          onChange={onChange}
        />
      )}
      {help !== null && <small className="t3">{help}</small>}
    </>
  );
}

/** Text in which names between backticks are code. */
function TextWithCode({ text }: { text: string }) {
  return text.split("`").map((part, index) => (index % 2 === 0 ? part : <code key={index}>{part}</code>));
}

interface ChoiceFieldProps {
  option: BackendOption;
  value: string | boolean | undefined;
  error: string | undefined;
  onChange: (value: string) => void;
}

/** One of the values of an option. The default is chosen first, and is not sent. */
function ChoiceField({ option, value, error, onChange }: ChoiceFieldProps) {
  const id = useId();
  return (
    <div className="text-field">
      <label className="field-label" htmlFor={id}>
        {optionLabel(option)}
      </label>
      <span className={error === undefined ? "field" : "field invalid"}>
        <select
          id={id}
          value={String(value ?? option.default ?? "")}
          aria-invalid={error !== undefined}
          aria-describedby={error === undefined ? undefined : `${id}-error`}
          onChange={(event) => onChange(event.target.value)}
        >
          {(option.choices ?? []).map((choice) => (
            <option key={choice} value={choice}>
              {choiceText(option, choice)}
            </option>
          ))}
        </select>
      </span>
      {error !== undefined && (
        <small id={`${id}-error`} className="bad field-error">
          {error}
        </small>
      )}
    </div>
  );
}
