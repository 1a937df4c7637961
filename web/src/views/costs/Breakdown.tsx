/** The sums of each group beside the bars. */

import type { Schemas } from "@/api/client";
import { percentOf, vars } from "@/lib/css";
import { formatCount, formatMoney, formatPercent, NBSP } from "@/lib/format";
import { colourOf, groupName, type CostTable } from "@/views/costs/days";
import type { Grouping } from "@/views/costs/search";

type Sums = Schemas["CostFigures"];
const HOUR_S = 3600;

interface BreakdownProps {
  table: CostTable;
  by: Grouping;
  heading: string;
}

export function Breakdown({ table, by, heading }: BreakdownProps) {
  const { total, rest } = table;
  return (
    <div className="brkw scroll-x" tabIndex={0} role="region" aria-label={`Cost by ${heading}`}>
      <table className="tbl brk">
        <thead>
          <tr>
            <th>{heading}</th>
            <th className="num sorted" aria-sort="descending">
              Cost
            </th>
            <th>
              <span className="sr">Share</span>
            </th>
            <th className="num">GPU{NBSP}h</th>
            <th className="num">Per GPU{NBSP}h</th>
            <th className="num">Spot</th>
            <th className="num">Lost</th>
          </tr>
        </thead>
        <tbody>
          {table.groups.map((group, index) => (
            <Row
              key={group.key}
              name={groupName(group.key, by)}
              colour={colourOf(table, index)}
              {...{ sums: group, total }}
            />
          ))}
          {rest !== null && (
            <Row name={`${rest.groups} others`} colour="--c-rest" {...{ sums: rest, total }} />
          )}
        </tbody>
        <tfoot>
          <tr>
            <td>All</td>
            <td className="num">{formatMoney(total.microusd)}</td>
            <td />
            <Cells sums={total} />
          </tr>
        </tfoot>
      </table>
    </div>
  );
}

function Row({ name, colour, sums, total }: { name: string; colour: string; sums: Sums; total: Sums }) {
  const share = total.microusd > 0 ? sums.microusd / total.microusd : 0;
  return (
    <tr>
      <td>
        <span className="row">
          <i className="swatch" style={vars({ "--c": `var(${colour})` })} />
          <span className="cut" title={name}>
            {name}
          </span>
        </span>
      </td>
      <td className="num med">{sums.microusd === 0 ? "own" : formatMoney(sums.microusd)}</td>
      <td className="shr">
        <span className="sbar">
          <b style={vars({ "--w": percentOf(share), "--c": `var(${colour})` })} />
        </span>
      </td>
      <Cells sums={sums} />
    </tr>
  );
}

function Cells({ sums }: { sums: Sums }) {
  const hours = sums.gpu_s / HOUR_S;
  return (
    <>
      <td className="num">{formatHours(hours)}</td>
      <td className="num">{hours > 0 && sums.microusd > 0 ? formatMoney(sums.microusd / hours) : "–"}</td>
      <td className="num">
        {sums.spot_microusd > 0 ? formatPercent(sums.spot_microusd / sums.microusd) : "–"}
      </td>
      <td className="num">{sums.lost_microusd > 0 ? formatMoney(sums.lost_microusd) : "–"}</td>
    </>
  );
}

function formatHours(hours: number): string {
  if (hours === 0) return "–";
  if (hours >= 10) return formatCount(hours);
  return hours < 0.01 ? "< 0.01" : hours.toFixed(hours < 1 ? 2 : 1);
}
