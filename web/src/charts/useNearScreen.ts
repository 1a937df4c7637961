import { useEffect, useState, type RefObject } from "react";

const MARGIN = "240px 0px";

/** Whether an element is on the screen or close to it. */
export function useNearScreen(element: RefObject<HTMLElement | null>): boolean {
  const [near, setNear] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => setNear(entries.at(-1)?.isIntersecting ?? false), {
      rootMargin: MARGIN,
    });
    if (element.current !== null) observer.observe(element.current);
    return () => observer.disconnect();
  }, [element]);
  return near;
}
