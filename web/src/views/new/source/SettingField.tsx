import { useId, useState } from "react";
import { TextField } from "@/ui/controls";
import { TextArea } from "@/ui/TextArea";
import type { Json, Mapping } from "@/views/new/draft";
import {
  freeText,
  parseSetting,
  settingProblem,
  settingText,
  withFree,
  type SettingSchema,
} from "@/views/new/source/settings";

interface SettingFieldProps {
  name: string;
  schema: SettingSchema;
  required: boolean;
  value: Json | undefined;
  /** What the server says about the value. */
  error: string | undefined;
  onChange: (value: Json | undefined) => void;
}

/** The field of one setting. An empty field means the default, which is its placeholder. */
export function SettingField(props: SettingFieldProps) {
  const { schema } = props;
  if (schema.enum !== undefined) return <ChoiceField {...props} choices={schema.enum} />;
  if (schema.type === "boolean") return <ChoiceField {...props} choices={["true", "false"]} />;
  return <TextSetting {...props} />;
}

const LABELS: Record<string, string> = { amp: "Mixed precision", val_fraction: "Validation part" };

function label(name: string): string {
  if (LABELS[name] !== undefined) return LABELS[name];
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function ChoiceField({
  name,
  schema,
  value,
  error,
  choices,
  onChange,
}: SettingFieldProps & { choices: string[] }) {
  const id = useId();
  const isBoolean = schema.type === "boolean";
  const shown = (choice: string) => (isBoolean ? { true: "Yes", false: "No" }[choice] : choice);
  const usual = schema.default === undefined ? "as the trainer chooses" : shown(String(schema.default));
  return (
    <div className="text-field">
      <label className="field-label" htmlFor={id} title={schema.description}>
        {label(name)}
      </label>
      <select
        id={id}
        className="select"
        value={value === undefined ? "" : String(value)}
        aria-invalid={error !== undefined}
        onChange={(event) => {
          const chosen = event.target.value;
          onChange(chosen === "" ? undefined : isBoolean ? chosen === "true" : chosen);
        }}
      >
        <option value="">Default: {usual}</option>
        {choices.map((choice) => (
          <option key={choice} value={choice}>
            {shown(choice)}
          </option>
        ))}
      </select>
      {error !== undefined && <small className="bad field-error">{error}</small>}
    </div>
  );
}

function TextSetting({ name, schema, required, value, error, onChange }: SettingFieldProps) {
  const [text, setText] = useState(settingText(value));
  const id = useId();
  const wrong = settingProblem(schema, parseSetting(schema, text)) || error;
  const usual = schema.default === undefined ? "" : settingText(schema.default);
  return (
    <>
      <TextField
        label={required ? `${label(name)} (needed)` : label(name)}
        showLabel
        value={text}
        title={schema.description}
        placeholder={usual || (schema.description ?? "")}
        inputMode={schema.type === "integer" ? "numeric" : schema.type === "number" ? "decimal" : "text"}
        {...(schema.examples === undefined ? {} : { list: id })}
        onChange={(next) => {
          setText(next);
          onChange(parseSetting(schema, next));
        }}
        {...(wrong === undefined || wrong === "" ? {} : { error: wrong })}
      />
      {schema.examples !== undefined && (
        <datalist id={id}>
          {schema.examples.map((example) => (
            <option key={example} value={example} />
          ))}
        </datalist>
      )}
    </>
  );
}

interface FreeOptionsProps {
  names: readonly string[];
  settings: Mapping;
  errors: Record<string, string>;
  onChange: (settings: Mapping) => void;
}

/** Options that are passed to the framework under their own names. */
export function FreeOptions({ names, settings, errors, onChange }: FreeOptionsProps) {
  const [text, setText] = useState(freeText(settings, names));
  const wrong = names.map((name) => errors[`config.${name}`]).find((each) => each !== undefined);
  if (names.length === 0) return null;
  return (
    <TextArea
      label="Options of the framework"
      value={text}
      rows={3}
      placeholder={`${names[0]}=…`}
      hint={`One NAME=VALUE per line: ${names.join(", ")}`}
      onChange={(next) => {
        setText(next);
        onChange(withFree(settings, names, next));
      }}
      {...(wrong === undefined ? {} : { error: wrong })}
    />
  );
}
