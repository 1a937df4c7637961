/** The tooltip of the chart under the pointer. */

import type { CSSProperties } from "react";
import type { TooltipPlace } from "@/charts/ChartPlot";

export interface TooltipContent {
  title: string;
  color: string;
  /** The value in a list of several runs. */
  value: string;
  rows: [label: string, text: string][];
}

interface ChartTooltipProps {
  place: TooltipPlace;
  contents: TooltipContent[];
  /** Name every line with its value, instead of the nearest in detail. */
  listAll: boolean;
}

const OTHER_SIDE_FROM = 0.6;

export function ChartTooltip({ place, contents, listAll }: ChartTooltipProps) {
  const [first] = contents;
  if (first === undefined) return null;
  const left = place.fraction <= OTHER_SIDE_FROM;
  const style = { "--at": `${place.left.toFixed(1)}px` } as CSSProperties;
  return (
    <div className={left ? "tip to-right" : "tip to-left"} style={style} aria-hidden="true">
      {listAll ? <RunList contents={contents} /> : <PointDetails content={first} />}
    </div>
  );
}

function PointDetails({ content }: { content: TooltipContent }) {
  return (
    <>
      <b className="row tip-title">
        <Swatch color={content.color} />
        {content.title}
      </b>
      <dl>
        {content.rows.map(([label, text]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

function RunList({ contents }: { contents: TooltipContent[] }) {
  return (
    <>
      <span className="t3">
        {contents[0]!.rows[0]![0]} {contents[0]!.rows[0]![1]}
      </span>
      <dl>
        {contents.map((content) => (
          <div key={content.title}>
            <dt>
              <Swatch color={content.color} /> {content.title}
            </dt>
            <dd>{content.value}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

function Swatch({ color }: { color: string }) {
  return <i className="swatch" style={{ "--c": `var(${color})` } as CSSProperties} />;
}
