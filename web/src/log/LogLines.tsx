import type { CSSProperties } from "react";
import { LINE_HEIGHT, scrolledHeight, shownLines, type LineRange } from "@/log/scroll";
import { LogRow } from "@/log/LogRow";
import type { LogStore } from "@/log/store";
import type { Scroller } from "@/log/useScroller";
import { useSelectedLines } from "@/log/useSelectedLines";

interface LogLinesProps {
  store: LogStore;
  version: number;
  scroller: Scroller;
  /** Address of the log's bytes; `&offset=` follows. */
  bytesHref: string;
  find: string;
  matchCase: boolean;
  current: number | null;
  onChoose: (line: number) => void;
}

/** The visible lines inside an element that is as high as the whole log. */
export function LogLines(props: LogLinesProps) {
  const { store, scroller } = props;
  const { element, scroll, viewport } = scroller;
  const lines = store.totalLines;
  const { first, last } = scroller;
  const { ranges, gap, above } = shownLines({ first, last }, useSelectedLines(element));
  const y = Math.round((first - 1) * LINE_HEIGHT - scroll.position + scroll.top) - above;
  const sizes = { "--h": `${scrolledHeight({ lines, viewport })}px`, "--y": `${y}px` } as CSSProperties;
  const digits = { "--digits": Math.max(4, String(lines).length + Math.floor(String(lines).length / 4)) };
  return (
    <div
      ref={element}
      className="term"
      role="region"
      tabIndex={0}
      aria-label="Log, newest lines last"
      style={digits as CSSProperties}
      onScroll={scroller.onScroll}
    >
      <div className="log-space" style={sizes}>
        <div className="log-rows">
          {rowNumbers(ranges, lines).map((number) =>
            typeof number === "string" ? (
              <div key={number} className="log-gap" style={{ "--gap": `${gap}px` } as CSSProperties} />
            ) : (
              <LogRow
                key={number}
                number={number}
                line={store.line(number)}
                find={props.find}
                matchCase={props.matchCase}
                current={number === props.current}
                restHref={props.bytesHref}
                onChoose={props.onChoose}
              />
            ),
          )}
        </div>
      </div>
    </div>
  );
}

/**
 * The numbers of the lines in the page, and the key of the gap between two ranges. In one list a line stays the same
 * element. A gap with one key on both sides of the selected lines would make React move them, which ends a selection.
 */
function rowNumbers(ranges: LineRange[], lines: number): (number | string)[] {
  return ranges.flatMap(({ first, last }, index) => {
    const count = Math.max(0, Math.min(lines, last) - first + 1);
    const numbers = Array.from({ length: count }, (_, offset) => first + offset);
    return index === 0 ? numbers : [`gap before ${first}`, ...numbers];
  });
}
