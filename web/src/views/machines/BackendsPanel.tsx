import { useState } from "react";
import { useSession } from "@/app/session";
import { formatCount, formatMoney, formatPrice, plural } from "@/lib/format";
import { Button } from "@/ui/Button";
import { ConfirmDialog } from "@/ui/Dialog";
import { Icon } from "@/ui/Icon";
import { Menu, type MenuItem } from "@/ui/Menu";
import { LoadState } from "@/ui/states";
import { StatusIcon } from "@/ui/Status";
import { RelativeTime } from "@/ui/Time";
import {
  useBackends,
  useCheckBackend,
  useCheckedNow,
  useMachines,
  useRemoveBackend,
  type BackendEntry,
} from "@/views/machines/data";

/** Configured backends with their health and last error. */
export function BackendsPanel({ onAdd }: { onAdd: () => void }) {
  const { can } = useSession();
  const query = useBackends();
  const check = useCheckBackend();
  const checking = useCheckedNow();
  const backends = query.data?.backends ?? [];
  return (
    <section className="panel" aria-labelledby="backends">
      <header>
        <h2 id="backends">Backends</h2>
        {can("write") && (
          <Button
            look="quiet"
            icon="refresh"
            disabled={checking.size > 0}
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
      <LoadState query={query} label="Loading backends" rows={3} failure="The backends could not be listed" />
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
                  checking={checking.has(each.name)}
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
  checking: boolean;
  onCheck: () => void;
}

function BackendRow({ backend, checking, onCheck }: BackendRowProps) {
  const { can } = useSession();
  const machines = useMachines().data?.machines.filter((each) => each.backend === backend.name).length ?? 0;
  const most = backend.options.max_machines;
  const { check: report, checked_at: checkedAt } = backend.health;
  const cheapest = report?.cheapest_gpu;
  return (
    <tr>
      <td className="two">
        <b className="med">{backend.name}</b>
        <small>{backend.kind}</small>
      </td>
      <td>
        <Health backend={backend} />
      </td>
      <td className="num t2">{checkedAt ? <RelativeTime at={checkedAt} /> : "–"}</td>
      <td className="num">{typeof most === "number" ? `${machines} of ${most}` : machines || "–"}</td>
      <td className="num">{report?.balance_microusd == null ? "–" : formatMoney(report.balance_microusd)}</td>
      <td className="num">{report?.valid ? formatCount(report.offers) : "–"}</td>
      <td>
        {cheapest
          ? `${cheapest.gpu}${cheapest.interruptible ? " spot" : ""} ${formatPrice(cheapest.price_microusd_per_hour)}`
          : "–"}
      </td>
      <td className="t2 err">
        <Problems backend={backend} />
      </td>
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

/** The last error of each kind of request, with its time; else what limits the offers. */
function Problems({ backend }: { backend: BackendEntry }) {
  const { problems, check } = backend.health;
  if (backend.state === "failed") return backend.reason;
  if (problems.length > 0) {
    return problems.map((each) => (
      <p key={each.request}>
        {FAILED[each.request]} <RelativeTime at={each.at} />: {each.message}
      </p>
    ));
  }
  if (check?.valid && check.refused > 0)
    return `${plural(check.refused, "offer")} not usable: ${check.refused_why}`;
  return backend.reason;
}

const FAILED: Record<string, string> = {
  account: "Account check failed",
  offers: "Offers failed",
  launch: "Launch failed",
};

function Health({ backend }: { backend: BackendEntry }) {
  const { problems, answered_at: answeredAt } = backend.health;
  if (backend.state === "failed" || problems.some((each) => each.request !== "launch"))
    return <Trouble tone="bad">Not working</Trouble>;
  if (backend.state === "opening") {
    return (
      <span className="st">
        <StatusIcon status="running" phase="provisioning" />
        Opening
      </span>
    );
  }
  if (problems.length > 0) return <Trouble tone="warn">Launch failed</Trouble>;
  if (answeredAt === null) return <span className="t3">Not checked yet</span>;
  return (
    <span className="st">
      <StatusIcon status="completed" phase="" />
      Healthy
    </span>
  );
}

function Trouble({ tone, children }: { tone: "bad" | "warn"; children: string }) {
  return (
    <span className={`st ${tone}`}>
      <Icon name="warning" size={14} />
      {children}
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
