/** New job: code, trainer or command on the left, and the plan beside it, which follows every change. */

import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useState } from "react";
import { useSession } from "@/app/session";
import { useShortcuts } from "@/app/shortcuts";
import { PageTitle } from "@/app/TopBar";
import { Icon } from "@/ui/Icon";
import { ErrorState, Skeleton } from "@/ui/states";
import { SOURCES, isSameDraft, type Draft, type Source } from "@/views/new/draft";
import { draftKey, forgetDraft, saveDraft } from "@/views/new/draft-storage";
import { applyFix, type Fix } from "@/views/new/fixes";
import { PlanPane } from "@/views/new/plan/PlanPane";
import { SourcePane } from "@/views/new/source/SourcePane";
import { withText } from "@/views/new/draft";
import { useDraft, type OpenedDraft } from "@/views/new/useDraft";
import { usePlan } from "@/views/new/usePlan";
import { fieldErrors, useSubmit } from "@/views/new/useSubmit";
import { blockedReason, SubmitBar } from "@/views/new/SubmitBar";
import "@/views/new/new.css";
import "@/views/new/plan/plan.css";

interface NewSearch {
  from?: string;
  source?: Source;
  provider?: string[];
}

/** Read the search parameters. Values that the page does not know are ignored. */
function parseSearch(search: Record<string, unknown>): NewSearch {
  const { from, source, provider } = search;
  const providers = (Array.isArray(provider) ? provider : [provider]).filter(
    (each) => typeof each === "string",
  );
  return {
    ...(typeof from === "string" || typeof from === "number" ? { from: String(from) } : {}),
    ...(SOURCES.some((each) => each === source) ? { source: source as Source } : {}),
    ...(providers.length > 0 ? { provider: providers } : {}),
  };
}

export default function NewPage() {
  const raw = useSearch({ strict: false }) as Record<string, unknown>;
  const { from } = parseSearch(raw);
  const loaded = useDraft(from);
  return (
    <>
      <PageTitle text={from === undefined ? "New job" : "Clone a job"}>
        <nav className="crumb" aria-label="Breadcrumb">
          <Link to="/jobs">Jobs</Link>
          <Icon name="chevronRight" size={12} />
          <h1 className="crumb-h1">{from === undefined ? "New job" : "Clone a job"}</h1>
        </nav>
      </PageTitle>
      {loaded.error !== null && (
        <ErrorState title="The job could not be loaded" error={loaded.error} onRetry={loaded.retry} />
      )}
      {loaded.opened === null && loaded.error === null && <Skeleton label="Loading the job" />}
      {loaded.opened !== null && (
        <NewJob
          key={`${draftKey(from)} ${loaded.version}`}
          from={from}
          opened={loaded.opened}
          search={parseSearch(raw)}
          onRestart={loaded.restart}
        />
      )}
    </>
  );
}

interface NewJobProps {
  from: string | undefined;
  opened: OpenedDraft;
  search: NewSearch;
  onRestart: () => void;
}

const SAVE_MS = 400;
const NO_PROVIDERS: readonly string[] = [];

function NewJob({ from, opened, search, onRestart }: NewJobProps) {
  const navigate = useNavigate();
  const { can } = useSession();
  const key = draftKey(from);
  const [stored, setDraft] = useState(opened.draft);
  const draft = useMemo(
    () => (search.source === undefined ? stored : { ...stored, source: search.source }),
    [stored, search.source],
  );
  const [jump, setJump] = useState<{ line: number; count: number } | null>(null);
  const providers = search.provider ?? NO_PROVIDERS;
  const planned = usePlan(draft, providers);
  const submission = useSubmit(draft, key);
  const kept = useKeptDraft(key, draft, opened);

  const update = useCallback((change: (draft: Draft) => Draft) => setDraft(change), []);
  const setSearch = (change: Partial<NewSearch>) =>
    void navigate({ to: "/new", replace: true, search: { ...search, ...change } as never });
  const showLine = (file: string, line: number) => {
    setSearch({ source: "code" });
    update((current) =>
      current.files.some((each) => each.path === file) ? { ...current, open: file } : current,
    );
    setJump((last) => ({ line, count: (last?.count ?? 0) + 1 }));
  };
  const fix = (each: Fix) => update((current) => withFix(current, each));
  const submit = () => {
    if (can("write") && blockedReason(draft, planned.plan) === "") submission.submit();
  };
  useShortcuts([{ keys: "mod+enter", label: "Submit the job", group: "New job", run: submit }]);

  return (
    <div className="new-page">
      <SourcePane
        draft={draft}
        kept={kept}
        changed={from === undefined || opened.changedAt === null ? null : { at: opened.changedAt, onRestart }}
        update={update}
        plan={planned}
        jump={jump}
        errors={{ ...fieldErrors(planned.problem), ...submission.errors }}
        onSource={(source) => {
          update((current) => ({ ...current, source }));
          setSearch({ source });
        }}
        onFix={fix}
        onSubmit={submit}
      />
      <section className="pane pl" aria-label="Plan">
        <PlanPane
          draft={draft}
          update={update}
          planned={planned}
          providers={providers}
          onProviders={(next) => setSearch({ provider: next.length > 0 ? [...next] : undefined })}
          onShowLine={showLine}
        />
        <SubmitBar draft={draft} planned={planned} submission={submission} />
      </section>
    </div>
  );
}

function withFix(draft: Draft, fix: Fix): Draft {
  let next = draft;
  for (const path of new Set(fix.edits.map((edit) => edit.file))) {
    const file = draft.files.find((each) => each.path === path);
    const text = file?.text == null ? null : applyFix(file.text, path, fix);
    if (text === null) return draft;
    next = withText(next, path, text);
  }
  return next;
}

/**
 * Keep the draft in the browser a moment after each change, and when the page is left. Return whether it fits.
 * A draft without changes is not kept: the next clone of the job starts with the job.
 */
function useKeptDraft(key: string, draft: Draft, opened: OpenedDraft): boolean {
  const [kept, setKept] = useState(true);
  useEffect(() => {
    if (draft === opened.draft) return;
    const save = () => {
      const isUnchanged = opened.changedAt === null && isSameDraft(draft, opened.draft);
      if (isUnchanged) forgetDraft(key);
      setKept(isUnchanged || saveDraft(key, draft));
    };
    const timer = setTimeout(save, SAVE_MS);
    window.addEventListener("pagehide", save);
    return () => {
      clearTimeout(timer);
      window.removeEventListener("pagehide", save);
    };
  }, [key, draft, opened]);
  return kept;
}
