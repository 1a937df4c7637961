import { useState } from "react";
import { asProblem } from "@/api/client";
import { useSession } from "@/app/session";
import { formatCount, formatMoney, formatPrice, plural } from "@/lib/format";
import { Button } from "@/ui/Button";
import { ConfirmDialog } from "@/ui/Dialog";
import { Icon } from "@/ui/Icon";
import { Menu, type MenuItem } from "@/ui/Menu";
import { ErrorState, Skeleton } from "@/ui/states";
import { StatusIcon } from "@/ui/Status";
import { RelativeTime } from "@/ui/Time";
import {
  useBackends,
  useChecks,
  useMachines,
  useRemoveBackend,
  type BackendEntry,
  type CheckResult,
} from "@/views/machines/data";

/** Configured backends with their health and last error. */
export function BackendsPanel({ onAdd }: { onAdd: () => void }) {
  const { can } = useSession();
  const query = useBackends();
  const { results, check } = useChecks();
  const backends = query.data?.backends ?? [];
  return (
    <section className="panel" aria-labelledby="backends">
      <header>
        <h2 id="backends">Backends</h2>
        {can("write") && (
          <Button
            look="quiet"
            icon="refresh"
            disabled={check.isPending}
            onClick={() => backends.forEach((each) => check.mutate(each.name))}
          >
            Check all
          </Button>
        )}
        {can("admin") && (
          <Button icon="plus" onClick={onAdd}>
            Add a backend
          </Button>
        )}
      </header>
      {query.data === undefined && query.error === null && <Skeleton label="Loading backends" rows={3} />}
      {query.error !== null && (
        <ErrorState
          title="The backends could not be listed"
          error={query.error}
          onRetry={() => void query.refetch()}
        />
      )}
      {query.data && (
        <div className="scroll-x" tabIndex={0} role="region" aria-label="Table of backends">
          <table className="tbl back">
            <thead>
              <tr>
                <th>Backend</th>
                <th>Health</th>
                <th className="num">Checked</th>
                <th className="num">Used</th>
                <th className="num">Balance</th>
                <th className="num">Offers</th>
                <th>Cheapest GPU</th>
                <th>Problem</th>
                <th>
                  <span className="sr">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {backends.map((each) => (
                <BackendRow
                  key={each.name}
                  backend={each}
                  result={results[each.name]}
                  checking={check.isPending && check.variables === each.name}
                  onCheck={() => check.mutate(each.name)}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

interface BackendRowProps {
  backend: BackendEntry;
  result: CheckResult | undefined;
  checking: boolean;
  onCheck: () => void;
}

function BackendRow({ backend, result, checking, onCheck }: BackendRowProps) {
  const { can } = useSession();
  const machines = useMachines().data?.machines.filter((each) => each.backend === backend.name).length ?? 0;
  const most = backend.options.max_machines;
  const report = result?.report;
  const cheapest = report?.cheapest_gpu;
  return (
    <tr>
      <td className="two">
        <b className="med">{backend.name}</b>
        <small>{backend.kind}</small>
      </td>
      <td>
        <Health backend={backend} result={result} />
      </td>
      <td className="num t2">{result ? <RelativeTime at={new Date(result.at).toISOString()} /> : "–"}</td>
      <td className="num">{typeof most === "number" ? `${machines} of ${most}` : machines || "–"}</td>
      <td className="num">{report?.balance_microusd == null ? "–" : formatMoney(report.balance_microusd)}</td>
      <td className="num">{report ? formatCount(report.offers) : "–"}</td>
      <td>
        {cheapest
          ? `${cheapest.gpu}${cheapest.interruptible ? " spot" : ""} ${formatPrice(cheapest.price_microusd_per_hour)}`
          : "–"}
      </td>
      <td className="t2 err">{lastError(backend, result)}</td>
      <td className="num act">
        {can("write") && (
          <span className="row-actions">
            <Button look="quiet" disabled={checking} onClick={onCheck}>
              {checking ? "Checking" : "Check"}
            </Button>
            {can("admin") && backend.source === "profile" && <BackendMenu backend={backend} />}
          </span>
        )}
      </td>
    </tr>
  );
}

function lastError(backend: BackendEntry, result: CheckResult | undefined): string {
  if (result?.error !== undefined) return asProblem(result.error).message;
  const report = result?.report;
  if (report && !report.valid) return report.why;
  if (report && report.refused > 0)
    return `${plural(report.refused, "offer")} not usable: ${report.refused_why}`;
  return backend.reason;
}

function Health({ backend, result }: { backend: BackendEntry; result: CheckResult | undefined }) {
  const failed = backend.state === "failed" || result?.error !== undefined || result?.report?.valid === false;
  if (failed) {
    return (
      <span className="st bad">
        <Icon name="warning" size={14} />
        Not working
      </span>
    );
  }
  if (backend.state === "opening") {
    return (
      <span className="st">
        <StatusIcon status="running" phase="provisioning" />
        Opening
      </span>
    );
  }
  return (
    <span className="st">
      <StatusIcon status="completed" phase="" />
      Healthy
    </span>
  );
}

function BackendMenu({ backend }: { backend: BackendEntry }) {
  const [asking, setAsking] = useState(false);
  const remove = useRemoveBackend();
  const items: MenuItem[] = [{ label: "Remove this backend", danger: true, onSelect: () => setAsking(true) }];
  return (
    <>
      <Menu
        trigger={
          <button type="button" className="btn quiet icon" aria-label={`More about ${backend.name}`}>
            <Icon name="more" />
          </button>
        }
        items={items}
      />
      <ConfirmDialog
        open={asking}
        title={`Remove ${backend.name}?`}
        keep="Keep it"
        act="Remove the backend"
        onKeep={() => setAsking(false)}
        onAct={() => {
          setAsking(false);
          remove.mutate(backend.name);
        }}
      >
        Its stored credentials are deleted, and new jobs cannot use it. While jobs have machines there, it is
        not removed.
      </ConfirmDialog>
    </>
  );
}
