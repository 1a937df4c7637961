import { useState } from "react";
import { formatCount, plural } from "@/lib/format";
import { absoluteTime, clockTime } from "@/lib/time";
import { useDelayedWrite } from "@/lib/useDelayedWrite";
import { Button } from "@/ui/Button";
import { TextField } from "@/ui/controls";
import { EmptyState, ErrorState, Skeleton } from "@/ui/states";
import { useEvents } from "@/views/job/data";
import type { Job, JobEvent } from "@/views/job/merge";
import { groupEvents } from "@/views/job/tabs/event-groups";
import { describeEvent } from "@/views/job/tabs/events";
import { useAddress } from "@/views/job/useAddress";

/** Everything that happened to the job, newest first. New events appear at the top. */
export function EventsTab({ job }: { job: Job }) {
  const { data, error, refetch, loadEarlier, loadingEarlier } = useEvents(job.id);
  const [filter, setFilter] = useDelayedWrite(...useAddress("event"));
  if (data === undefined) {
    return error === null ? (
      <Skeleton label="Loading the events" />
    ) : (
      <ErrorState title="The events could not be loaded" error={error} onRetry={() => void refetch()} />
    );
  }
  const wanted = filter.trim().toLowerCase();
  const shown = data.events.filter((event) => wanted === "" || matches(event, wanted));
  const groups = groupEvents(shown);
  const withDay = data.events.length > 0 && dayOf(data.events[0]!.at) !== dayOf(data.events.at(-1)!.at);
  const isShort = data.events.length < data.total;
  return (
    <section className="panel">
      <header>
        <h2>Events</h2>
        <span className="sub">newest first, {plural(data.total, "event")} in all</span>
        {wanted !== "" && isShort && (
          <span className="sub">the filter searches the newest {formatCount(data.events.length)}</span>
        )}
        <TextField
          label="Filter the events"
          placeholder="Filter"
          icon="search"
          type="search"
          value={filter}
          onChange={setFilter}
        />
      </header>
      <ol className="events">
        {groups.map((group) =>
          group.kind === "run" ? (
            <CheckpointRun key={group.events.at(-1)!.position} events={group.events} withDay={withDay} />
          ) : (
            <EventRow key={group.event.position} event={group.event} withDay={withDay} />
          ),
        )}
      </ol>
      {shown.length === 0 && (
        <EmptyState
          small
          title={isShort ? `None of the newest events matches “${filter}”` : `No event matches “${filter}”`}
          actions={<Button onClick={() => setFilter("")}>Clear the filter</Button>}
        />
      )}
      {isShort && (
        <footer className="panel-foot">
          <Button look="quiet" disabled={loadingEarlier} onClick={() => void loadEarlier()}>
            {wanted === "" ? "Show" : "Search"} earlier events
          </Button>
        </footer>
      )}
    </section>
  );
}

function matches(event: JobEvent, wanted: string): boolean {
  return `${event.type} ${describeEvent(event).text}`.toLowerCase().includes(wanted);
}

interface EventRowProps {
  event: JobEvent;
  withDay: boolean;
}

function EventRow({ event, withDay }: EventRowProps) {
  const { tone, text } = describeEvent(event);
  return (
    <li>
      <EventTime at={event.at} withDay={withDay} />
      <i className={`evd ${tone}`} />
      <b className="mono">{event.type}</b>
      <span className="t2">{text}</span>
    </li>
  );
}

function EventTime({ at, withDay }: { at: string; withDay: boolean }) {
  return (
    <time dateTime={at} title={absoluteTime(at)}>
      {withDay && `${dayOf(at)} `}
      {clockTime(at, true)}
    </time>
  );
}

/** Several checkpoints in one row; the button shows them all. */
function CheckpointRun({ events, withDay }: { events: readonly JobEvent[]; withDay: boolean }) {
  const [open, setOpen] = useState(false);
  const newest = events[0]!;
  if (open) return events.map((event) => <EventRow key={event.position} event={event} withDay={withDay} />);
  return (
    <li>
      <EventTime at={newest.at} withDay={withDay} />
      <i className="evd ok" />
      <b className="mono">CheckpointSaved</b>
      <span className="t2">
        {formatCount(events.length)} times, newest {describeEvent(newest).text}{" "}
        <button type="button" className="link-quiet" onClick={() => setOpen(true)}>
          Show all
        </button>
      </span>
    </li>
  );
}

const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

function dayOf(at: string): string {
  return day.format(new Date(at));
}
