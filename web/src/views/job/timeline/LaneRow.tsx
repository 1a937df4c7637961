import { attemptColour, percentOf, vars } from "@/lib/css";
import { formatCount, formatDuration, formatMoney, formatPrice } from "@/lib/format";
import { clockTime, shortTime } from "@/lib/time";
import { Icon, type IconName } from "@/ui/Icon";
import type { Attempt, Lane, Span } from "@/views/job/timeline/model";

const ICONS: Record<string, IconName> = {
  interrupted: "bolt",
  lost: "bolt",
  migrated: "move",
  failed: "warning",
  not_started: "warning",
  stopped: "stop",
  cancelled: "stop",
  completed: "check",
};
const WARNINGS = new Set(["interrupted", "lost", "failed", "not_started"]);
/** Ends after which the job goes on elsewhere. */
const CHANGES = new Set(["interrupted", "lost", "migrated", "not_started"]);
const NOTABLE_LOSS_S = 60;

function bar({ from, to }: Span) {
  return vars({ "--x": percentOf(from), "--w": percentOf(to - from) });
}

interface LaneRowProps {
  lane: Lane;
  now: number;
  isLast: boolean;
}

/** One attempt: its machine, its time as bars, and what it cost. */
export function LaneRow({ lane, now, isLast }: LaneRowProps) {
  const { attempt } = lane;
  return (
    <li className="lane" style={vars({ "--c": attemptColour(attempt.number) })}>
      <div className="who">
        <i className="no">{attempt.number}</i>
        <span className="two">
          <b className="cut" title={machineName(attempt)}>
            {machineName(attempt)}
          </b>
          <small className="cut" title={machineDetail(attempt)}>
            {machineDetail(attempt)}
          </small>
        </span>
      </div>
      <div className="bars" role="img" aria-label={describeLane(lane, now)}>
        {lane.starting !== null && <span className="tb prov" style={bar(lane.starting)} />}
        {lane.training !== null && <span className="tb train" style={bar(lane.training)} />}
        <span className="ck">
          {lane.checkpoints.map((at) => (
            <i key={at} style={vars({ "--x": percentOf(at) })} />
          ))}
        </span>
        {lane.lost !== null && (
          <span
            className="lost"
            style={bar(lane.lost)}
            title={`${lossOf(attempt)} of training that no checkpoint held`}
          />
        )}
        {lane.held !== null && <span className="tb hold" style={bar(lane.held)} title="machine held" />}
        {lane.expected !== null && (
          <>
            <span className="tb next" style={bar(lane.expected)} />
            <span className="fork" style={bar({ from: lane.expected.low, to: lane.expected.high })} />
            <span className="ev soon" style={vars({ "--x": percentOf(lane.expected.high) })}>
              <span>about {shortTime(lane.expected.at, now)}</span>
            </span>
          </>
        )}
        {lane.note !== null && <EndNote lane={lane} now={now} isLast={isLast} />}
      </div>
      <LaneSummary lane={lane} now={now} isLast={isLast} />
    </li>
  );
}

/** Why the attempt ended, beside its bar. The end of the whole job is in the summary instead. */
function EndNote({ lane, now, isLast }: LaneRowProps) {
  const { attempt, note } = lane;
  if (note === null || (isLast && !CHANGES.has(attempt.end_kind ?? ""))) return null;
  const classes = [
    "ev",
    WARNINGS.has(attempt.end_kind ?? "") ? "rec" : "",
    note.side === "left" ? "before" : "",
  ];
  return (
    <span className={classes.filter(Boolean).join(" ")} style={vars({ "--x": percentOf(note.at) })}>
      <Icon name={ICONS[attempt.end_kind ?? ""] ?? "bolt"} size={12} />
      <span>{endWords(attempt, now)}</span>
    </span>
  );
}

function LaneSummary({ lane, now, isLast }: LaneRowProps) {
  const { attempt } = lane;
  const lost = attempt.work_lost_s;
  return (
    <div className="sum">
      <span>{formatDuration(lane.seconds)}</span>
      <span className="strong">{formatMoney(attempt.cost_microusd)}</span>
      <span className="lo">
        {lost >= 1 ? (
          <span className={lost >= NOTABLE_LOSS_S ? "bad" : ""} title="training that no checkpoint held">
            {lossOf(attempt)} lost
          </span>
        ) : attempt.restart_lost_s >= 1 ? (
          <span className="bad">did not resume</span>
        ) : attempt.held_until !== null ? (
          <span title={`until ${shortTime(attempt.held_until, now)}`}>held</span>
        ) : attempt.ended_at === null ? (
          runningWord(attempt)
        ) : isLast ? (
          attempt.end_text
        ) : (
          "nothing lost"
        )}
      </span>
    </div>
  );
}

/** "16 m, $0.12": the lost work as time and, on a rented machine, as money. */
export function lossOf(attempt: Attempt): string {
  const time = formatDuration(attempt.work_lost_s);
  return attempt.work_lost_microusd > 0 ? `${time}, ${formatMoney(attempt.work_lost_microusd)}` : time;
}

function runningWord(attempt: Attempt): string {
  return attempt.phase === "training" ? "running" : attempt.phase;
}

export function machineName(attempt: Attempt): string {
  const name = [attempt.backend, attempt.offer].filter(Boolean).join(" ");
  return attempt.interruptible ? `${name} spot` : name;
}

function machineDetail(attempt: Attempt): string {
  const gpu = attempt.gpus > 1 ? `${attempt.gpus} × ${attempt.gpu}` : attempt.gpu;
  const nodes = attempt.nodes ?? [];
  const machines = nodes.length > 1 ? `${nodes.length} nodes` : "";
  return [attempt.zone || attempt.region, machines, gpu, formatPrice(attempt.price_microusd_per_hour)]
    .filter(Boolean)
    .join(", ");
}

function endWords(attempt: Attempt, now: number): string {
  return attempt.ended_at === null
    ? attempt.end_text
    : `${attempt.end_text} ${shortTime(attempt.ended_at, now)}`;
}

/** The lane in words, for screen readers. */
function describeLane({ attempt, seconds }: Lane, now: number): string {
  const words = [`${formatDuration(seconds)} from ${clockTime(attempt.launching_at)}`];
  if (attempt.training_at === null) words.push("not training yet");
  if (attempt.checkpoints_saved > 0) words.push(`${formatCount(attempt.checkpoints_saved)} checkpoints`);
  if (attempt.resume_step !== null) words.push(`resumed from step ${formatCount(attempt.resume_step)}`);
  if (attempt.ended_at !== null) words.push(endWords(attempt, now));
  if (attempt.work_lost_s >= 1) words.push(`${lossOf(attempt)} of work lost`);
  return words.join(", ");
}
