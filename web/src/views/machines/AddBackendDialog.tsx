import { useEffect, useId, useRef, useState, type FormEvent } from "react";
import { asProblem } from "@/api/client";
import { showToast } from "@/app/toasts";
import { focusOnMount } from "@/lib/focus";
import { Button } from "@/ui/Button";
import { TextField } from "@/ui/controls";
import { Dialog } from "@/ui/Dialog";
import { Callout, ErrorState, Skeleton } from "@/ui/states";
import { StatusIcon } from "@/ui/Status";
import { useAddBackend, useBackendKinds, useCheckBackend, type BackendKind } from "@/views/machines/data";
import {
  fieldErrors,
  formFields,
  groupKinds,
  toRequest,
  type BackendOption,
  type FormValues,
} from "@/views/machines/form";
import { OptionFields, type OptionFieldsProps } from "@/views/machines/OptionFields";

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

const FIRST_CHOICE = "ssh";

interface BackendFormProps {
  kinds: readonly BackendKind[];
  firstKind: string;
  onClose: () => void;
}

function BackendForm({ kinds, firstKind, onClose }: BackendFormProps) {
  const isFixed = kinds.some((each) => each.name === firstKind);
  const [kindName, setKindName] = useState(isFixed ? firstKind : FIRST_CHOICE);
  const [name, setName] = useState("");
  const [values, setValues] = useState<FormValues>({});
  const check = useCheckBackend();
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
  const problems = problem?.problems ?? [];
  const errors = fieldErrors(problems);
  const { first, more } = kind === undefined ? { first: [], more: [] } : formFields(kind);
  const fields = new Set(["name", ...[...first, ...more].map((option) => option.name)]);
  const rest = Object.keys(errors).filter((field) => !fields.has(field));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (kind !== undefined) add.mutate(toRequest(name, kind.name, kind.options, values));
  };
  const set = (option: BackendOption, value: string | boolean) =>
    setValues({ ...values, [option.name]: value });
  const chooseKind = (chosen: string) => {
    setKindName(chosen);
    setValues({});
    add.reset();
  };
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    if (add.error !== null) form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
  }, [add.error]);
  return (
    <form ref={form} className="backend-form" onSubmit={submit}>
      {!isFixed && <KindSelect kinds={kinds} value={kindName} onChange={chooseKind} />}
      <p className="t2">{kind?.about}</p>
      <TextField
        showLabel
        label="Name"
        value={name}
        onChange={setName}
        error={errors.name}
        placeholder="as jobs name it"
        ref={focusOnMount}
        required
      />
      <OptionFields options={first} values={values} errors={errors} onChange={set} />
      <MoreOptions key={kindName} options={more} values={values} errors={errors} onChange={set} />
      {problem !== null && (
        <Callout tone="bad">
          {problems.length === 0
            ? `${problem.detail ?? problem.title} ${problem.hint ?? ""}`
            : rest.length > 0
              ? rest.map((field) => errors[field]).join("; ")
              : "The backend was not added. Correct the marked fields."}
        </Callout>
      )}
      <div className="row dialog-actions">
        <Button onClick={onClose}>Close without adding</Button>
        <Button
          type="submit"
          look="primary"
          disabled={add.isPending || name.trim() === ""}
          title={name.trim() === "" ? "A name is needed" : undefined}
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
          {groupKinds(kinds).map(([label, members]) => (
            <optgroup key={label} label={label}>
              {members.map((each) => (
                <option key={each.name} value={each.name}>
                  {each.name}
                </option>
              ))}
            </optgroup>
          ))}
        </select>
      </span>
    </div>
  );
}

/** The options that are folded away. They open if one of them is not accepted. */
function MoreOptions(props: OptionFieldsProps) {
  const [isOpen, setOpen] = useState(false);
  const hasError = props.options.some((option) => props.errors[option.name] !== undefined);
  if (props.options.length === 0) return null;
  return (
    <details open={isOpen || hasError} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>More options</summary>
      <OptionFields {...props} />
    </details>
  );
}
