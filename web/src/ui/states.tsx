/** States of a view: nothing there, loading, failed. */

import { useEffect, useState, type ReactNode } from "react";
import { asProblem } from "@/api/client";
import { Button, IconButton } from "@/ui/Button";
import { Icon } from "@/ui/Icon";

interface EmptyStateProps {
  title: string;
  /** One sentence. */
  children?: ReactNode;
  /** The command that changes it. */
  command?: string;
  actions?: ReactNode;
  small?: boolean;
}

/** Says what is not there and how to change that. */
export function EmptyState({ title, children, command, actions, small = false }: EmptyStateProps) {
  return (
    <div className="stage">
      <div className={small ? "empty sm" : "empty"}>
        <h2>{title}</h2>
        {children !== undefined && <p>{children}</p>}
        {command !== undefined && <CommandLine command={command} />}
        {actions !== undefined && <div className="row empty-actions">{actions}</div>}
      </div>
    </div>
  );
}

/** A shell command with a button that copies it. */
export function CommandLine({ command }: { command: string }) {
  return (
    <div className="cmd">
      <code>
        <span className="t3">$</span> {command}
      </code>
      <IconButton
        icon="copy"
        label="Copy the command"
        onClick={() => void navigator.clipboard?.writeText(command)}
      />
    </div>
  );
}

interface ErrorStateProps {
  /** What could not be done, e.g. "The log could not be loaded". */
  title: string;
  error: unknown;
  onRetry?: () => void;
}

/** Says what failed, why and what to do. The rest of the page goes on. */
export function ErrorState({ title, error, onRetry }: ErrorStateProps) {
  const { body } = asProblem(error);
  const details = JSON.stringify(body, null, 2);
  return (
    <div className="stage" role="alert">
      <div className="empty sm err1">
        <Icon name="warning" />
        <h2>{title}</h2>
        <p>
          {body.detail ?? body.title} {body.hint}
        </p>
        <div className="row empty-actions">
          {onRetry !== undefined && <Button onClick={onRetry}>Try now</Button>}
          <Button look="quiet" icon="copy" onClick={() => void navigator.clipboard?.writeText(details)}>
            Copy details
          </Button>
        </div>
        <p className="tiny t3 mono">{body.code}</p>
      </div>
    </div>
  );
}

const SKELETON_AFTER_MS = 300;
const EXPLAIN_AFTER_MS = 5000;

/** Grey rows in the shape of the content, shown after 300 ms; after 5 s also what is waited for. */
export function Skeleton({ label, rows = 6 }: { label: string; rows?: number }) {
  const visible = useElapsed(SKELETON_AFTER_MS);
  const long = useElapsed(EXPLAIN_AFTER_MS);
  if (!visible) return <div aria-busy="true" className="skeleton" />;
  return (
    <div aria-busy="true" className="skeleton">
      <span className={long ? "t3 small skeleton-note" : "sr"} role="status">
        {long ? `${label}: waiting for the server` : label}
      </span>
      {Array.from({ length: rows }, (_, index) => (
        <div key={index} className="skr skl">
          <i className="sk" />
          <i className="sk" />
          <i className="sk" />
          <i className="sk" />
          <i className="sk" />
        </div>
      ))}
    </div>
  );
}

interface LoadStateProps {
  query: { data: unknown; error: Error | null; refetch: () => Promise<unknown> };
  /** What is waited for, e.g. "Loading tokens". */
  label: string;
  rows: number;
  /** What could not be done, e.g. "The tokens could not be listed". */
  failure: string;
}

/** The state of a query that has no data yet: loading or failed. An error is also shown beside older data. */
export function LoadState({ query, label, rows, failure }: LoadStateProps) {
  if (query.error !== null)
    return <ErrorState title={failure} error={query.error} onRetry={() => void query.refetch()} />;
  return query.data === undefined ? <Skeleton label={label} rows={rows} /> : null;
}

function useElapsed(delayMs: number): boolean {
  const [elapsed, setElapsed] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setElapsed(true), delayMs);
    return () => clearTimeout(timer);
  }, [delayMs]);
  return elapsed;
}

interface CalloutProps {
  tone?: "info" | "warn" | "bad";
  children: ReactNode;
  actions?: ReactNode;
}

/** A message inside a view that needs attention. */
export function Callout({ tone = "info", children, actions }: CalloutProps) {
  return (
    <div
      className={tone === "info" ? "callout" : `callout ${tone}`}
      role={tone === "bad" ? "alert" : "status"}
    >
      <Icon name="warning" />
      <div>{children}</div>
      {actions !== undefined && <div className="actions">{actions}</div>}
    </div>
  );
}
