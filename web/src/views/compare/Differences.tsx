/** Settings, results and figures of the runs side by side. Equal rows are folded. */

import { useNavigate, useSearch } from "@tanstack/react-router";
import type { MetricsFeed } from "@/charts/metrics-feed";
import { formatDuration, formatMoney, formatValue, plural, sentenceCase } from "@/lib/format";
import { Button } from "@/ui/Button";
import { statusWord } from "@/ui/Status";
import { LineSample } from "@/views/compare/RunKey";
import type { Run } from "@/views/compare/runs";
import { compareRows, type ComparedRow } from "@/views/compare/settings";

interface DifferencesProps {
  runs: readonly Run[];
  feeds: ReadonlyMap<string, MetricsFeed>;
}

export function Differences({ runs, feeds }: DifferencesProps) {
  const search: Record<string, unknown> = useSearch({ strict: false });
  const navigate = useNavigate();
  const showEqual = search.equal === true;
  const toggle = () =>
    void navigate({
      to: ".",
      search: (before: Record<string, unknown>) => ({ ...before, equal: showEqual ? undefined : true }),
      replace: true,
      resetScroll: false,
    });
  const parts: [title: string, rows: ComparedRow[]][] = [
    ["Run", compareRows(runs.map(runFacts))],
    ["Settings", compareRows(runs.map((run) => run.settings))],
    ["Final metrics", compareRows(runs.map((run) => finalMetrics(feeds.get(run.id))))],
  ];
  const equal = parts.flatMap(([, rows]) => rows).filter((row) => row.equal).length;
  return (
    <section className="panel" aria-labelledby="differences-title">
      <header>
        <h2 id="differences-title">Differences</h2>
        {equal > 0 && runs.length > 1 && (
          <Button aria-pressed={showEqual} onClick={toggle}>
            {showEqual ? "Hide equal rows" : `Show ${plural(equal, "equal row")}`}
          </Button>
        )}
      </header>
      <div className="scroll-x" tabIndex={0} role="region" aria-label="Differences of the runs">
        <table className="tbl differences">
          <thead>
            <tr>
              <th scope="col">
                <span className="sr">Name</span>
              </th>
              {runs.map((run) => (
                <th key={run.id} scope="col" className="num">
                  <span className="run-head">
                    <LineSample color={run.color} dash={run.dash} />
                    <span className="cut" title={run.label}>
                      {run.label}
                    </span>
                  </span>
                </th>
              ))}
            </tr>
          </thead>
          {parts.map(([title, rows]) => (
            <Part
              key={title}
              title={title}
              rows={rows.filter((row) => showEqual || !row.equal || runs.length === 1)}
              columns={runs.length}
              none={rows.length === 0 ? "None reported." : "No difference."}
            />
          ))}
        </table>
      </div>
    </section>
  );
}

interface PartProps {
  title: string;
  rows: readonly ComparedRow[];
  columns: number;
  none: string;
}

function Part({ title, rows, columns, none }: PartProps) {
  return (
    <tbody>
      <tr className="part">
        <th scope="rowgroup" colSpan={columns + 1}>
          {title}
        </th>
      </tr>
      {rows.length === 0 && (
        <tr>
          <td colSpan={columns + 1} className="t3">
            {none}
          </td>
        </tr>
      )}
      {rows.map((row) => (
        <tr key={row.name} className={row.equal ? "equal" : undefined}>
          <th scope="row">
            <span className="cut" title={row.name}>
              {row.name}
            </span>
          </th>
          {row.texts.map((text, index) => (
            <td key={index} className="num" title={text ?? undefined}>
              {text === null ? <span className="t3">none</span> : <span className="cell">{text}</span>}
            </td>
          ))}
        </tr>
      ))}
    </tbody>
  );
}

function runFacts(run: Run): Record<string, string> {
  const { job } = run;
  return {
    Cost: formatMoney(job.cost_microusd),
    Machine: [job.place?.backend, job.place?.gpu || job.place?.name].filter(Boolean).join(" ") || "none",
    Status: sentenceCase(statusWord(job)),
    Time: formatDuration(run.wallS),
  };
}

function finalMetrics(feed: MetricsFeed | undefined): Record<string, string> {
  const summaries = [...(feed?.store.summaries.values() ?? [])];
  return Object.fromEntries(summaries.map(({ name, last }) => [name, formatValue(last)]));
}
