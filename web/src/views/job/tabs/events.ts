/** Events of a job in words. The data comes from the journal and may lack fields of newer or older versions. */

import type { Schemas } from "@/api/client";
import { formatBytes, formatCount, formatDuration, formatMoney, plural } from "@/lib/format";
import { clockTime } from "@/lib/time";

export type EventTone = "plain" | "run" | "ok" | "warn" | "bad";

export interface EventWords {
  tone: EventTone;
  text: string;
}

type Data = Record<string, unknown>;
type Describe = (data: Data) => EventWords;

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const number = (value: unknown): number | null => (typeof value === "number" ? value : null);
const object = (value: unknown): Data =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Data) : {};

/** Parts that exist, with commas. A part that is a sentence loses its full stop if another part follows. */
const join = (...parts: (string | null | undefined | false)[]): string =>
  parts.filter(Boolean).join("\n").replace(/\.?\n/g, ", ");
const attemptOf = (data: Data): string => `attempt ${number(data.attempt) ?? "?"}`;
const money = (value: unknown): string | null => {
  const amount = number(value);
  return amount === null ? null : formatMoney(amount);
};
const by = (data: Data): string => (text(data.person) === "" ? "" : `by ${text(data.person)}`);

function place(offer: Data): string {
  const name = [text(offer.backend), text(offer.name)].filter(Boolean).join(" ");
  return join(offer.interruptible === true ? `${name} spot` : name, text(offer.region), text(offer.gpu_kind));
}

function lostWork(data: Data): string | null {
  const seconds = number(data.work_lost_s);
  if (seconds === null || seconds < 1) return "no work lost";
  return join(`${formatDuration(seconds)} of work lost`, money(data.work_lost_microusd));
}

function failureText(data: Data): string {
  return text(object(data.failure).message);
}

function checkpointText(data: Data): string {
  const saved = object(data.checkpoint);
  const step = number(saved.step);
  const size = number(saved.size);
  return join(
    attemptOf(data),
    step !== null && `step ${formatCount(step)}`,
    size !== null && formatBytes(size),
  );
}

function predictionText(data: Data): string {
  const prediction = object(data.prediction);
  const seconds = number(prediction.wall_s);
  if (seconds === null) return "offers compared, no prediction";
  const low = number(prediction.wall_low_s) ?? seconds;
  const high = number(prediction.wall_high_s) ?? seconds;
  const range = `${formatDuration(low)} – ${formatDuration(high)}`;
  return join(
    `${formatDuration(seconds)} (${range})`,
    money(prediction.cost_microusd),
    `from ${text(prediction.basis)}`,
  );
}

function endText(data: Data): string {
  const code = number(data.exit_code);
  const signal = number(data.signal);
  const step = number(data.step);
  return join(
    attemptOf(data),
    text(data.outcome),
    code !== null && `exit code ${code}`,
    signal !== null && `signal ${signal}`,
    step !== null && `step ${formatCount(step)}`,
    text(data.message),
  );
}

function betterText(data: Data): EventWords {
  const better = object(data.better);
  if (Object.keys(better).length === 0) return { tone: "plain", text: "no better place any more" };
  const saves = number(better.saves_microusd) ?? 0;
  const sooner = number(better.sooner_s) ?? 0;
  const gain = saves >= 0 ? `${formatMoney(saves)} less` : `${formatMoney(-saves)} more`;
  const time = `${formatDuration(Math.abs(sooner))} ${sooner >= 0 ? "sooner" : "later"}`;
  return { tone: "run", text: `${place(object(better.offer))}: ${gain}, ${time}` };
}

function nodeOf(data: Data): string {
  return `node ${number(data.node) ?? 0}`;
}

