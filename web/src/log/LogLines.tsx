import type { CSSProperties } from "react";
import { LINE_HEIGHT, scrolledHeight } from "@/log/scroll";
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
  const selected = useSelectedLines(element);
  const first = Math.min(scroller.first, selected?.first ?? scroller.first);
  const last = Math.min(lines, Math.max(scroller.last, selected?.last ?? scroller.last));
  const y = Math.round((first - 1) * LINE_HEIGHT - scroll.position + scroll.top);
  const sizes = { "--h": `${scrolledHeight({ lines, viewport })}px`, "--y": `${y}px` } as CSSProperties;
  const digits = { "--digits": Math.max(4, String(lines).length + Math.floor(String(lines).length / 4)) };
  const numbers = Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => first + index);
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
          {numbers.map((number) => (
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
          ))}
        </div>
      </div>
    </div>
  );
}
