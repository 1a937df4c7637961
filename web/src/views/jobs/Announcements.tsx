import { useEffect, useRef, useState } from "react";
import { shortId } from "@/lib/format";
import { useProjectMessages } from "@/live/hooks";
import { statusWord } from "@/ui/Status";

const EVERY_MS = 5000;

/** Says changed states of jobs to screen readers, at most once in five seconds. */
export function Announcements() {
  const [said, setSaid] = useState("");
  const known = useRef(new Map<string, string>());
  const waiting = useRef<string[]>([]);
  useProjectMessages((messages) => {
    for (const message of messages) {
      if (message.kind !== "summary") continue;
      const { job } = message;
      const word = statusWord(job);
      const before = known.current.get(job.id);
      known.current.set(job.id, word);
      if (before !== undefined && before !== word) {
        waiting.current.push(`${job.name || shortId(job.id)}: ${word}`);
      }
    }
  });
  useEffect(() => {
    const timer = setInterval(() => {
      if (waiting.current.length === 0) return;
      const [first, ...others] = waiting.current;
      setSaid(others.length === 0 ? (first ?? "") : `${first}, and ${others.length} more changes`);
      waiting.current = [];
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <div className="sr" role="status">
      {said}
    </div>
  );
}