const WORDS: Record<string, Describe> = {
  JobSubmitted: (data) => ({
    tone: "plain",
    text: join(by(data) || "accepted", text(data.resumed_from) !== "" && "continues another job"),
  }),
  JobWaited: (data) => ({ tone: "plain", text: text(data.reason) }),
  JobPlanned: (data) => ({ tone: "plain", text: predictionText(data) }),
  BetterPlaceFound: betterText,
  AttemptLaunching: (data) => ({
    tone: "run",
    text: join(attemptOf(data), `on ${place(object(data.offer))}`, resumeText(data)),
  }),
  AttemptLaunched: (data) => ({ tone: "plain", text: join(attemptOf(data), "the provider accepted it") }),
  MachineStarted: (data) => {
    const price = money(data.price_microusd_per_hour);
    return {
      tone: "plain",
      text: join(attemptOf(data), price !== null && `${price} an hour`, "by the provider’s clock"),
    };
  },
  AttemptQueued: (data) => ({ tone: "plain", text: join(attemptOf(data), text(data.reason)) }),
  AttemptClaimed: (data) => ({ tone: "plain", text: join(attemptOf(data), "the agent runs") }),
  NodeClaimed: (data) => ({
    tone: "plain",
    text: join(
      attemptOf(data),
      nodeOf(data),
      `the agent runs on ${text(object(data.host).hostname) || "it"}`,
    ),
  }),
  NodeReady: (data) => ({ tone: "plain", text: join(attemptOf(data), nodeOf(data), "waits for all nodes") }),
  NodeEnded: (data) => ({
    tone: number(data.exit_code) === 0 ? "ok" : "warn",
    text: join(nodeOf(data), endText(data)),
  }),
  TrainingStarted: (data) => ({ tone: "run", text: attemptOf(data) }),
  TrainingResumed: (data) => ({
    tone: "ok",
    text: join(
      attemptOf(data),
      `continued at step ${formatCount(number(data.first_step) ?? 0)}`,
      `checkpoint of step ${formatCount(number(data.checkpoint_step) ?? 0)}`,
    ),
  }),
  TrainingRestarted: (data) => ({
    tone: "bad",
    text: join(attemptOf(data), "the script started from the beginning", lostWork(data)),
  }),
  CheckpointSaved: (data) => ({ tone: "ok", text: checkpointText(data) }),
  CheckpointRejected: (data) => ({
    tone: "bad",
    text: join(attemptOf(data), `step ${number(data.step) ?? "?"}`, text(data.reason)),
  }),
  ArtifactSaved: (data) => {
    const size = number(object(data.artifact).size);
    return { tone: "ok", text: join(text(object(data.artifact).name), size !== null && formatBytes(size)) };
  },
  StopRequested: (data) => ({
    tone: "warn",
    text: join(attemptOf(data), text(data.message) || text(data.reason)),
  }),
  CancelRequested: (data) => ({ tone: "warn", text: by(data) || "requested" }),
  MigrateRequested: (data) => ({ tone: "run", text: join(`to ${text(data.to)}`, by(data)) }),
  StartRequested: (data) => ({ tone: "run", text: join("before the other waiting jobs", by(data)) }),
  AttemptEnded: (data) => ({ tone: number(data.exit_code) === 0 ? "ok" : "warn", text: endText(data) }),
  AttemptLost: (data) => ({
    tone: "warn",
    text: join(attemptOf(data), text(data.evidence) || failureText(data)),
  }),
  HoldStarted: (data) => {
    const until = number(data.until_ms);
    return {
      tone: "warn",
      text: join(attemptOf(data), "machine kept", until !== null && `until ${clockTime(until)}`),
    };
  },
  HoldEnded: (data) => ({
    tone: "plain",
    text: join(attemptOf(data), HOLD_ENDS[text(data.reason)], by(data)),
  }),
  AttemptStranded: (data) => ({ tone: "bad", text: join(attemptOf(data), text(data.reason)) }),
  AttemptReleased: (data) => ({
    tone: "plain",
    text: join(attemptOf(data), "nothing billable left", money(object(data.usage).cost_microusd)),
  }),
  RecoveryStarted: (data) => ({
    tone: "warn",
    text: join(
      failureText(data),
      lostWork(data),
      data.counts === false ? "counts as no retry" : "counts as a retry",
    ),
  }),
  JobCompleted: () => ({ tone: "ok", text: "nothing billable left" }),
  JobFailed: (data) => ({ tone: "bad", text: failureText(data) }),
  JobCancelled: () => ({ tone: "plain", text: "nothing billable left" }),
  OrphanEnded: (data) => ({
    tone: "bad",
    text: join(
      attemptOf(data),
      "a machine that appeared late was ended",
      money(object(data.usage).cost_microusd),
    ),
  }),
  MeterDiffered: (data) => ({
    tone: "bad",
    text: join(
      attemptOf(data),
      `recorded ${money(data.ours_microusd) ?? "?"}`,
      `charged ${money(data.theirs_microusd) ?? "?"}`,
    ),
  }),
  JobEdited: (data) => ({ tone: "plain", text: editText(data) }),
  JobDeleted: (data) => ({ tone: "plain", text: by(data) || "deleted" }),
  DamagedEvent: (data) => ({
    tone: "bad",
    text: join(`${text(data.kind)} cannot be read`, text(data.reason)),
  }),
};

const HOLD_ENDS: Record<string, string> = {
  time: "the time is over",
  budget: "the budget is used up",
  release: "released",
  gone: "the machine is gone",
};

function resumeText(data: Data): string | null {
  const step = number(object(data.resume).step);
  return step === null ? null : `from step ${formatCount(step)}`;
}

function editText(data: Data): string {
  const name = data.name === undefined || data.name === null ? null : `name “${text(data.name)}”`;
  const tags = Array.isArray(data.tags) ? `tags ${data.tags.map(String).join(", ") || "none"}` : null;
  const notes = data.notes === undefined || data.notes === null ? null : "notes";
  return join(name, tags, notes, by(data));
}

/** The event in words. Unknown types, from a newer server, show their fields. */
export function describeEvent(event: Schemas["JobEvent"]): EventWords {
  const describe = WORDS[event.type];
  if (describe !== undefined) return describe(object(event.data));
  return { tone: "plain", text: plural(Object.keys(object(event.data)).length, "field") };
}
