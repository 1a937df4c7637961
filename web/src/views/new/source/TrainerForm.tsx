/** A form for the settings of a trainer, generated from the trainer's JSON schema. */

import { useQuery } from "@tanstack/react-query";
import { useId } from "react";
import { api, unwrap, type Schemas } from "@/api/client";
import { Icon } from "@/ui/Icon";
import { Callout, ErrorState, Skeleton } from "@/ui/states";
import type { Draft, Json, Mapping } from "@/views/new/draft";
import { groupSettings, type SettingSchema } from "@/views/new/source/settings";
import { FreeOptions, SettingField } from "@/views/new/source/SettingField";

type Trainer = Schemas["TrainerDetails"];

interface TrainerFormProps {
  draft: Draft;
  update: (change: (draft: Draft) => Draft) => void;
  errors: Record<string, string>;
}

export function TrainerForm({ draft, update, errors }: TrainerFormProps) {
  const query = useQuery({
    queryKey: ["trainers"],
    staleTime: 60_000,
    queryFn: () => unwrap(api.GET("/api/v1/trainers")),
  });
  if (query.isPending) return <Skeleton label="Loading the trainers" />;
  if (query.isError) {
    return (
      <ErrorState
        title="The trainers could not be loaded"
        error={query.error}
        onRetry={() => void query.refetch()}
      />
    );
  }
  const { trainers } = query.data;
  const chosen = trainers.find((each) => each.name === draft.trainer);
  const choose = (name: string) =>
    update((current) => ({
      ...current,
      trainer: name,
      settings: name === current.trainer ? current.settings : {},
    }));
  return (
    <div className="trainer">
      <TrainerChoice trainers={trainers} chosen={draft.trainer} onChoose={choose} error={errors.trainer} />
      {chosen !== undefined && (
        <Settings key={chosen.name} trainer={chosen} draft={draft} update={update} errors={errors} />
      )}
    </div>
  );
}

interface TrainerChoiceProps {
  trainers: readonly Trainer[];
  chosen: string;
  onChoose: (name: string) => void;
  error: string | undefined;
}

function TrainerChoice({ trainers, chosen, onChoose, error }: TrainerChoiceProps) {
  const id = useId();
  const trainer = trainers.find((each) => each.name === chosen);
  const isKnown = chosen === "" || trainer !== undefined;
  return (
    <div className="text-field">
      <label className="field-label" htmlFor={id}>
        Trainer
      </label>
      <select id={id} className="select" value={chosen} onChange={(event) => onChoose(event.target.value)}>
        <option value="">Choose what to train</option>
        {!isKnown && <option value={chosen}>{chosen}</option>}
        {trainers.map((each) => (
          <option key={each.name} value={each.name}>
            {each.title === each.name ? each.name : `${each.title} (${each.name})`}
          </option>
        ))}
      </select>
      {error !== undefined && <small className="bad field-error">{error}</small>}
      {trainer !== undefined && <About trainer={trainer} />}
    </div>
  );
}

function About({ trainer }: { trainer: Trainer }) {
  return (
    <>
      <p className="small t2">
        {trainer.description} {trainer.dataset !== "" && `Dataset: ${trainer.dataset}.`}{" "}
        <span className="t3">
          {trainer.licence !== "" && `Licence of the framework: ${trainer.licence}.`}
        </span>
      </p>
      {trainer.licence_note !== "" && <Callout tone="warn">{trainer.licence_note}</Callout>}
      {!trainer.installed && (
        <p className="tiny t3">
          Its packages are not installed on the server. Other machines install them by themselves. For the
          server&apos;s own machine: <code>{trainer.install}</code>
        </p>
      )}
    </>
  );
}

interface SettingsProps {
  trainer: Trainer;
  draft: Draft;
  update: (change: (draft: Draft) => Draft) => void;
  errors: Record<string, string>;
}

function Settings({ trainer, draft, update, errors }: SettingsProps) {
  const schema = trainer.settings as { properties: Record<string, SettingSchema>; required: string[] };
  const groups = groupSettings(schema.properties, schema.required);
  const set = (name: string, value: Json | undefined) =>
    update((current) => ({ ...current, settings: withSetting(current.settings, name, value) }));
  const show = (name: string) => (
    <SettingField
      key={name}
      name={name}
      schema={schema.properties[name] ?? {}}
      required={schema.required.includes(name)}
      value={draft.settings[name]}
      error={errors[`config.${name}`]}
      onChange={(value) => set(name, value)}
    />
  );
  const hasError = [...groups.more, ...groups.free].some((name) => errors[`config.${name}`] !== undefined);
  return (
    <>
      <div className="form-grid">{groups.main.map(show)}</div>
      <details className="more-fields" open={hasError || undefined}>
        <summary>
          <Icon name="chevronRight" size={12} />
          More settings <span className="t3">{groups.more.length + groups.free.length}</span>
        </summary>
        <div className="form-grid">{groups.more.map(show)}</div>
        <FreeOptions
          names={groups.free}
          settings={draft.settings}
          errors={errors}
          onChange={(settings) => update((current) => ({ ...current, settings }))}
        />
      </details>
    </>
  );
}

function withSetting(settings: Mapping, name: string, value: Json | undefined): Mapping {
  const others = Object.entries(settings).filter(([each]) => each !== name);
  return Object.fromEntries(value === undefined ? others : [...others, [name, value]]);
}
