import { Link } from "@tanstack/react-router";
import { formatCount } from "@/lib/format";
import { EmptyState } from "@/ui/states";
import type { Slot } from "@/views/queue/data";

/** What each backend has free now. */
export function SlotsPanel({ slots }: { slots: readonly Slot[] }) {
  return (
    <section className="panel" aria-labelledby="slots">
      <header>
        <h2 id="slots">Free now</h2>
        <Link className="link small" to="/machines">
          Machines
        </Link>
      </header>
      {slots.length === 0 ? (
        <EmptyState small title="No backend is configured" command="anygpu backend add" />
      ) : (
        <div className="scroll-x" tabIndex={0} role="region" aria-label="Table of free slots">
          <table className="tbl">
            <thead>
              <tr>
                <th>Machine</th>
                <th>GPU</th>
                <th className="num">Free</th>
              </tr>
            </thead>
            <tbody>
              {slots.map((slot, index) => (
                <tr key={index}>
                  <td className="two">
                    <span className="med">{slot.backend}</span>
                    <small>{slot.name || "–"}</small>
                  </td>
                  <td className="two">
                    {"gpus" in slot ? hardware(slot) : "not available"}
                    {slot.reason !== "" && <small title={slot.reason}>{slot.reason}</small>}
                  </td>
                  <td className="num">{slot.free === null ? "as rented" : formatCount(slot.free)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function hardware(slot: Extract<Slot, { gpus: number }>): string {
  if (slot.gpus === 0) return slot.cpus > 0 ? `${formatCount(slot.cpus)} CPU cores` : "CPU";
  return slot.gpus === 1 ? slot.gpu || "GPU" : `${slot.gpus} × ${slot.gpu || "GPU"}`;
}
