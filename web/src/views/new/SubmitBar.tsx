/** The bar below the plan: copy the job as text, what it costs and where it runs, and the button that submits it. */

import { useState } from "react";
import { useSession } from "@/app/session";
import { formatBytes, formatDuration, formatMoney, formatPrice } from "@/lib/format";
import { Button } from "@/ui/Button";
import { Callout } from "@/ui/states";
import { CopyDialog, type TextKind } from "@/views/new/CopyDialog";
import type { Draft } from "@/views/new/draft";
import { chosenOffer, isPaid, offerTitle, type Plan } from "@/views/new/offers";
import { fieldOfPlace, isRunnable } from "@/views/new/spec";
import type { PlanState } from "@/views/new/usePlan";
import type { Submission } from "@/views/new/useSubmit";

const KINDS: readonly { kind: TextKind; label: string }[] = [
  { kind: "cli", label: "CLI" },
  { kind: "yaml", label: "YAML" },
  { kind: "python", label: "Python" },
];
const isMac = /mac/i.test(navigator.userAgent);

interface SubmitBarProps {
  draft: Draft;
  planned: PlanState;
  submission: Submission;
}

export function SubmitBar({ draft, planned, submission }: SubmitBarProps) {
  const { can } = useSession();
  const [copied, setCopied] = useState<TextKind | null>(null);
  const reason = blockedReason(draft, planned.plan);
  return (
    <>
      <SubmitProblem submission={submission} />
      <footer className="submit">
        <div className="copyas">
          <span className="t3 small">Copy as</span>
          {KINDS.map(({ kind, label }) => (
            <Button key={kind} look="quiet" disabled={!isRunnable(draft)} onClick={() => setCopied(kind)}>
              {label}
            </Button>
          ))}
        </div>
        <p className="sumline" role={submission.state === null ? undefined : "status"}>
          <Summary draft={draft} plan={planned.plan} submission={submission} />
        </p>
        {can("write") ? (
          <Button
            look="primary"
            large
            shortcut={isMac ? "⌘↵" : "Ctrl ↵"}
            disabled={reason !== "" || submission.state !== null}
            title={reason || undefined}
            onClick={submission.submit}
          >
            Submit
          </Button>
        ) : (
          <span className="t3 small">Your role may plan jobs, not submit them</span>
        )}
      </footer>
      {copied !== null && <CopyDialog draft={draft} first={copied} onClose={() => setCopied(null)} />}
    </>
  );
}

/** Say why the job cannot be submitted, or return an empty text. */
export function blockedReason(draft: Draft, plan: Plan | null): string {
  if (!isRunnable(draft)) {
    const what = { code: "Write or add a script", trainer: "Choose a trainer", command: "Write a command" };
    return `${what[draft.source]} first`;
  }
  if (plan === null || draft.pin !== null || draft.paid || draft.strategy === "queue") return "";
  if (chosenOffer(plan, draft) !== null) return "";
  return "No machine of your own fits: choose an offer, or allow machines that cost money";
}

function Summary({ draft, plan, submission }: { draft: Draft; plan: Plan | null; submission: Submission }) {
  if (submission.state === "files") {
    const { progress } = submission;
    if (progress === null || progress.totalBytes === 0) return "Sending files";
    return `Sending files, ${formatBytes(progress.sentBytes)} of ${formatBytes(progress.totalBytes)}`;
  }
  if (submission.state === "job") return "Submitting";
  const reason = blockedReason(draft, plan);
  if (reason !== "") return <span className="t2">{reason}</span>;
  const offer = plan === null ? null : chosenOffer(plan, draft);
  if (offer === null) {
    return (
      <span className="t2">{draft.strategy === "queue" ? "Waits for a free machine of your own" : ""}</span>
    );
  }
  const cost = isPaid(offer) ? formatMoney(offer.cost_microusd.expected) : "No cost";
  const price = isPaid(offer) ? `, ${formatPrice(offer.price_microusd_per_hour)}` : "";
  return (
    <>
      <b>{cost}</b>{" "}
      <span className="t2">
        about {formatDuration(offer.seconds.expected)} on {offerTitle(offer)}
        {price}
      </span>
    </>
  );
}

/** Errors that belong to no field of the form, and how many do. */
function SubmitProblem({ submission }: { submission: Submission }) {
  const { problem } = submission;
  if (problem === null) return null;
  const all = problem.body.problems ?? [];
  const others = all.filter((each) => fieldOfPlace(each.place) === null);
  const atFields = all.length - others.length;
  return (
    <div className="submit-problem">
      <Callout tone="bad" actions={<Button onClick={submission.dismiss}>Dismiss</Button>}>
        <p>
          <b>The job was not submitted.</b>{" "}
          {all.length === 0 && `${problem.message} ${problem.body.hint ?? ""}`}
          {atFields > 0 &&
            `${atFields === 1 ? "One field needs" : `${atFields} fields need`} a change, see the form.`}
        </p>
        {others.map((each) => (
          <p key={each.place + each.message}>
            {each.place !== "" && <code>{each.place}</code>} {each.message}
            {each.suggestion ? `; ${each.suggestion}` : ""}
          </p>
        ))}
      </Callout>
    </div>
  );
}
