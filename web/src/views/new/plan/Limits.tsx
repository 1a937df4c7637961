/** Budget and deadline. The marks below a slider are the offers; moving it plans again. */

import { useId, useState, type CSSProperties } from "react";
import { formatDuration, formatMoney } from "@/lib/format";
import { shortTime } from "@/lib/time";
import { Slider } from "@/ui/controls";
import { useNow } from "@/ui/Time";
import type { Draft } from "@/views/new/draft";
import { niceCeil, quantile, type Plan } from "@/views/new/offers";
import { STEPS, limitAt, parseDollars, parseHours } from "@/views/new/plan/amounts";

const MICRO = 1_000_000;
const HOUR = 3600;

interface LimitsProps {
  draft: Draft;
  update: (change: (draft: Draft) => Draft) => void;
  plan: Plan;
}

export function Limits({ draft, update, plan }: LimitsProps) {
  const offers = [...plan.short, ...(plan.outside ?? [])];
  const now = useNow();
  const costs = offers.map((offer) => offer.cost_microusd.expected).filter((cost) => cost > 0);
  const times = offers.map((offer) => offer.seconds.expected);
  const { budgetMicrousd: budget, deadlineS: deadline } = draft;
  return (
    <div className="limits">
      <Limit
        label="Budget"
        value={budget}
        least={0}
        end={niceCeil(Math.max(quantile(costs, 0.8) * 1.2, (budget ?? 0) / 2, MICRO / 10))}
        marks={costs}
        text={budget === null ? "" : (budget / MICRO).toFixed(2)}
        shown={budget === null ? "no limit" : formatMoney(budget)}
        placeholder="$, no limit"
        parse={parseDollars}
        onChange={(budgetMicrousd) => update((current) => ({ ...current, budgetMicrousd }))}
      />
      <Limit
        label="Deadline"
        value={deadline}
        least={1}
        end={timeEnd(Math.max(quantile(times, 0.8) * 1.2, (deadline ?? 0) / 2, 60))}
        marks={times}
        text={deadline === null ? "" : String(Math.round((deadline / HOUR) * 100) / 100)}
        shown={
          deadline === null ? "none" : `${formatDuration(deadline)}, ${shortTime(now + deadline * 1000, now)}`
        }
        placeholder="hours, none"
        parse={parseHours}
        onChange={(deadlineS) => update((current) => ({ ...current, deadlineS }))}
      />
    </div>
  );
}

/** A round end for a scale of times: hours from one hour on. */
function timeEnd(seconds: number): number {
  return seconds < HOUR ? niceCeil(seconds / 60) * 60 : niceCeil(seconds / HOUR) * HOUR;
}

interface LimitProps {
  label: string;
  value: number | null;
  /** The limit at the left end of the slider. */
  least: number;
  /** The right end of the slider, which means no limit. */
  end: number;
  marks: readonly number[];
  /** The value as the field shows it. */
  text: string;
  shown: string;
  placeholder: string;
  /** Parse what the user writes; null means no limit, undefined an invalid text. */
  parse: (text: string) => number | null | undefined;
  onChange: (value: number | null) => void;
}

function Limit(props: LimitProps) {
  const { label, value, least, end, marks, text, shown, placeholder, parse, onChange } = props;
  const id = useId();
  const [written, setWritten] = useState<string | null>(null);
  const position = value === null ? STEPS : Math.min(STEPS, Math.round((value / end) * STEPS));
  const commit = () => {
    const parsed = written === null ? undefined : parse(written);
    if (parsed !== undefined) onChange(parsed);
    setWritten(null);
  };
  return (
    <div className="limit">
      <span className="row">
        <label htmlFor={id}>{label}</label>
        <output htmlFor={id}>{shown}</output>
        <input
          className="limit-text"
          aria-label={`${label}, exact`}
          placeholder={placeholder}
          value={written ?? text}
          onChange={(event) => setWritten(event.target.value)}
          onBlur={commit}
          onKeyDown={(event) => {
            if (event.key === "Enter") commit();
          }}
        />
      </span>
      <Slider
        id={id}
        value={position}
        min={0}
        max={STEPS}
        aria-valuetext={shown}
        onChange={(next) => onChange(limitAt(next, end, least))}
      />
      <span className="tks" aria-hidden="true">
        {marks
          .filter((mark) => mark <= end)
          .map((mark, index) => (
            <i key={index} style={{ "--at": (mark / end).toFixed(4) } as CSSProperties} />
          ))}
      </span>
    </div>
  );
}
