import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap, type Schemas } from "@/api/client";
import { formatDuration, formatMoney, formatNodesPrice, plural } from "@/lib/format";
import { Button } from "@/ui/Button";
import { IntervalBar } from "@/ui/Progress";
import { EmptyState, ErrorState, Skeleton } from "@/ui/states";
import { planKey } from "@/views/job/data";
import type { Job } from "@/views/job/merge";
import { placeHistory } from "@/views/job/tabs/plan";

type PlanDetails = Schemas["JobPlanDetails"];
type Prediction = Schemas["JobPrediction"];
type PlannedOffer = Schemas["PlannedOffer"];

const SHOWN_OFFERS = 10;
const CENT = 10_000;

/** Why the job runs where it runs, and how good the predictions were. */
export function PlanTab({ job }: { job: Job }) {
  const query = useQuery({
    queryKey: planKey(job.id),
    queryFn: () => unwrap(api.GET("/api/v1/training/{ref}/plan", { params: { path: { ref: job.id } } })),
  });
  if (query.data === undefined) {
    return query.error === null ? (
      <Skeleton label="Loading the plan" />
    ) : (
      <ErrorState
        title="The plan could not be loaded"
        error={query.error}
        onRetry={() => void query.refetch()}
      />
    );
  }
  const details = query.data;
  if (details.plan === null && details.predicted === null && details.newest === null) {
    return job.status === "queued" ? (
      <EmptyState small title="No plan yet">
        The offers are compared when the job is scheduled.
      </EmptyState>
    ) : (
      <EmptyState small title="No offers were compared">
        The job did not have to choose: a machine of yours that it may use was free.
      </EmptyState>
    );
  }
  return (
    <>
      <PredictionsPanel job={job} details={details} />
      {details.plan !== null && <OffersPanel job={job} plan={details.plan} />}
      {details.plan !== null && details.plan.rejected.length > 0 && <RejectedPanel plan={details.plan} />}
    </>
  );
}

interface Row {
  name: string;
  note: string;
  time: { value: number; low: number; high: number };
  cost: { value: number; low: number; high: number };
  sure: string;
}

function predictionRow(name: string, prediction: Prediction): Row {
  return {
    name,
    note: `from ${prediction.basis}`,
    time: { value: prediction.wall_s, low: prediction.wall_low_s, high: prediction.wall_high_s },
    cost: {
      value: prediction.cost_microusd,
      low: prediction.cost_low_microusd,
      high: prediction.cost_high_microusd,
    },
    sure: prediction.confidence,
  };
}

function predictionRows({ predicted, newest, actual }: PlanDetails): Row[] {
  const rows: Row[] = [];
  if (predicted !== null) rows.push(predictionRow("Before it ran", predicted));
  if (newest !== null && newest.basis !== predicted?.basis) rows.push(predictionRow("Newest", newest));
  if (actual !== null) {
    const exactly = (value: number) => ({ value, low: value, high: value });
    rows.push({
      name: "Actual",
      note: "measured",
      time: exactly(actual.seconds),
      cost: exactly(actual.cost_microusd),
      sure: "",
    });
  }
  return rows;
}

