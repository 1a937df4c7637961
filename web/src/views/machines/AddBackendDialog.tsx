import { useId, useState, type FormEvent } from "react";
import { asProblem } from "@/api/client";
import { showToast } from "@/app/toasts";
import { sentenceCase } from "@/lib/format";
import { Button } from "@/ui/Button";
import { Checkbox, TextField } from "@/ui/controls";
import { Dialog } from "@/ui/Dialog";
import { Callout, ErrorState, Skeleton } from "@/ui/states";
import { StatusIcon } from "@/ui/Status";
import { useAddBackend, useBackendKinds, useChecks, type BackendKind } from "@/views/machines/data";
import {
  defaultText,
  fieldErrors,
  isCommon,
  isList,
  isSwitch,
  toRequest,
  type BackendOption,
  type FormValues,
} from "@/views/machines/form";

interface AddBackendDialogProps {
  /** The kind to start with; empty: the user chooses. */
  kind: string;
  onClose: () => void;
}

/** A form for a new backend or host, generated from the options of its kind. */
export function AddBackendDialog({ kind, onClose }: AddBackendDialogProps) {
  const kinds = useBackendKinds(true);
  const title = kind === "ssh" ? "Add a host" : "Add a backend";
  return (
    <Dialog open wide title={title} onClose={onClose}>
      {kinds.data && <BackendForm kinds={kinds.data.kinds} firstKind={kind} onClose={onClose} />}
      {kinds.error !== null && (
        <ErrorState
          title="The kinds of backends could not be loaded"
          error={kinds.error}
          onRetry={() => void kinds.refetch()}
        />
      )}
      {kinds.isPending && <Skeleton label="Loading the form" rows={4} />}
    </Dialog>
  );
}

interface BackendFormProps {
  kinds: readonly BackendKind[];
  firstKind: string;
  onClose: () => void;
}

function BackendForm({ kinds, firstKind, onClose }: BackendFormProps) {
  const [kindName, setKindName] = useState(firstKind || kinds[0]?.name || "");
  const [name, setName] = useState("");
  const [values, setValues] = useState<FormValues>({});
  const { check } = useChecks();
  const add = useAddBackend((entry) => {
    check.mutate(entry.name);
    showToast({
      title: `${entry.name} is added`,
      text: "Its credentials and offers are being checked.",
      icon: <StatusIcon status="completed" phase="" />,
    });
    onClose();
  });
  const kind = kinds.find((each) => each.name === kindName);
  const problem = add.error === null ? null : asProblem(add.error).body;
  const errors = fieldErrors(problem?.problems ?? []);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (kind !== undefined) add.mutate(toRequest(name, kind.name, kind.options, values));
  };
  const set = (option: BackendOption, value: string | boolean) =>
    setValues({ ...values, [option.name]: value });
  return (
    <form className="backend-form" onSubmit={submit}>
      {firstKind === "" && <KindSelect kinds={kinds} value={kindName} onChange={setKindName} />}
      <p className="t2">{kind?.about}</p>
      <TextField
        showLabel
        label="Name"
        value={name}
        onChange={setName}
        error={errors.name}
        placeholder="as jobs name it"
        required
      />
      <OptionFields
        options={kind?.options.filter(isCommon) ?? []}
        values={values}
        errors={errors}
        onChange={set}
      />
      <details>
        <summary>More options</summary>
        <OptionFields
          options={kind?.options.filter((each) => !isCommon(each)) ?? []}
          values={values}
          errors={errors}
          onChange={set}
        />
      </details>
      {problem !== null && (
        <Callout tone="bad">
          {problem.detail ?? problem.title} {problem.hint}
        </Callout>
      )}
      <div className="row dialog-actions">
        <Button onClick={onClose}>Close without adding</Button>
        <Button
          type="submit"
          look="primary"
          disabled={add.isPending || name.trim() === ""}
          title="A name is needed"
        >
          {add.isPending ? "Adding" : "Add and check"}
        </Button>
      </div>
    </form>
  );
}

interface KindSelectProps {
  kinds: readonly BackendKind[];
  value: string;
  onChange: (kind: string) => void;
}

function KindSelect({ kinds, value, onChange }: KindSelectProps) {
  const id = useId();
  return (
    <div className="text-field">
      <label className="field-label" htmlFor={id}>
        Kind
      </label>
      <span className="field">
        <select id={id} value={value} onChange={(event) => onChange(event.target.value)}>
          {kinds.map((each) => (
            <option key={each.name} value={each.name}>
              {each.name}
            </option>
          ))}
        </select>
      </span>
    </div>
  );
}

interface OptionFieldsProps {
  options: readonly BackendOption[];
  values: FormValues;
  errors: Record<string, string>;
  onChange: (option: BackendOption, value: string | boolean) => void;
}

function OptionFields({ options, values, errors, onChange }: OptionFieldsProps) {
  return (
    <div className="option-fields">
      {options.map((option) => (
        <div key={option.name} className="option-field">
          {isSwitch(option) ? (
            <Checkbox
              showLabel
              label={label(option)}
              checked={
                values[option.name] === undefined ? option.default === true : values[option.name] === true
              }
              onChange={(checked) => onChange(option, checked)}
            />
          ) : (
            <TextField
              showLabel
              label={label(option)}
              type={option.secret ? "password" : "text"}
              autoComplete="off"
              value={String(values[option.name] ?? "")}
              placeholder={defaultText(option)}
              required={option.required}
              error={errors[option.name]}
              onChange={(value) => onChange(option, value)}
            />
          )}
          <small className="t3">
            {sentenceCase(option.about)}
            {isList(option) && "; separate several with commas"}
          </small>
        </div>
      ))}
    </div>
  );
}

function label(option: BackendOption): string {
  return sentenceCase(option.name.replaceAll("_", " "));
}
