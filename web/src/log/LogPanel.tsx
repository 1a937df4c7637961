import { useEffect, useEffectEvent, useId, useMemo, useState, useSyncExternalStore } from "react";
import type { Schemas } from "@/api/client";
import { useShortcuts } from "@/app/shortcuts";
import { formatBytes, formatCount, plural } from "@/lib/format";
import { LogFeed } from "@/log/feed";
import { LogLines } from "@/log/LogLines";
import { LogSearchField, LogToolbar } from "@/log/LogToolbar";
import { logNodes, shownNode } from "@/log/nodes";
import { useLogAddress } from "@/log/useLogAddress";
import { useScroller } from "@/log/useScroller";
import { useLogSearch } from "@/log/useSearch";
import { Button } from "@/ui/Button";
import { EmptyState, ErrorState, Skeleton } from "@/ui/states";
import { isEnded } from "@/ui/Status";
import "./log.css";

type LogJob = Pick<Schemas["JobDetails"], "id" | "name" | "status"> & {
  attempts: readonly Pick<Schemas["AttemptDetails"], "number" | "backend" | "nodes" | "processes_per_node">[];
};

interface LogPanelProps {
  job: LogJob;
  /** Fill the height of the window instead of a part of the page. */
  full?: boolean;
}

/** The log of a job: of the newest attempt and node 0, or of those that the address names. */
export function LogPanel({ job, full = false }: LogPanelProps) {
  const { attempt, node } = useLogAddress();
  const chosen = attempt !== null && attempt <= job.attempts.length ? attempt : null;
  const shown = shownNode(job, chosen, node);
  return (
    <AttemptLog
      key={`${job.id} ${chosen ?? ""} ${shown}`}
      job={job}
      attempt={chosen}
      node={shown}
      full={full}
    />
  );
}

interface AttemptLogProps {
  job: LogJob;
  attempt: number | null;
  node: number;
  full: boolean;
}

function AttemptLog({ job, attempt, node, full }: AttemptLogProps) {
  const feed = useMemo(() => new LogFeed({ job: job.id, attempt, node }), [job.id, attempt, node]);
  useEffect(() => feed.start(), [feed]);
  const version = useSyncExternalStore(feed.subscribe, feed.snapshot);
  const { store } = feed;
  const lines = store?.totalLines ?? 0;
  const { query, line, change } = useLogAddress();
  const scroller = useScroller(lines, line === null);
  const { following, follow } = scroller;
  const extent = { lines, complete: store?.completeLines ?? 0, bytes: store?.totalBytes ?? 0 };
  const search = useLogSearch({ ...feed.source, attempt: store?.attempt ?? null }, query, extent);
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
  const logHref = `/api/v1/training/${encodeURIComponent(job.id)}/logs`;
  const parameters = `attempt=${Math.max(1, shownAttempt)}${node > 0 ? `&node=${node}` : ""}`;
  return (
    <section className={full ? "panel logs full" : "panel logs"} aria-labelledby={id}>
      <header>
        <h2 id={id}>Log</h2>
        <LogToolbar
          attempts={places}
          shownAttempt={shownAttempt}
          onAttempt={(number) => change({ log: number ?? undefined, line: undefined })}
          nodes={logNodes(job, shownAttempt)}
          shownNode={node}
          onNode={(number) => change({ node: number || undefined, line: undefined })}
          following={following}
          onFollow={follow}
          downloadHref={`${logHref}/file?${parameters}`}
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
          bytesHref={`${logHref}?${parameters}`}
          find={query.regex ? "" : query.text}
          matchCase={query.matchCase}
          current={shown}
          onChoose={(number) => change({ log: store.attempt, line: number })}
        />
      ) : (
        <NoLines feed={feed} job={job} />
      )}
      <LogFooter feed={feed} following={following} onFollow={follow} />
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
  feed: LogFeed;
  following: boolean;
  onFollow: (following: boolean) => void;
}

function LogFooter({ feed, following, onFollow }: LogFooterProps) {
  const { store, complete, stopped } = feed;
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
        ) : stopped ? (
          <>
            new output is not shown
            <Button look="quiet" className="small" onClick={() => void feed.load()}>
              Load it again
            </Button>
          </>
        ) : following ? (
          "following, newest at the bottom"
        ) : (
          "not following"
        )}
      </span>
    </footer>
  );
}
