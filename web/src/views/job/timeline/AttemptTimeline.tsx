import type { ReactNode } from "react";
import { percentOf, vars } from "@/lib/css";
import { formatDuration, formatMoney, plural } from "@/lib/format";
import { clockTime } from "@/lib/time";
import { Button } from "@/ui/Button";
import { Icon } from "@/ui/Icon";
import { useNow } from "@/ui/Time";
import { LaneRow } from "@/views/job/timeline/LaneRow";
import type { Job } from "@/views/job/merge";
import { remainingTime } from "@/views/job/figures/values";
import { buildJoins, buildTimeline, mainLanes, type Join, type Timeline } from "@/views/job/timeline/model";
import { useAddress } from "@/views/job/useAddress";
import "./timeline.css";

interface AttemptTimelineProps {
  job: Job;
  /** Shown beside a better place; null if the user may not migrate the job. */
  migrate: ReactNode;
}

/** The attempts of a job across machines, one lane each. */
export function AttemptTimeline({ job, migrate }: AttemptTimelineProps) {
  const now = useNow();
  const [shown, setShown] = useAddress("attempts");
  const timeline = buildTimeline(job, remainingTime(job, now), now);
  const lanes = shown === "all" ? timeline.lanes : mainLanes(timeline.lanes);
  const hidden = timeline.lanes.length - lanes.length;
  return (
    <section className="panel tl" aria-labelledby="h-attempts">
      <header>
        <h2 id="h-attempts">Attempts</h2>
        {hidden > 0 && (
          <Button look="quiet" onClick={() => setShown("all")}>
            Show {plural(hidden, "more attempt")}
          </Button>
        )}
        <TimelineKey />
      </header>
      <div className="tl-body">
        <Axis timeline={timeline} now={now} joins={buildJoins(lanes)} />
        <ol>
          {lanes.map((lane) => (
            <LaneRow
              key={lane.attempt.number}
              lane={lane}
              now={now}
              isLast={lane === timeline.lanes.at(-1)}
            />
          ))}
          {timeline.better !== null && job.better !== null && (
            <BetterRow span={timeline.better} better={job.better} migrate={migrate} />
          )}
        </ol>
      </div>
    </section>
  );
}

function TimelineKey() {
  return (
    <div className="key" aria-hidden="true">
      <span>
        <i className="kk train" />
        training
      </span>
      <span>
        <i className="kk prov" />
        starting
      </span>
      <span>
        <i className="kk klost" />
        lost work
      </span>
      <span>
        <i className="kk ckk" />
        checkpoint
      </span>
      <span>
        <i className="kk next" />
        expected
      </span>
    </div>
  );
}

interface AxisProps {
  timeline: Timeline;
  now: number;
  joins: readonly Join[];
}

function Axis({ timeline, now, joins }: AxisProps) {
  return (
    <div className="axis" aria-hidden="true">
      {timeline.ticks.map((tick, index) => (
        <span
          key={tick.label + tick.at}
          className={tickClass(index, tick.at, timeline.now)}
          style={vars({ "--x": percentOf(tick.at) })}
        >
          <b>{tick.label}</b>
        </span>
      ))}
      {timeline.now !== null && (
        <span className="now" style={vars({ "--x": percentOf(timeline.now) })}>
          <b>{clockTime(now, timeline.showsSeconds)}</b>
        </span>
      )}
      {joins.map((join) => (
        <span
          key={join.lane}
          className="join"
          style={vars({
            "--x": percentOf(join.from),
            "--w": percentOf(join.to - join.from),
            "--lane": join.lane,
          })}
        />
      ))}
    </div>
  );
}

const EDGE = 0.97;
const LABEL_ROOM = 0.085;
const PHONE_LABEL_ROOM = 0.16;

/** Labels that would touch the label of the current time or the edge are hidden; on a phone every other one too. */
function tickClass(index: number, at: number, now: number | null): string {
  const distance = now === null ? 1 : Math.abs(at - now);
  if (distance < LABEL_ROOM || at > EDGE) return "tk bare";
  return index % 2 === 1 || distance < PHONE_LABEL_ROOM ? "tk odd" : "tk";
}

interface BetterRowProps {
  span: NonNullable<Timeline["better"]>;
  better: NonNullable<Job["better"]>;
  migrate: ReactNode;
}

/** The last lane: a place where the rest of the job is better done. */
function BetterRow({ span, better, migrate }: BetterRowProps) {
  const { place, saves_microusd, sooner_s, sooner_low_s } = better;
  const name = [place.backend, place.gpu_kind || place.name].join(" ");
  const price =
    place.price_microusd_per_hour === 0 ? "own" : `${formatMoney(place.price_microusd_per_hour)}/h`;
  return (
    <li className="lane better">
      <div className="who">
        <i className="no">
          <Icon name="move" size={12} />
        </i>
        <span className="two">
          <b className="cut">{name}</b>
          <small className="cut">{[place.zone || place.region, price].filter(Boolean).join(", ")}</small>
        </span>
      </div>
      <div className="bars">
        <span
          className="tb next"
          style={vars({ "--x": percentOf(span.from), "--w": percentOf(span.to - span.from) })}
        />
        <span className="ev" style={vars({ "--x": percentOf(span.to) })}>
          <span>
            <b>{timeGain(sooner_s)}</b>
            <span className="wide">, at worst {timeGain(sooner_low_s)}</span>
          </span>
        </span>
      </div>
      <div className="sum">
        <span className={saves_microusd >= 0 ? "ok strong" : "strong"}>{moneyGain(saves_microusd)}</span>
        {better.by_itself ? <span className="t3 small">moves by itself</span> : migrate}
      </div>
    </li>
  );
}

export function timeGain(seconds: number): string {
  return `${formatDuration(Math.abs(seconds))} ${seconds >= 0 ? "sooner" : "later"}`;
}

export function moneyGain(microusd: number): string {
  return `${formatMoney(Math.abs(microusd))} ${microusd >= 0 ? "less" : "more"}`;
}
