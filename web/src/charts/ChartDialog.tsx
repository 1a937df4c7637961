/** One chart in large, with a table of its points on request. */

import { useEffect, useState, type ReactNode } from "react";
import type { ChartContent, ChartSource } from "@/charts/LineChart";
import { formatCount, formatValue } from "@/lib/format";
import { absoluteTime } from "@/lib/time";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";

interface ChartDialogProps {
  name: string;
  onClose: () => void;
  /** Has the lines for the table. */
  source: ChartSource;
  lineTitle: string;
  children: ReactNode;
}

const ROWS = 200;

export function ChartDialog({ name, onClose, source, lineTitle, children }: ChartDialogProps) {
  const [table, setTable] = useState<Table | null>(null);
  useEffect(() => {
    if (table === null || table.isComplete) return;
    return source.subscribe(() => setTable(readTable(source)));
  }, [table, source]);
  return (
    <Dialog open wide title={name} onClose={onClose}>
      {children}
      <div className="row">
        <Button
          onClick={() => setTable(table === null ? readTable(source) : null)}
          aria-expanded={table !== null}
        >
          {table === null ? "Show the points as a table" : "Hide the table"}
        </Button>
        <span className="t3 small pointer-hint">
          Drag in the chart to zoom, double-click to show all; or press +, - and 0.
        </span>
      </div>
      {table !== null && <PointsTable rows={table.rows} lineTitle={lineTitle} name={name} />}
    </Dialog>
  );
}

interface Table {
  rows: PointRow[];
  /** The points are loaded. The table then stays as it is, so that it can be read. */
  isComplete: boolean;
}

function readTable(source: ChartSource): Table {
  const content = source.read();
  return { rows: pointRows(content), isComplete: content.state === "ready" };
}

interface PointRow {
  line: string;
  step: number;
  value: number;
  time: number;
}

/** All drawn points, newest first, those of unknown time last. Points that begin a dashed part are in the part before too, so they are left out. */
export function pointRows(content: ChartContent): PointRow[] {
  const rows = content.model.lines.flatMap((line) =>
    line.stretches.flatMap((stretch, part) =>
      stretch.steps.slice(part > 0 ? 1 : 0).map((step, place) => {
        const index = place + (part > 0 ? 1 : 0);
        return { line: line.label, step, value: stretch.values[index]!, time: stretch.times[index]! };
      }),
    ),
  );
  const order = ({ time }: PointRow) => (Number.isFinite(time) ? time : -1);
  return rows.sort((a, b) => order(b) - order(a));
}

function PointsTable({ rows, lineTitle, name }: { rows: PointRow[]; lineTitle: string; name: string }) {
  const [shown, setShown] = useState(ROWS);
  return (
    <div className="points-table" tabIndex={0} role="region" aria-label={`Points of ${name}`}>
      <table className="tbl">
        <thead>
          <tr>
            <th>{lineTitle}</th>
            <th className="num">Step</th>
            <th className="num">Value</th>
            <th className="num">Time</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, shown).map((row, index) => (
            <tr key={index}>
              <td>{row.line}</td>
              <td className="num">{formatCount(row.step)}</td>
              <td className="num">{formatValue(row.value)}</td>
              <td className="num">{absoluteTime(row.time * 1000)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > shown && (
        <Button look="quiet" onClick={() => setShown(shown + ROWS)}>
          Show {formatCount(Math.min(ROWS, rows.length - shown))} more of {formatCount(rows.length)}
        </Button>
      )}
    </div>
  );
}
