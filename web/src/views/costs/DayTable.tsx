import { formatMoney } from "@/lib/format";
import { formatDay } from "@/views/costs/calendar";
import type { Day } from "@/views/costs/days";

/** The bars as a table: days with costs, and their parts. */
export function DayTable({ days, month }: { days: readonly Day[]; month: string }) {
  const names = [...new Set(days.flatMap((day) => day.parts.map((part) => part.name)))];
  return (
    <div className="scroll-x day-table" tabIndex={0} role="region" aria-label={`Cost by day in ${month}`}>
      <table className="tbl">
        <thead>
          <tr>
            <th>Day</th>
            {names.map((name) => (
              <th key={name} className="num">
                {name}
              </th>
            ))}
            <th className="num">All</th>
          </tr>
        </thead>
        <tbody>
          {days
            .filter((day) => day.total > 0)
            .map((day) => (
              <tr key={day.day}>
                <td className="nowrap">{formatDay(day.day)}</td>
                {names.map((name) => (
                  <td key={name} className="num">
                    {amountOf(day, name)}
                  </td>
                ))}
                <td className="num med">{formatMoney(day.total)}</td>
              </tr>
            ))}
        </tbody>
      </table>
    </div>
  );
}

function amountOf(day: Day, name: string): string {
  const part = day.parts.find((each) => each.name === name);
  return part === undefined ? "–" : formatMoney(part.microusd);
}
