import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "@/api/client";
import { shortId } from "@/lib/format";
import { Button } from "@/ui/Button";
import { TextField } from "@/ui/controls";
import { Icon } from "@/ui/Icon";
import { Popover } from "@/ui/Menu";
import { ErrorState, Skeleton } from "@/ui/states";
import { RelativeTime } from "@/ui/Time";

const SHOWN_JOBS = 20;

interface JobPickerProps {
  name: string;
  chosen: string;
  onPick: (job: string) => void;
}

/** A button with the chosen job that opens a search over the project's jobs. */
export function JobPicker({ name, chosen, onPick }: JobPickerProps) {
  return (
    <Popover
      align="end"
      label="Choose a job"
      trigger={
        <Button className="job-pick" aria-label={name === "" ? undefined : `Job: ${name}`}>
          <span className="cut">{name || "Choose a job"}</span>
          <Icon name="chevronDown" size={12} />
        </Button>
      }
    >
      <JobChoices chosen={chosen} onPick={onPick} />
    </Popover>
  );
}

function JobChoices({ chosen, onPick }: Omit<JobPickerProps, "name">) {
  const [text, setText] = useState("");
  const query = useQuery({
    queryKey: ["costs", "job choices", text],
    queryFn: () =>
      unwrap(api.GET("/api/v1/training", { params: { query: { limit: SHOWN_JOBS, q: text || undefined } } })),
    placeholderData: keepPreviousData,
  });
  return (
    <div className="job-choices">
      <TextField
        label="Search jobs"
        icon="search"
        type="search"
        placeholder="Search jobs"
        value={text}
        onChange={setText}
      />
      {query.error !== null && <ErrorState title="The jobs could not be loaded" error={query.error} />}
      {query.data === undefined && query.error === null && <Skeleton label="Loading jobs" rows={4} />}
      {query.data?.jobs.length === 0 && <p className="t2 small">No job matches the search.</p>}
      <ul>
        {query.data?.jobs.map((job) => (
          <li key={job.id}>
            <button
              type="button"
              className="job-choice"
              aria-current={job.id === chosen}
              onClick={() => onPick(job.id)}
            >
              <span className="cut">{job.name || shortId(job.id)}</span>
              <small className="t3">
                <RelativeTime at={job.submitted_at} />
              </small>
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