function PredictionsPanel({ job, details }: { job: Job; details: PlanDetails }) {
  const rows = predictionRows(details);
  const longest = Math.max(1, ...rows.map((row) => row.time.high));
  const dearest = Math.max(CENT, job.cost_microusd, ...rows.map((row) => row.cost.high));
  if (rows.length === 0) return null;
  return (
    <section className="panel">
      <header>
        <h2>Predicted and actual</h2>
        <span className="sub">nine times in ten the result lies in the band</span>
      </header>
      <div className="scroll-x" tabIndex={0} role="region" aria-label="Predictions">
        <table className="tbl wide">
          <thead>
            <tr>
              <th>Prediction</th>
              <th className="num">Time</th>
              <th className="rng">0 to {formatDuration(longest)}</th>
              <th className="num">Cost</th>
              <th className="rng">$0 to {formatMoney(dearest)}</th>
              <th>Confidence</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.name}>
                <td className="two">
                  <b className="med">{row.name}</b>
                  <small>{row.note}</small>
                </td>
                <ValueCells value={row.time} format={formatDuration} scale={longest} />
                <ValueCells value={row.cost} format={formatMoney} scale={dearest} />
                <td>{row.sure}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

interface ValueCellsProps {
  value: Row["time"];
  format: (value: number) => string;
  scale: number;
}

function ValueCells({ value, format, scale }: ValueCellsProps) {
  const isExact = value.low === value.high;
  return (
    <>
      <td className="num two">
        {format(value.value)}
        <small>{isExact ? "" : `${format(value.low)} – ${format(value.high)}`}</small>
      </td>
      <td className="rng">
        <IntervalBar low={value.low / scale} expected={value.value / scale} high={value.high / scale} />
      </td>
    </>
  );
}

function OffersPanel({ job, plan }: { job: Job; plan: Schemas["JobPlan"] }) {
  const [all, setAll] = useState(false);
  const shown = all ? plan.offers : plan.offers.slice(0, SHOWN_OFFERS);
  const rejected = plan.rejected.reduce((total, each) => total + each.offers, 0);
  const fit = plan.offers.length + plan.more_offers;
  return (
    <section className="panel">
      <header>
        <h2>Why there</h2>
        <span className="sub">
          strategy {plan.strategy}, {plural(fit + rejected, "offer")} compared, {fit} fit
        </span>
      </header>
      <div className="scroll-x" tabIndex={0} role="region" aria-label="Ranked offers">
        <table className="tbl wide">
          <thead>
            <tr>
              <th className="num">Rank</th>
              <th>Offer</th>
              <th>GPU</th>
              <th className="num">Per hour</th>
              <th className="num">Whole job</th>
              <th className="num">Time</th>
              <th>What happened</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((offer, index) => (
              <OfferRow key={offerKey(offer)} rank={index + 1} offer={offer} job={job} />
            ))}
          </tbody>
        </table>
      </div>
      {plan.offers.length > shown.length && (
        <footer className="panel-foot">
          <Button look="quiet" onClick={() => setAll(true)}>
            Show all {plan.offers.length} offers
          </Button>
        </footer>
      )}
    </section>
  );
}

function offerKey(offer: PlannedOffer): string {
  return [offer.backend, offer.name, offer.region, offer.zone, offer.interruptible].join("|");
}

function OfferRow({ rank, offer, job }: { rank: number; offer: PlannedOffer; job: Job }) {
  const machine = offer.gpus > 1 ? `${offer.gpus} × ${offer.gpu}` : offer.gpu || "none";
  const gpu = (offer.nodes ?? 1) > 1 ? `${offer.nodes} nodes × ${machine}` : machine;
  const { seconds, cost_microusd: cost } = offer;
  return (
    <tr>
      <td className="num t3">{rank}</td>
      <td className="two">
        <b className="med">{offer.backend}</b>
        <small>
          {[`${offer.name}${offer.interruptible ? " spot" : ""}`, offer.zone || offer.region]
            .filter(Boolean)
            .join(", ")}
        </small>
      </td>
      <td>{gpu}</td>
      <td className="num">{formatNodesPrice(offer)}</td>
      <td className="num two">
        {formatMoney(cost.expected)}
        <small>
          {formatMoney(cost.low)} – {formatMoney(cost.high)}
        </small>
      </td>
      <td className="num two">
        {formatDuration(seconds.expected)}
        <small>
          {formatDuration(seconds.low)} – {formatDuration(seconds.high)}
        </small>
      </td>
      <td className="t2">
        {placeHistory(job, offer) || [...offer.cons, ...offer.pros].slice(0, 2).join("; ")}
      </td>
    </tr>
  );
}

function RejectedPanel({ plan }: { plan: Schemas["JobPlan"] }) {
  return (
    <section className="panel">
      <header>
        <h2>Rejected offers</h2>
        <span className="sub">
          {plural(
            plan.rejected.reduce((total, each) => total + each.offers, 0),
            "offer",
          )}
        </span>
      </header>
      <ul className="rejected">
        {plan.rejected.map((each) => (
          <li key={each.reason}>
            <b className="num">{each.offers}</b>
            <span>{each.reason}</span>
            <small className="t3">{exampleNames(each.examples)}</small>
          </li>
        ))}
      </ul>
    </section>
  );
}

function exampleNames(offers: readonly Schemas["OfferIdentity"][]): string {
  const names = offers.map((offer) => [offer.backend, offer.name].filter(Boolean).join(" "));
  return [...new Set(names)].join(", ");
}
