import { useEffect, useRef, useState } from "react";

const PAUSE_MS = 5000;

/** Tells a screen reader what changed, at most once in five seconds. Nothing is shown. */
export function Announcement({ text }: { text: string }) {
  const [said, setSaid] = useState("");
  const saidAt = useRef(0);
  useEffect(() => {
    const wait = Math.max(0, saidAt.current + PAUSE_MS - Date.now());
    const timer = setTimeout(() => {
      saidAt.current = Date.now();
      setSaid(text);
    }, wait);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <p className="sr" role="status">
      {said}
    </p>
  );
}
