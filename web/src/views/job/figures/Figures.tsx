import {
  formatCount,
  formatDuration,
  formatMoney,
  formatPercent,
  formatProgress,
  plural,
} from "@/lib/format";
import { attemptColour, percentOf, vars } from "@/lib/css";
import { progressFraction } from "@/lib/progress";
import { absoluteTime, clockTime, shortTime } from "@/lib/time";
import { IntervalBar } from "@/ui/Progress";
import { isEnded } from "@/ui/Status";
import { useNow } from "@/ui/Time";
import type { Job } from "@/views/job/merge";
import { costFigure, pace, progressParts, remainingTime } from "@/views/job/figures/values";
import { secondsBetween } from "@/views/job/timeline/model";

interface FigureProps {
  job: Job;
  now: number;
}

/** Progress, time, cost, lost work and place of a job. */
export function Figures({ job }: { job: Job }) {
  const props = { job, now: useNow() };
  return (
    <dl className="stats job-stats">
      <ProgressStat {...props} />
      <TimeStat {...props} />
      <CostStat {...props} />
      <LossStat {...props} />
      <PlaceStat {...props} />
    </dl>
  );
}

function ProgressStat({ job, now }: FigureProps) {
  const { step, steps, epoch, epochs, message } = job.progress;
  const fraction = progressFraction(job.progress);
  const parts = progressParts(job);
  const stepText = step === null ? "" : `step ${formatCount(step)}${of(steps)}`;
  const epochText = epoch === null ? "" : `epoch ${formatEpoch(epoch)}${of(epochs)}`;
  const rate = pace(job, now);
  const label = fraction === null ? "no progress reported" : formatPercent(fraction, 1);
  return (
    <div className="stat">
      <dt>
        Progress <span>{stepText}</span>
      </dt>
      <dd className="big">
        {fraction === null ? "–" : fraction === 1 ? formatProgress(1) : formatPercent(fraction, 1)}{" "}
        <small>{epochText}</small>
      </dd>
      <dd className="viz">
        <span
          className="track big-track"
          role="img"
          aria-label={`${label}, ${plural(parts.length, "machine")}`}
        >
          {parts.map((part) => (
            <b
              key={part.from}
              style={vars({
                "--x": percentOf(part.from),
                "--w": percentOf(part.to - part.from),
                "--c": attemptColour(part.attempt),
              })}
            />
          ))}
          {parts.slice(1).map((part) => (
            <i key={part.from} style={vars({ "--x": percentOf(part.from) })} />
          ))}
        </span>
      </dd>
      <dd className="ends">
        <span>{rate === null ? "" : `${formatRate(rate)} steps/s`}</span>
        <span className="cut">{message}</span>
      </dd>
    </div>
  );
}

function of(total: number | null): string {
  return total === null ? "" : ` of ${formatCount(total)}`;
}

function formatEpoch(epoch: number): string {
  return Number.isInteger(epoch) ? formatCount(epoch) : epoch.toFixed(1);
}

function formatRate(rate: number): string {
  return rate >= 100 ? formatCount(Math.round(rate)) : rate.toPrecision(3);
}

const SOON_S = 600;

function TimeStat({ job, now }: FigureProps) {
  if (isEnded(job.status)) return <DurationStat job={job} now={now} />;
  if (job.attempts.length === 0) return <WaitStat job={job} now={now} />;
  const left = remainingTime(job, now);
  if (left === null) {
    return (
      <div className="stat">
        <dt>Time left</dt>
        <dd className="big">–</dd>
        <dd className="note">
          {job.phase === "held"
            ? "The script has ended"
            : "No prediction yet; it follows from the first steps"}
        </dd>
      </div>
    );
  }
  const span = Math.max(1, left.high - left.low);
  const end = now + left.seconds * 1000;
  const isSoon = left.high < SOON_S;
  const endTime = (seconds: number) =>
    isSoon ? clockTime(now + seconds * 1000, true) : shortTime(now + seconds * 1000, now);
  return (
    <div className="stat">
      <dt>Time left</dt>
      <dd className="big">
        {formatDuration(left.seconds)} <small>done about {shortTime(end, now)}</small>
      </dd>
      <dd className="viz">
        <IntervalBar low={0} expected={(left.seconds - left.low) / span} high={1} />
      </dd>
      <dd className="ends" title="Nine times in ten it ends in between">
        <span>{endTime(left.low)}</span>
        <span>{endTime(left.high)}</span>
      </dd>
    </div>
  );
}

function WaitStat({ job, now }: FigureProps) {
  const wait = job.queue_wait_s;
  return (
    <div className="stat">
      <dt>Starts</dt>
      <dd className="big">
        {wait === null ? "–" : wait < 1 ? "now" : `in ${formatDuration(wait)}`}{" "}
        <small>{wait === null || wait < 1 ? "" : `about ${shortTime(now + wait * 1000, now)}`}</small>
      </dd>
      <dd className="note">
        {job.queue_position === null ? "Offers are compared" : `Position ${job.queue_position} in the queue`}
        {wait === null && job.queue_position !== null && ", start not predictable"}
      </dd>
    </div>
  );
}

