/** Scrolls a log of any length: which lines are visible, jumps, and staying at the end. */

import { useEffect, useLayoutEffect, useRef, useState, type RefObject } from "react";
import {
  afterScroll,
  endPosition,
  isAtEnd,
  positionOfLine,
  visibleLines,
  type ScrollPosition,
} from "@/log/scroll";

const EXTRA_LINES = 20;
const FIRST_VIEWPORT = 300;

export interface Scroller {
  element: RefObject<HTMLDivElement | null>;
  scroll: ScrollPosition;
  viewport: number;
  first: number;
  last: number;
  /** Whether the newest lines stay visible. */
  following: boolean;
  follow: (following: boolean) => void;
  onScroll: () => void;
  showLine: (line: number) => void;
}

export function useScroller(lines: number, startsAtEnd: boolean): Scroller {
  const element = useRef<HTMLDivElement>(null);
  const [viewport, setViewport] = useState(FIRST_VIEWPORT);
  const [following, setFollowing] = useState(startsAtEnd);
  const [stored, setStored] = useState<ScrollPosition>({ top: 0, position: 0 });
  const geometry = { lines, viewport };
  const scroll = following ? endPosition(geometry) : stored;
  const latest = useRef(scroll);
  const isShown = lines > 0;

  useEffect(() => {
    const box = element.current;
    if (box === null) return;
    const observer = new ResizeObserver(() => setViewport(box.clientHeight || FIRST_VIEWPORT));
    observer.observe(box);
    return () => observer.disconnect();
  }, [isShown]);

  useLayoutEffect(() => {
    latest.current = scroll;
    const box = element.current;
    if (box !== null && Math.abs(box.scrollTop - scroll.top) >= 1) box.scrollTop = scroll.top;
  });

  const follow = (next: boolean) => {
    if (!next && following) setStored(scroll);
    setFollowing(next);
  };

  const onScroll = () => {
    const box = element.current;
    if (box === null || Math.abs(box.scrollTop - latest.current.top) < 1) return;
    const isUp = box.scrollTop < latest.current.top;
    const next = afterScroll(latest.current, box.scrollTop, geometry);
    latest.current = next;
    setStored(next);
    if (isAtEnd(next, geometry)) setFollowing(true);
    else if (isUp) setFollowing(false);
  };

  const showLine = (line: number) => {
    setFollowing(false);
    setStored(positionOfLine(line, geometry));
  };
  return {
    element,
    scroll,
    viewport,
    ...visibleLines(scroll.position, geometry, EXTRA_LINES),
    following,
    follow,
    onScroll,
    showLine,
  };
}
