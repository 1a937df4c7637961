import { memo } from "react";
import { clockTime } from "@/lib/time";
import { formatCount } from "@/lib/format";
import { parseAnsi } from "@/log/ansi";
import { markHits } from "@/log/highlight";
import type { KnownLine } from "@/log/store";

interface LogRowProps {
  number: number;
  line: KnownLine;
  /** Text to mark; "" for none. */
  find: string;
  matchCase: boolean;
  current: boolean;
  /** Address of the part of a long line that is not shown. */
  restHref: string;
  onChoose: (line: number) => void;
}

/** One line of the log. Its text only ever becomes text nodes. */
export const LogRow = memo(function LogRow(props: LogRowProps) {
  const { number, line, find, matchCase, current, restHref, onChoose } = props;
  return (
    <div className={current ? "ln current" : "ln"} data-line={number}>
      <button
        type="button"
        className="no"
        tabIndex={-1}
        title="Link to this line"
        onClick={() => onChoose(number)}
      >
        {formatCount(number)}
      </button>
      <time>{line?.at == null ? "" : clockTime(line.at, true)}</time>
      <span className="tx">
        {line === null && <i className="t3">not stored: the log is larger than its quota</i>}
        {line != null &&
          markHits(parseAnsi(line.text), find, matchCase).map((part, index) => {
            const Tag = part.marked ? "mark" : "span";
            return part.className === "" && !part.marked ? (
              part.text
            ) : (
              <Tag key={index} className={part.className || undefined}>
                {part.text}
              </Tag>
            );
          })}
        {line?.rest != null && (
          <a className="link rest" href={`${restHref}&offset=${line.rest}`} target="_blank" rel="noreferrer">
            … rest of the line
          </a>
        )}
      </span>
    </div>
  );
});