function DurationStat({ job, now }: FigureProps) {
  const start = Date.parse(job.attempts[0]?.launching_at ?? job.submitted_at);
  const ended = job.ended_at ?? job.updated_at;
  const { predicted } = job;
  return (
    <div className="stat">
      <dt>Took</dt>
      <dd className="big">
        {formatDuration((Date.parse(ended) - start) / 1000)}{" "}
        <small title={absoluteTime(ended)}>until {shortTime(ended, now)}</small>
      </dd>
      <dd className="note">
        {predicted === null
          ? "Nothing was predicted"
          : `Predicted ${formatDuration(predicted.wall_s)} (${formatDuration(predicted.wall_low_s)} – ${formatDuration(predicted.wall_high_s)})`}
      </dd>
    </div>
  );
}

function CostStat({ job }: FigureProps) {
  const cost = costFigure(job);
  const part = (value: number) => percentOf(value / cost.scale);
  const { expected } = cost;
  const expectedText =
    expected === null
      ? ""
      : `${formatMoney(expected.value)} expected (${formatMoney(expected.low)} – ${formatMoney(expected.high)})`;
  const budgetText = cost.budget === null ? "no budget set" : `of ${formatMoney(cost.budget)} budget`;
  const freeText = job.attempts.length === 0 ? "nothing yet" : "own machine";
  const isFree = cost.spent === 0 && cost.hourly === 0 && (expected?.high ?? 0) === 0;
  return (
    <div className="stat">
      <dt>
        Cost <span>{cost.hourly > 0 ? `${formatMoney(cost.hourly)} per hour` : ""}</span>
      </dt>
      <dd className="big">
        {formatMoney(cost.spent)} <small>{isFree && cost.budget === null ? freeText : budgetText}</small>
      </dd>
      <dd className="viz">
        <span
          className={cost.budget === null ? "budget open" : "budget"}
          role="img"
          aria-label={[`${formatMoney(cost.spent)} spent`, expectedText, budgetText]
            .filter(Boolean)
            .join(", ")}
        >
          <b style={vars({ "--w": part(cost.spent) })} />
          {expected !== null && (
            <>
              <i
                className="exp"
                style={vars({ "--x": part(cost.spent), "--w": part(expected.value - cost.spent) })}
              />
              {expected.high > expected.low && (
                <i
                  className="iv"
                  style={vars({
                    "--x": part(expected.low),
                    "--w": part(Math.min(expected.high, cost.scale) - expected.low),
                  })}
                />
              )}
            </>
          )}
        </span>
      </dd>
      <dd className="ends">
        <span>{isFree ? "" : expectedText}</span>
      </dd>
    </div>
  );
}

const BETWEEN = new Set(["recovering", "waiting", "planning", "provisioning", "preparing"]);

function LossStat({ job, now }: FigureProps) {
  const interruptions = job.attempts.filter((each) =>
    ["interrupted", "lost"].includes(each.end_kind ?? ""),
  ).length;
  const between = secondsBetween(job.attempts, BETWEEN.has(job.phase) ? now : null);
  const lost = job.work_lost_s;
  return (
    <div className="stat">
      <dt>Work lost</dt>
      <dd className="big">
        {lost < 1 ? "none" : formatDuration(lost)}{" "}
        <small>{lost < 1 ? "" : formatMoney(job.work_lost_microusd)}</small>
      </dd>
      <dd className="note">
        {interruptions === 0 ? "No interruption" : plural(interruptions, "interruption")}
        {between >= 1 && (
          <>
            , <span className="nowrap">{formatDuration(between)}</span> between machines
          </>
        )}
      </dd>
    </div>
  );
}

function PlaceStat({ job, now }: FigureProps) {
  const newest = job.attempts.at(-1);
  const { place } = job;
  if (newest === undefined || place === null) {
    return (
      <div className="stat">
        <dt>Now on</dt>
        <dd className="big">–</dd>
        <dd className="note">No machine yet</dd>
      </div>
    );
  }
  const isOver = newest.ended_at !== null;
  const since = newest.started_at ?? newest.launching_at;
  const until = newest.ended_at === null ? now : Date.parse(newest.ended_at);
  const gpu = place.gpus > 1 ? `${place.gpus} × ${place.gpu}` : place.gpu;
  const machine = [place.name, place.zone || place.region].filter(Boolean).join(", ");
  return (
    <div className="stat">
      <dt>{isOver ? "Last on" : "Now on"}</dt>
      <dd className="big cut" title={place.backend}>
        {place.backend} <small>{gpu}</small>
      </dd>
      <dd className="note">
        <span className="cut block" title={machine}>
          {machine || "this machine"}
        </span>
        since {shortTime(since, now)},{" "}
        <span className="nowrap">{formatDuration((until - Date.parse(since)) / 1000)}</span>
      </dd>
    </div>
  );
}
