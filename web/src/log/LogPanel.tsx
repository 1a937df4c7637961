import { useEffect, useEffectEvent, useId, useMemo, useState, useSyncExternalStore } from "react";
import type { Schemas } from "@/api/client";
import { useShortcuts } from "@/app/shortcuts";
import { formatBytes, formatCount, plural } from "@/lib/format";
import { LogFeed } from "@/log/feed";
import { LogLines } from "@/log/LogLines";
import { LogSearchField, LogToolbar } from "@/log/LogToolbar";
import type { LogStore } from "@/log/store";
import { useLogAddress } from "@/log/useLogAddress";
import { useScroller } from "@/log/useScroller";
import { useLogSearch } from "@/log/useSearch";
import { Button } from "@/ui/Button";
import { EmptyState, ErrorState, Skeleton } from "@/ui/states";
import { isEnded } from "@/ui/Status";
import "./log.css";

type LogJob = Pick<Schemas["JobDetails"], "id" | "name" | "status"> & {
  attempts: readonly { number: number; backend: string }[];
};

interface LogPanelProps {
  job: LogJob;
  /** Fill the height of the window instead of a part of the page. */
  full?: boolean;
}

/** The log of a job: the newest attempt, or the one that the address names. */
export function LogPanel({ job, full = false }: LogPanelProps) {
  const { attempt } = useLogAddress();
  const chosen = attempt !== null && attempt <= job.attempts.length ? attempt : null;
  return <AttemptLog key={`${job.id} ${chosen ?? ""}`} job={job} attempt={chosen} full={full} />;
}

function AttemptLog({ job, attempt, full }: { job: LogJob; attempt: number | null; full: boolean }) {
  const feed = useMemo(() => new LogFeed(job.id, attempt), [job.id, attempt]);
  useEffect(() => feed.start(), [feed]);
  const version = useSyncExternalStore(feed.subscribe, feed.snapshot);
  const { store } = feed;
  const lines = store?.totalLines ?? 0;
  const { query, line, change } = useLogAddress();
  const scroller = useScroller(lines, line === null);
  const { following, follow } = scroller;
  const search = useLogSearch(job.id, store?.attempt ?? null, query, lines);
  const id = useId();

  useEffect(() => feed.want(scroller.first, scroller.last), [feed, version, scroller.first, scroller.last]);
  useShortcuts([{ keys: "f", label: "Follow the log", group: "Job", run: () => follow(!following) }]);
  const show = useEffectEvent((number: number) => scroller.showLine(number));
  const isLoaded = lines > 0;
  useEffect(() => {
    if (isLoaded && line !== null) show(line);
  }, [isLoaded, line]);

  const move = async (direction: 1 | -1) => {
    const found = await search.move(direction, scroller.last);
    if (found !== null) scroller.showLine(found);
  };
  const { hits, current } = search;
  const shown = hits !== null && current !== null ? hits.numbers[current]! : line;
  const places = job.attempts.map(({ number, backend }) => ({ number, place: backend }));
  const shownAttempt = store?.attempt || job.attempts.length;
  return (
    <section className={full ? "panel logs full" : "panel logs"} aria-labelledby={id}>
      <header>
        <h2 id={id}>Log</h2>
        <LogToolbar
          attempts={places}
          shownAttempt={shownAttempt}
          onAttempt={(number) => change({ log: number ?? undefined, line: undefined })}
          following={following}
          onFollow={follow}
          downloadHref={`/api/v1/training/${job.id}/logs/file?attempt=${Math.max(1, shownAttempt)}`}
          search={
            <LogSearchField
              query={query}
              search={search}
              onMove={(direction) => void move(direction)}
              onQuery={({ text, regex, matchCase }) =>
                change({
                  find: text || undefined,
                  find_regex: regex || undefined,
                  find_case: matchCase || undefined,
                })
              }
            />
          }
        />
      </header>
      {store !== null && lines > 0 ? (
        <LogLines
          scroller={scroller}
          store={store}
          version={version}
          job={job.id}
          find={query.regex ? "" : query.text}
          matchCase={query.matchCase}
          current={shown}
          onChoose={(number) => change({ line: number })}
        />
      ) : (
        <NoLines feed={feed} job={job} />
      )}
      <LogFooter store={store} complete={feed.complete} following={following} onFollow={follow} />
    </section>
  );
}

function NoLines({ feed, job }: { feed: LogFeed; job: LogJob }) {
  if (feed.error !== null) {
    return (
      <ErrorState title="The log could not be loaded" error={feed.error} onRetry={() => void feed.load()} />
    );
  }
  if (feed.store === null) return <Skeleton label="Loading the log" rows={4} />;
  if (isEnded(job.status) || feed.complete) {
    return (
      <EmptyState small title="No output">
        This attempt printed nothing.
      </EmptyState>
    );
  }
  return (
    <EmptyState small title="No output yet">
      What the script prints appears here as it runs.
    </EmptyState>
  );
}

interface LogFooterProps {
  store: LogStore | null;
  complete: boolean;
  following: boolean;
  onFollow: (following: boolean) => void;
}

function LogFooter({ store, complete, following, onFollow }: LogFooterProps) {
  const lines = store?.totalLines ?? 0;
  const [seen, setSeen] = useState(lines);
  if (following && seen !== lines) setSeen(lines);
  const fresh = following ? 0 : Math.max(0, lines - seen);
  return (
    <footer className="tiny">
      <span>
        {formatCount(lines)} {lines === 1 ? "line" : "lines"}, {formatBytes(store?.totalBytes ?? 0)}
      </span>
      <span className="push">
        {fresh > 0 && !complete ? (
          <Button look="quiet" className="small" onClick={() => onFollow(true)}>
            {plural(fresh, "new line")}
          </Button>
        ) : complete ? (
          "all output is here"
        ) : following ? (
          "following, newest at the bottom"
        ) : (
          "not following"
        )}
      </span>
    </footer>
  );
}
