import { useEffect } from "react";
import { useQueryClient } from "@tanstack/react-query";
import { plural } from "@/lib/format";
import { clockTime } from "@/lib/time";
import type { Trouble } from "@/live/connection";
import { live, useConnectionState } from "@/live/hooks";
import { Button } from "@/ui/Button";
import { Icon } from "@/ui/Icon";
import { useNow } from "@/ui/Time";

const SHOW_AFTER_MS = 2000;

/** Says since when the connection is lost and when the next try is, or why parts of the page are not live. */
export function ConnectionBanner() {
  const connection = useConnectionState();
  const now = useNow();
  const queries = useQueryClient();
  const signedOut = connection.state === "lost" && connection.signedOut;
  useEffect(() => {
    if (signedOut) void queries.resetQueries({ queryKey: ["whoami"] });
  }, [signedOut, queries]);
  if (connection.state === "live" && connection.trouble !== null) {
    return <TroubleBanner {...connection.trouble} />;
  }
  if (connection.state !== "lost" || now - connection.since < SHOW_AFTER_MS) return null;
  const wait = Math.max(0, Math.ceil((connection.nextTryAt - now) / 1000));
  return (
    <div className="banner" role="status">
      <Icon name="offline" />
      <p>
        <b>Not connected since {clockTime(connection.since, true)}.</b>{" "}
        <span className="t2">
          Jobs go on. What you see is from then. Next try{" "}
          {wait === 0 ? "now" : `in ${plural(wait, "second")}`}.
        </span>
      </p>
      <Button className="push" onClick={live.retryNow}>
        Try now
      </Button>
    </div>
  );
}

/** Says that the server does not serve a part of what the page follows. */
function TroubleBanner({ problem, retrying }: Trouble) {
  return (
    <div className="banner" role="status">
      <Icon name="offline" />
      <p>
        <b>{retrying ? "Some live updates are late." : "Some live updates have stopped."}</b>{" "}
        <span className="t2">
          {[problem.detail ?? problem.title, problem.hint].filter(Boolean).join(" ")}
          {retrying && " The page tries again by itself."}
        </span>
      </p>
      {!retrying && (
        <Button className="push" onClick={() => location.reload()}>
          Reload the page
        </Button>
      )}
    </div>
  );
}
