import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useSession } from "@/app/session";
import { formatMoney, NBSP, plural } from "@/lib/format";
import { clockTime, roundedAge } from "@/lib/time";
import { Button } from "@/ui/Button";
import { ConfirmDialog } from "@/ui/Dialog";
import { Icon } from "@/ui/Icon";
import { Menu } from "@/ui/Menu";
import { Callout, EmptyState, LoadState } from "@/ui/states";
import { Status } from "@/ui/Status";
import { useNow } from "@/ui/Time";
import { useEndMachine, useMachines, useReleaseMachine, useSweep, type Machine } from "@/views/machines/data";

/** Machines that cost money now; those without a job come first. */
export function RentedPanel() {
  const query = useMachines();
  const machines = query.data?.machines ?? [];
  const hourly = machines.reduce((sum, each) => sum + (each.price_microusd_per_hour ?? 0), 0);
  const complete = machines.every((each) => each.price_microusd_per_hour !== null);
  return (
    <section className="panel rent" aria-labelledby="rented">
      <header>
        <h2 id="rented">Rented now</h2>
        <span className="sub">{query.data && plural(machines.length, "machine")}</span>
        {machines.length > 0 && (
          <span className="tot">
            {!complete && "at least "}
            <b>{formatMoney(hourly)}</b> per hour
          </span>
        )}
      </header>
      <LoadState
        query={query}
        label="Asking the providers"
        rows={2}
        failure="The machines could not be listed"
      />
      {query.data && <RentedContent list={query.data} />}
    </section>
  );
}

function RentedContent({ list }: { list: NonNullable<ReturnType<typeof useMachines>["data"]> }) {
  const silent = Object.entries(list.silent);
  const ordered = [...list.machines].sort((a, b) => Number(a.job !== null) - Number(b.job !== null));
  return (
    <>
      {silent.map(([backend, reason]) => (
        <Callout key={backend} tone="warn">
          {backend} did not answer, so its machines may be missing here: {reason}
        </Callout>
      ))}
      {list.leftovers.length > 0 && <Leftovers count={list.leftovers.length} />}
      {ordered.length === 0 ? (
        <EmptyState small title="Nothing is rented">
          Machines of clouds appear here while a job uses them, with their price per hour.
        </EmptyState>
      ) : (
        <MachineTable machines={ordered} />
      )}
    </>
  );
}

function Leftovers({ count }: { count: number }) {
  const { can } = useSession();
  const sweep = useSweep();
  return (
    <Callout
      tone="warn"
      actions={
        can("operate") && (
          <Button disabled={sweep.isPending} onClick={() => sweep.mutate()}>
            Remove them now
          </Button>
        )
      }
    >
      {plural(count, "address, disk or key", "addresses, disks and keys")} remained after their machines and
      may be billed. They are removed automatically.
    </Callout>
  );
}

function MachineTable({ machines }: { machines: Machine[] }) {
  return (
    <div className="scroll-x" tabIndex={0} role="region" aria-label="Rented machines">
      <table className="tbl wide">
        <thead>
          <tr>
            <th>Job</th>
            <th>Where</th>
            <th>GPU</th>
            <th>State</th>
            <th className="num">Since</th>
            <th className="num">Per hour</th>
            <th className="num">So far</th>
            <th>
              <span className="sr">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {machines.map((each) => (
            <MachineRow key={`${each.backend}/${each.name}`} machine={each} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function MachineRow({ machine }: { machine: Machine }) {
  const now = useNow();
  const orphan = machine.job === null;
  return (
    <tr className={orphan ? "orph" : undefined}>
      <td className="two">{orphan ? <NoJob machine={machine} /> : <JobLink machine={machine} />}</td>
      <td className="two">
        {machine.backend}
        <small>
          {machine.offer}
          {machine.interruptible && " spot"}
        </small>
      </td>
      <td className="two">
        {machine.gpu === ""
          ? "–"
          : machine.gpus > 1
            ? `${machine.gpus}${NBSP}×${NBSP}${machine.gpu}`
            : machine.gpu}
        <small>{machine.region}</small>
      </td>
      <td>{orphan ? "Still exists" : <MachineState machine={machine} />}</td>
      <td className="num">
        {machine.since === null ? "–" : roundedAge((now - Date.parse(machine.since)) / 1000)}
      </td>
      <td className="num med">
        {machine.price_microusd_per_hour === null ? (
          <span className="t3">unknown</span>
        ) : (
          formatMoney(machine.price_microusd_per_hour)
        )}
      </td>
      <td className="num">{machine.cost_microusd === null ? "–" : formatMoney(machine.cost_microusd)}</td>
      <td className="num act">
        <MachineActions machine={machine} />
      </td>
    </tr>
  );
}

function NoJob({ machine }: { machine: Machine }) {
  return (
    <>
      <span className="st bad">
        <Icon name="warning" size={14} />
        No job
      </span>
      <small className="cut" title={machine.name}>
        {machine.name}
      </small>
    </>
  );
}

function JobLink({ machine }: { machine: Machine }) {
  return (
    <>
      <Link className="med link2" to="/jobs/$ref" params={{ ref: machine.job! }}>
        {machine.job_name || machine.job}
      </Link>
      <small>attempt {machine.attempt}</small>
    </>
  );
}

function MachineState({ machine }: { machine: Machine }) {
  if (machine.held_until) {
    return (
      <>
        <Status status="running" phase="held" /> until {clockTime(machine.held_until)}
      </>
    );
  }
  if (machine.state === "unlisted") return <>Not listed by the provider</>;
  return <Status status="running" phase={machine.state} />;
}

function MachineActions({ machine }: { machine: Machine }) {
  const { can } = useSession();
  const [asking, setAsking] = useState(false);
  const end = useEndMachine();
  const release = useReleaseMachine();
  const orphan = machine.job === null;
  if (!can(orphan ? "operate" : "write")) return null;
  const act = () => {
    setAsking(false);
    end.mutate({ name: machine.name, force: !orphan });
  };
  return (
    <>
      {orphan ? (
        <Button look="danger-fill" disabled={end.isPending} onClick={() => setAsking(true)}>
          End machine
        </Button>
      ) : machine.held_until ? (
        <Button disabled={release.isPending} onClick={() => release.mutate(machine.job!)}>
          Release
        </Button>
      ) : (
        <Menu
          trigger={
            <button
              type="button"
              className="btn quiet icon"
              aria-label={`More about the machine of ${machine.job_name || machine.job}`}
            >
              <Icon name="more" />
            </button>
          }
          items={[{ label: "End this machine", danger: true, onSelect: () => setAsking(true) }]}
        />
      )}
      <ConfirmDialog
        open={asking}
        title={orphan ? "End this machine?" : `End the machine of ${machine.job_name || machine.job}?`}
        keep="Keep it"
        act="End the machine"
        onKeep={() => setAsking(false)}
        onAct={act}
      >
        {orphan
          ? `No job uses ${machine.name}. Everything on it is lost.`
          : "Work since the last checkpoint is lost. The job continues on another machine."}
      </ConfirmDialog>
    </>
  );
}
