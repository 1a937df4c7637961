/** The compared runs with their colours: show, hide, open and remove them. */

import { Link } from "@tanstack/react-router";
import type { CSSProperties } from "react";
import { IconButton } from "@/ui/Button";
import { StatusIcon } from "@/ui/Status";
import { statusWord } from "@/ui/Status";
import type { Run } from "@/views/compare/runs";

interface RunKeyProps {
  runs: readonly Run[];
  shown: ReadonlySet<string>;
  onToggle: (id: string) => void;
  onRemove: (id: string) => void;
}

export function RunKey({ runs, shown, onToggle, onRemove }: RunKeyProps) {
  return (
    <ul className="runkey" aria-label="Runs">
      {runs.map((run) => (
        <li key={run.id} className="chip">
          <button
            type="button"
            className="run-toggle"
            aria-pressed={shown.has(run.id)}
            aria-label={`Show ${run.label} in the charts`}
            title={shown.has(run.id) ? "Hide in the charts" : "Show in the charts"}
            onClick={() => onToggle(run.id)}
          >
            <LineSample color={run.color} dash={run.dash} />
          </button>
          <Link
            to="/jobs/$ref"
            params={{ ref: run.id }}
            className="v"
            title={`Open ${run.label}, ${statusWord(run.job)}`}
          >
            <StatusIcon status={run.job.status} phase={run.job.phase} />
            <span className="cut">{run.label}</span>
          </Link>
          <IconButton icon="close" mini label={`Remove ${run.label}`} onClick={() => onRemove(run.id)} />
        </li>
      ))}
    </ul>
  );
}

/** A short line in the look of a run. */
export function LineSample({ color, dash }: { color: string; dash: readonly number[] }) {
  return (
    <svg
      className="line-sample"
      viewBox="0 0 18 8"
      style={{ "--c": `var(${color})` } as CSSProperties}
      aria-hidden="true"
    >
      <line x1="1" y1="4" x2="17" y2="4" strokeDasharray={dash.join(" ") || undefined} />
    </svg>
  );
}
