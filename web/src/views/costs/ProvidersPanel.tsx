/** What a job would cost at each provider: a table with bars on one shared axis. */

import { Link } from "@tanstack/react-router";
import type { Schemas } from "@/api/client";
import { useSession } from "@/app/session";
import { formatDuration, formatMoney } from "@/lib/format";
import { WhiskerBar } from "@/ui/Progress";
import { EmptyState, ErrorState, Skeleton } from "@/ui/states";
import { useNewestJob, useProviders } from "@/views/costs/data";
import { axisEnd, formatTick } from "@/views/costs/days";
import { JobPicker } from "@/views/costs/JobPicker";

type Provider = Schemas["ComparedProvider"];
const VERDICTS: Record<string, string> = {
  cheapest: "Cheapest",
  fastest: "Fastest",
  balanced: "Best balance",
};
const PARTS = 4;

interface ProvidersPanelProps {
  job: string;
  onPick: (job: string) => void;
}

export function ProvidersPanel({ job, onPick }: ProvidersPanelProps) {
  const { can } = useSession();
  const newest = useNewestJob(job === "");
  const chosen = job || (newest.data?.jobs[0]?.id ?? "");
  const query = useProviders(chosen);
  const comparison = query.data;
  const hasNoJob = job === "" && newest.data?.jobs.length === 0;
  const error = query.error ?? newest.error;
  return (
    <section className="panel" aria-labelledby="costs-elsewhere">
      <header>
        <h2 id="costs-elsewhere">What it would cost elsewhere</h2>
        {!hasNoJob && <JobPicker name={comparison?.name ?? ""} chosen={chosen} onPick={onPick} />}
        <span className="sub">whole job, interruptions included; whisker: nine times in ten</span>
        {can("write") && (
          <Link className="link small" to="/new">
            Compare another workload
          </Link>
        )}
      </header>
      {hasNoJob && (
        <EmptyState small title="No job to compare yet" command="anygpu run train.py">
          Once the project has a job, this table shows what it would cost at each provider.
        </EmptyState>
      )}
      {error !== null && (
        <ErrorState
          title="The providers could not be compared"
          error={error}
          onRetry={() => void query.refetch()}
        />
      )}
      {comparison === undefined && error === null && !hasNoJob && <Skeleton label="Comparing providers" />}
      {comparison !== undefined && error === null && <Comparison comparison={comparison} />}
    </section>
  );
}

function Comparison({ comparison }: { comparison: Schemas["ProviderComparison"] }) {
  const { providers, more, basis, recommendation } = comparison;
  if (providers.length === 0) {
    return (
      <EmptyState small title="No provider has a machine that fits">
        The job asks for more than any machine in the catalog has. Its page lists the reasons.
      </EmptyState>
    );
  }
  const top = axisTop(providers);
  return (
    <>
      <div className="scroll-x" tabIndex={0} role="region" aria-label="Cost by provider">
        <table className="tbl provtbl">
          <thead>
            <tr>
              <th>Provider</th>
              <th>GPU</th>
              <th className="num">Per hour</th>
              <th className="pb">
                <span className="sr">Total with interval</span>
                <span className="ax4" aria-hidden="true">
                  {Array.from({ length: PARTS + 1 }, (_, part) => (
                    <i key={part}>{formatTick((top / PARTS) * part)}</i>
                  ))}
                </span>
              </th>
              <th className="num sorted" aria-sort="ascending">
                Total
              </th>
              <th className="num">Time</th>
              <th>Available</th>
              <th>Features</th>
            </tr>
          </thead>
          <tbody>
            {providers.map((each, index) => (
              <ProviderRow key={index} provider={each} top={top} />
            ))}
          </tbody>
        </table>
      </div>
      <p className="prov-note t3 small">
        {recommendation !== "" && <>Recommended: {recommendation}. </>}
        {basis === "nothing" &&
          "How long the job takes is not known, so times and totals are rough guesses. "}
        {more > 0 && `${more} more kinds of machines are not listed.`}
      </p>
    </>
  );
}

function ProviderRow({ provider: each, top }: { provider: Provider; top: number }) {
  const { expected, low, high } = each.total_microusd;
  const stands = each.verdict !== "" || each.recommended;
  const nodes = each.nodes ?? 1;
  const gpu = nodes > 1 ? `${nodes} nodes × ${gpuText(each)}` : gpuText(each);
  const price =
    each.own && each.price_microusd_per_hour === 0
      ? "own"
      : formatMoney(each.price_microusd_per_hour * nodes);
  const unavailable = each.availability === "no_account" || each.availability === "unsupported";
  return (
    <tr className={unavailable ? "cat" : undefined}>
      <td className="two">
        <span className="prov-name">
          <b className="med">{each.provider}</b> <Verdict provider={each} />
        </span>
        <small>
          <span className="desk cut" title={each.machine}>
            {each.machine}
          </span>
          <span className="mob">
            {each.gpu || "no GPU"}, {price}
            {price === "own" ? "" : "/h"}
          </span>
        </small>
      </td>
      <td className="nowrap">{gpu}</td>
      <td className="num">{price}</td>
      <td className="pb">
        <WhiskerBar
          expected={expected / top}
          low={low / top}
          high={high / top}
          color={stands ? "--c1" : "--c-rest"}
        />
      </td>
      <td className="num med" title={`${formatMoney(low)} – ${formatMoney(high)}`}>
        {formatMoney(expected)}
      </td>
      <td className="num nowrap">{formatDuration(each.seconds.expected)}</td>
      <td className={unavailable ? "t3" : undefined} title={each.available}>
        <span className="cut">{each.available}</span>
      </td>
      <td className="t2" title={each.features.join(", ")}>
        <span className="cut">{each.features.join(", ")}</span>
      </td>
    </tr>
  );
}

function Verdict({ provider: each }: { provider: Provider }) {
  const text = VERDICTS[each.verdict] ?? (each.recommended ? "Recommended" : "");
  if (text === "") return null;
  return <span className={each.verdict === "cheapest" ? "verdict best" : "verdict"}>{text}</span>;
}

function gpuText({ gpu, gpus, gpu_memory_gib }: Provider): string {
  if (gpu === "") return "no GPU";
  const memory = gpu_memory_gib > 0 ? ` ${Math.round(gpu_memory_gib)}\u00a0GB` : "";
  return gpus > 1 ? `${gpus} × ${gpu}${memory}` : `${gpu}${memory}`;
}

/** The end of the axis: all expected totals fit, and their intervals unless they are far wider. */
function axisTop(providers: readonly Provider[]): number {
  const expected = Math.max(...providers.map((each) => each.total_microusd.expected));
  const high = Math.max(...providers.map((each) => each.total_microusd.high));
  return axisEnd(Math.min(high, expected * 1.5), PARTS);
}
