/** Scrolls a log of any length: which lines are visible, jumps, and staying at the end. */

import { useEffect, useEffectEvent, useLayoutEffect, useRef, useState, type RefObject } from "react";
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
  /** Changes when the element has to move. Otherwise the user moves it, and a render must not disturb that. */
  const [moves, setMoves] = useState(0);
  const latest = useRef(scroll);
  const isShown = lines > 0;

  useEffect(() => {
    const box = element.current;
    if (box === null) return;
    const observer = new ResizeObserver(() => setViewport(box.clientHeight || FIRST_VIEWPORT));
    observer.observe(box);
    return () => observer.disconnect();
  }, [isShown]);

  const place = useEffectEvent(() => {
    latest.current = scroll;
    const box = element.current;
    if (box !== null && Math.abs(box.scrollTop - scroll.top) >= 1) box.scrollTop = scroll.top;
  });
  const followedTop = following ? scroll.top : null;
  useLayoutEffect(() => place(), [followedTop, moves, isShown]);

  const moveTo = (next: ScrollPosition) => {
    setStored(next);
    setMoves((count) => count + 1);
  };

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
    if (next.top === box.scrollTop) setStored(next);
    else moveTo(next);
    if (isAtEnd(next, geometry)) setFollowing(true);
    else if (isUp) setFollowing(false);
  };

  const showLine = (line: number) => {
    setFollowing(false);
    moveTo(positionOfLine(line, geometry));
  };

  /** Go to the first or last line at once. The browser would move there in steps, which a correction can end. */
  const onKeyDown = useEffectEvent((event: KeyboardEvent) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    if (event.key === "Home") showLine(1);
    else if (event.key === "End") follow(true);
    else return;
    event.preventDefault();
  });
  useEffect(() => {
    const box = element.current;
    if (box === null) return;
    const listener = (event: KeyboardEvent) => onKeyDown(event);
    box.addEventListener("keydown", listener);
    return () => box.removeEventListener("keydown", listener);
  }, [isShown]);

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
