/** Name, arguments, data, machine and the other fields of a job. Rarely used ones are folded. */

import { useQuery } from "@tanstack/react-query";
import { useId } from "react";
import { api, unwrap } from "@/api/client";
import { useSession } from "@/app/session";
import { TextField } from "@/ui/controls";
import { Icon } from "@/ui/Icon";
import { TextArea } from "@/ui/TextArea";
import type { Draft, FieldName } from "@/views/new/draft";
import type { Plan } from "@/views/new/offers";
import { KeptValues } from "@/views/new/source/KeptValues";
import { defaultName } from "@/views/new/spec";

interface JobFormProps {
  draft: Draft;
  update: (change: (draft: Draft) => Draft) => void;
  errors: Record<string, string>;
  plan: Plan | null;
}

const FOLDED: readonly FieldName[] = [
  "tags",
  "timeout",
  "retries",
  "cpus",
  "memory",
  "env",
  "secrets",
  "requirements",
  "setup",
  "checkpoint",
  "resumeArgs",
  "outputs",
  "python",
  "priority",
];

export function JobForm({ draft, update, errors, plan }: JobFormProps) {
  const set = (name: FieldName) => (value: string) =>
    update((current) => ({ ...current, fields: { ...current.fields, [name]: value } }));
  const field = (name: FieldName) => ({
    value: draft.fields[name],
    onChange: set(name),
    ...(errors[name] === undefined ? {} : { error: errors[name] }),
  });
  const hasFoldedError = FOLDED.some((name) => errors[name] !== undefined);
  const filled = FOLDED.filter((name) => draft.fields[name] !== "").length;
  return (
    <div className="form">
      <KeptValues draft={draft} update={update} />
      <TextField label="Name" showLabel placeholder={defaultName(draft) || "job"} {...field("name")} />
      {draft.source === "code" ? (
        <TextField
          label="Arguments"
          showLabel
          placeholder="--epochs 30"
          spellCheck={false}
          {...field("args")}
          {...(errors.script === undefined ? {} : { error: errors.script })}
        />
      ) : (
        <TextField label="Tags" showLabel placeholder="vision, baseline" {...field("tags")} />
      )}
      <DatasetField draft={draft} field={field("dataset")} />
      <TextField label="GPU" showLabel placeholder={gpuHint(plan)} {...field("gpu")} />
      <details className="more-fields" open={hasFoldedError || undefined}>
        <summary>
          <Icon name="chevronRight" size={12} />
          More options{filled > 0 && <span className="t3">, {filled} set</span>}
        </summary>
        <MoreFields draft={draft} field={field} />
      </details>
    </div>
  );
}

interface FieldProps {
  value: string;
  onChange: (value: string) => void;
  error?: string | undefined;
}

/** The analyser's prediction helps to choose a GPU. */
function gpuHint(plan: Plan | null): string {
  const memory = plan?.workload.find((fact) => fact.what === "GPU memory")?.value.split(" (")[0];
  return memory === undefined ? "any, or A100, 24GB:2" : `any that fits (needs ${memory})`;
}

function DatasetField({ draft, field }: { draft: Draft; field: FieldProps }) {
  const id = useId();
  const data = draft.files.filter((file) => !file.path.endsWith(".py")).slice(0, 50);
  const isFile = draft.files.some((file) => file.path === field.value.trim());
  const { error, ...rest } = field;
  return (
    <>
      <TextField
        label="Dataset"
        showLabel
        placeholder="path, URL or name@version"
        list={id}
        suffix={isFile ? <span className="tiny nowrap ok">in your files</span> : undefined}
        {...rest}
        {...(error === undefined ? {} : { error })}
      />
      <datalist id={id}>
        {data.map((file) => (
          <option key={file.path} value={file.path} />
        ))}
      </datalist>
    </>
  );
}

interface MoreFieldsProps {
  draft: Draft;
  field: (name: FieldName) => { value: string; onChange: (value: string) => void; error?: string };
}

function MoreFields({ draft, field }: MoreFieldsProps) {
  const { can } = useSession();
  const secrets = useQuery({
    queryKey: ["secrets"],
    enabled: can("write"),
    queryFn: () => unwrap(api.GET("/api/v1/secrets")),
  });
  const names = secrets.data?.secrets.map((each) => each.name) ?? [];
  return (
    <div className="form-grid">
      {draft.source === "code" && (
        <TextField label="Tags" showLabel placeholder="vision, baseline" {...field("tags")} />
      )}
      <TextField label="Stop after" showLabel placeholder="6h" {...field("timeout")} />
      <TextField label="Retries" showLabel placeholder="3" inputMode="numeric" {...field("retries")} />
      <TextField label="CPUs" showLabel placeholder="any" {...field("cpus")} />
      <TextField label="Memory" showLabel placeholder="16GiB" {...field("memory")} />
      <TextField label="Priority" showLabel placeholder="0" {...field("priority")} />
      <TextField label="Checkpoint files" showLabel placeholder="ckpt/*.pt" {...field("checkpoint")} />
      <TextField
        label="Arguments of a resumed run"
        showLabel
        placeholder="--resume {path}"
        {...field("resumeArgs")}
      />
      <TextField label="Files to keep" showLabel placeholder="runs/**" {...field("outputs")} />
      <TextField label="Python" showLabel placeholder="that of the machine" {...field("python")} />
      <TextArea
        label="Environment"
        placeholder="WANDB_MODE=offline"
        hint="One NAME=VALUE per line."
        {...field("env")}
      />
      <TextArea
        label="Secrets"
        placeholder="HF_TOKEN"
        hint={
          names.length > 0
            ? `Stored: ${names.slice(0, 8).join(", ")}`
            : "Names of stored secrets, or VARIABLE=NAME."
        }
        {...field("secrets")}
      />
      <TextArea
        label="Requirements"
        placeholder="requirements.txt"
        hint="A file of the job, or one package per line."
        {...field("requirements")}
      />
      <TextArea
        label="Set-up commands"
        placeholder="apt-get install -y ffmpeg"
        hint="Run before the job."
        {...field("setup")}
      />
    </div>
  );
}
