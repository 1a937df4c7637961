/** Choose the runs to compare: a search over the project's jobs. */

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "@/api/client";
import { shortId } from "@/lib/format";
import { Button } from "@/ui/Button";
import { Checkbox, TextField } from "@/ui/controls";
import { Popover } from "@/ui/Menu";
import { ErrorState, Skeleton } from "@/ui/states";
import { Status } from "@/ui/Status";
import { RelativeTime } from "@/ui/Time";
import { MAX_RUNS } from "@/views/compare/runs";

interface RunPickerProps {
  ids: readonly string[];
  onChange: (ids: readonly string[]) => void;
}

const SHOWN_JOBS = 30;

export function RunPicker({ ids, onChange }: RunPickerProps) {
  return (
    <Popover
      label="Choose runs"
      trigger={<Button icon="plus">{ids.length === 0 ? "Choose runs" : "Add runs"}</Button>}
    >
      <JobChoices ids={ids} onChange={onChange} />
    </Popover>
  );
}

function JobChoices({ ids, onChange }: RunPickerProps) {
  const [text, setText] = useState("");
  const query = useQuery({
    queryKey: ["compare-choices", text],
    queryFn: () =>
      unwrap(
        api.GET("/api/v1/training", {
          params: { query: { limit: SHOWN_JOBS, q: text === "" ? undefined : text } },
        }),
      ),
    placeholderData: keepPreviousData,
  });
  const toggle = (id: string, chosen: boolean) =>
    onChange(chosen ? [...ids, id].slice(0, MAX_RUNS) : ids.filter((each) => each !== id));
  return (
    <div className="run-picker">
      <TextField
        label="Search jobs"
        icon="search"
        type="search"
        placeholder="Search jobs"
        value={text}
        onChange={setText}
      />
      {query.error !== null && (
        <ErrorState
          title="The jobs could not be loaded"
          error={query.error}
          onRetry={() => void query.refetch()}
        />
      )}
      {query.data === undefined && query.error === null && <Skeleton label="Loading jobs" rows={4} />}
      {query.data?.jobs.length === 0 && <p className="t2 small">No job matches the search.</p>}
      <ul>
        {query.data?.jobs.map((job) => (
          <li key={job.id}>
            <Checkbox
              showLabel
              label={job.name || shortId(job.id)}
              checked={ids.includes(job.id)}
              onChange={(chosen) => toggle(job.id, chosen)}
            />
            <span className="small t3">
              <Status status={job.status} phase={job.phase} /> <RelativeTime at={job.submitted_at} />
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}
