/** The right side: facts, limits, the chart of cost against time, and the ranked offers. */

import { plural, formatCount, formatMoney } from "@/lib/format";
import { Announcement } from "@/ui/Announcement";
import { Segmented, Switch, TextField } from "@/ui/controls";
import { Callout, EmptyState, ErrorState } from "@/ui/states";
import type { Draft, Strategy } from "@/views/new/draft";
import {
  chosenOffer,
  cheapest,
  countOffers,
  isBudgetTooLow,
  offerSummary,
  offerTitle,
  type Offer,
  type Plan,
} from "@/views/new/offers";
import { pinOf } from "@/views/new/offers";
import { Facts } from "@/views/new/plan/Facts";
import { Limits } from "@/views/new/plan/Limits";
import { OfferTable } from "@/views/new/plan/OfferTable";
import { ProviderFilter } from "@/views/new/plan/ProviderFilter";
import { Rejected } from "@/views/new/plan/Rejected";
import { Scatter } from "@/views/new/plan/Scatter";
import { isRunnable } from "@/views/new/spec";
import type { PlanState } from "@/views/new/usePlan";

const CHOICES: readonly { value: Strategy; label: string }[] = [
  { value: "cheapest", label: "Cheapest" },
  { value: "fastest", label: "Fastest" },
  { value: "balanced", label: "Balanced" },
  { value: "preferred", label: "Preferred" },
  { value: "queue", label: "Queue" },
];

export interface PlanPaneProps {
  draft: Draft;
  update: (change: (draft: Draft) => Draft) => void;
  planned: PlanState;
  providers: readonly string[];
  onProviders: (providers: readonly string[]) => void;
  onShowLine: (file: string, line: number) => void;
}

export function PlanPane(props: PlanPaneProps) {
  const { draft, update, planned } = props;
  const { plan } = planned;
  return (
    <>
      <header className="pbar">
        <h2>Plan</h2>
        <span className="t3 small nowrap upd">{plan !== null && countText(plan, planned)}</span>
        <Announcement text={plan === null || planned.updating ? "" : announcementOf(plan, draft)} />
        <span className="push">
          <Segmented
            label="Strategy"
            value={draft.strategy}
            choices={CHOICES}
            onChange={(strategy) => update((current) => ({ ...current, strategy, pin: null }))}
          />
        </span>
      </header>
      {/* The region scrolls by itself, so that the keyboard must reach it. */}
      <div className="plan" tabIndex={0} role="region" aria-label="Offers" aria-busy={planned.updating}>
        {planned.problem !== null && <PlanProblem planned={planned} />}
        {plan === null ? <NoPlan draft={draft} planned={planned} /> : <PlanBody {...props} plan={plan} />}
      </div>
    </>
  );
}

function countText(plan: Plan, planned: PlanState): string {
  if (planned.updating) return "Comparing offers";
  const { compared, fitting } = countOffers(plan);
  return `${plural(compared, "offer")} compared, ${formatCount(fitting)} fit`;
}

/** A completed plan in one sentence, for screen readers. */
function announcementOf(plan: Plan, draft: Draft): string {
  const { compared, fitting } = countOffers(plan);
  const chosen = chosenOffer(plan, draft);
  const best = chosen === null ? "None can be used now." : `The job would run on ${offerSummary(chosen)}.`;
  return `Plan: ${plural(compared, "offer")} compared, ${formatCount(fitting)} fit. ${best}`;
}

const FIRST_STEPS: Record<Draft["source"], string> = {
  code: "Write or drop a script.",
  trainer: "Choose a trainer and a dataset.",
  command: "Write a command.",
};

function NoPlan({ draft, planned }: { draft: Draft; planned: PlanState }) {
  if (planned.problem !== null) return null;
  if (!isRunnable(draft)) {
    return (
      <EmptyState title="No plan yet" small>
        {FIRST_STEPS[draft.source]} Machines, costs and times are compared here as you type.
      </EmptyState>
    );
  }
  return <p className="t3 plan-wait">Comparing offers</p>;
}

/** An invalid job keeps its last plan. The message says what to change. */
function PlanProblem({ planned }: { planned: PlanState }) {
  const { problem } = planned;
  if (problem === null) return null;
  const details = problem.body.problems ?? [];
  if (problem.status !== 422) return <ErrorState title="The plan could not be made" error={problem} />;
  return (
    <Callout tone="warn">
      <p>
        {planned.plan === null ? "The job cannot be planned yet." : "This is the plan of the last valid job."}
      </p>
      {details.slice(0, 5).map((each) => (
        <p key={each.place + each.message}>
          {each.place !== "" && <code>{each.place}</code>} {each.message}
          {each.suggestion ? `; ${each.suggestion}` : ""}
        </p>
      ))}
      {details.length === 0 && <p>{problem.message}</p>}
    </Callout>
  );
}

function PlanBody(props: PlanPaneProps & { plan: Plan }) {
  const { draft, update, plan, providers, onProviders, onShowLine } = props;
  const choose = (offer: Offer) => update((current) => ({ ...current, pin: pinOf(offer) }));
  const chosen = chosenOffer(plan, draft);
  return (
    <>
      <Facts plan={plan} onShowLine={onShowLine} />
      {draft.strategy === "preferred" && (
        <TextField
          label="Backends in order of preference"
          showLabel
          value={draft.order}
          placeholder={(plan.compared ?? [])
            .filter((each) => each.configured)
            .map((each) => each.backend)
            .join(", ")}
          onChange={(order) => update((current) => ({ ...current, order }))}
        />
      )}
      <Limits draft={draft} update={update} plan={plan} />
      {isBudgetTooLow(plan, draft.budgetMicrousd) && <TooLow plan={plan} draft={draft} update={update} />}
      {plan.unknown?.map((text) => (
        <Callout key={text} tone="warn">
          {text}
        </Callout>
      ))}
      <Scatter plan={plan} draft={draft} chosen={chosen} onChoose={choose} />
      <div className="offers-bar">
        <ProviderFilter plan={plan} chosen={providers} onChange={onProviders} />
        <Switch
          label="Allow machines that cost money"
          checked={draft.paid}
          onChange={(paid) => update((current) => ({ ...current, paid }))}
        />
      </div>
      <OfferTable
        plan={plan}
        draft={draft}
        chosen={chosen}
        onChoose={choose}
        onUnpin={() => update((current) => ({ ...current, pin: null }))}
      />
      <Rejected plan={plan} />
    </>
  );
}

/** The budget pays for no offer: name the cheapest, and offer to raise the budget to it. */
function TooLow({ plan, draft, update }: Pick<PlanPaneProps, "draft" | "update"> & { plan: Plan }) {
  const least = cheapest(plan);
  if (least === null) return null;
  const cost = least.cost_microusd.expected;
  const raise = Math.ceil(cost / 100_000) * 100_000 + 500_000;
  return (
    <Callout
      tone="warn"
      actions={
        <button
          type="button"
          className="btn"
          onClick={() => update((current) => ({ ...current, budgetMicrousd: raise }))}
        >
          Raise to {formatMoney(raise)}
        </button>
      }
    >
      <p>
        The budget of {formatMoney(draft.budgetMicrousd ?? 0)} pays for no rented machine. The cheapest is{" "}
        {offerTitle(least)} with about {formatMoney(cost)}.
      </p>
    </Callout>
  );
}
