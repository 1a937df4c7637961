/** Stacked bars by day. Days to come are dashed and empty. */

import { useState, type PointerEvent } from "react";
import { percentOf, vars } from "@/lib/css";
import { formatMoney } from "@/lib/format";
import { formatDay } from "@/views/costs/calendar";
import { axisTicks, formatTick, type Day } from "@/views/costs/days";

interface DayChartProps {
  days: readonly Day[];
  today: string;
  month: string;
  total: number;
}

const LABELLED_DAYS = [1, 5, 10, 15, 20, 25, 30];

export function DayChart({ days, today, month, total }: DayChartProps) {
  const [hovered, setHovered] = useState<number | null>(null);
  const most = Math.max(...days.map((day) => Math.max(day.total, day.expected ?? 0)));
  const ticks = axisTicks(most);
  const top = ticks.at(-1)!;
  const point = (event: PointerEvent<HTMLDivElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    const index = Math.floor(((event.clientX - box.left) / box.width) * days.length);
    setHovered(index >= 0 && index < days.length ? index : null);
  };
  const labelWidth = Math.max(...ticks.map((tick) => formatTick(tick).length));
  return (
    <div
      className="plot day-plot"
      style={vars({ "--yw": `${labelWidth * 7 + 10}px` })}
      role="img"
      aria-label={`Cost by day in ${month}, ${formatMoney(total)} so far`}
      onPointerMove={point}
      onPointerLeave={() => setHovered(null)}
    >
      {ticks.map((tick) => (
        <Line key={tick} tick={tick} top={top} />
      ))}
      <div className="dcs" style={vars({ "--days": days.length })}>
        {days.map((day, index) => (
          <Bar key={day.day} day={day} top={top} hovered={index === hovered} />
        ))}
      </div>
      {LABELLED_DAYS.filter((day) => day <= days.length).map((day) => (
        <span key={day} className="x" style={vars({ "--x": percentOf((day - 0.5) / days.length) })}>
          {day}
        </span>
      ))}
      {hovered !== null && <Tip day={days[hovered]!} at={(hovered + 0.5) / days.length} today={today} />}
    </div>
  );
}

function Line({ tick, top }: { tick: number; top: number }) {
  const place = vars({ "--y": percentOf(1 - tick / top) });
  return (
    <>
      <span className={tick === 0 ? "gl base" : "gl"} style={place} />
      <span className="y" style={place}>
        {formatTick(tick)}
      </span>
    </>
  );
}

function Bar({ day, top, hovered }: { day: Day; top: number; hovered: boolean }) {
  if (day.expected !== null && day.parts.length === 0) {
    return (
      <div className={hovered ? "dc expected hov" : "dc expected"}>
        {day.expected > 0 && <i style={vars({ "--h": percentOf(day.expected / top) })} />}
      </div>
    );
  }
  return (
    <div className={hovered ? "dc hov" : "dc"}>
      {day.parts.map((part) => (
        <i
          key={part.name}
          style={vars({ "--h": percentOf(part.height / top), "--c": `var(${part.colour})` })}
        />
      ))}
    </div>
  );
}

/** The amounts of the day under the pointer. It stands on the other side in the outer part of the chart. */
function Tip({ day, at, today }: { day: Day; at: number; today: string }) {
  const name = formatDay(day.day);
  return (
    <div className={at > 0.55 ? "tip before" : "tip"} style={vars({ "--x": percentOf(at) })}>
      <b>{day.day === today ? `Today, ${name}` : name}</b>
      <dl>
        {[...day.parts].reverse().map((part) => (
          <Amount key={part.name} {...part} />
        ))}
        {day.expected !== null && day.parts.length === 0 ? (
          <>
            <dt>expected</dt>
            <dd>{formatMoney(day.expected)}</dd>
          </>
        ) : (
          <>
            <dt>all</dt>
            <dd>
              <b>{formatMoney(day.total)}</b>
            </dd>
          </>
        )}
      </dl>
    </div>
  );
}

function Amount({ name, colour, microusd }: { name: string; colour: string; microusd: number }) {
  return (
    <>
      <dt>
        <i className="swatch" style={vars({ "--c": `var(${colour})` })} />
        <span className="cut">{name}</span>
      </dt>
      <dd>{formatMoney(microusd)}</dd>
    </>
  );
}
