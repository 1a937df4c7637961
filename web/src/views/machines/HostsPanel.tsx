import { Link } from "@tanstack/react-router";
import type { CSSProperties } from "react";
import { useSession } from "@/app/session";
import { formatBytes, formatCount, formatPercent, NBSP, plural } from "@/lib/format";
import { Button } from "@/ui/Button";
import { EmptyState, LoadState } from "@/ui/states";
import { StatusIcon } from "@/ui/Status";
import { useHosts, type Host } from "@/views/machines/data";

const HOT_C = 80;
const NEARLY_FULL = 0.93;
const GIB = 2 ** 30;

type Gpu = Host["gpus"][number];

/** Your own machines, one row each, with their GPUs. */
export function HostsPanel({ onAdd }: { onAdd: () => void }) {
  const { can } = useSession();
  const query = useHosts();
  return (
    <section className="panel" aria-labelledby="hosts">
      <header>
        <h2 id="hosts">Your hosts</h2>
        <span className="sub">{query.data && summary(query.data.hosts, query.data.waiting)}</span>
        <Link className="link small" to="/queue">
          Queue
        </Link>
        {can("admin") && (
          <Button icon="plus" onClick={onAdd}>
            Add a host
          </Button>
        )}
      </header>
      <LoadState query={query} label="Asking the hosts" rows={2} failure="The hosts could not be listed" />
      {query.data?.hosts.length === 0 && (
        <EmptyState small title="No hosts of your own" command="anygpu host add user@machine">
          Jobs run on machines that you can reach with SSH, without root and without Docker there.
        </EmptyState>
      )}
      <div className="hosts">
        {query.data?.hosts.map((host) => (
          <HostRow key={`${host.backend}/${host.name}`} host={host} />
        ))}
      </div>
    </section>
  );
}

export function summary(hosts: readonly Host[], waiting: number): string {
  const gpus = hosts.flatMap((host) => host.gpus);
  const busy = gpus.filter((gpu) => !gpu.free).length;
  const parts = gpus.length > 0 ? [`${busy} of ${plural(gpus.length, "GPU")} busy`] : [];
  const offline = hosts.filter((host) => !host.online).length;
  if (offline > 0) parts.push(`${plural(offline, "host")} not reachable`);
  if (waiting > 0) parts.push(waiting === 1 ? "1 job waits" : `${formatCount(waiting)} jobs wait`);
  return parts.join(", ");
}

function HostRow({ host }: { host: Host }) {
  const title =
    host.backend === "local"
      ? "local"
      : host.backend === host.name
        ? host.name
        : `${host.backend}/${host.name}`;
  return (
    <article className="host">
      <div className="hh">
        <h3 className="cut" title={title}>
          {title}
        </h3>
        <span className="st">
          <StatusIcon status={host.online ? "completed" : "failed"} phase="" />
          {host.online ? "Online" : "Not reachable"}
          {(host.waiting ?? 0) > 0 && (
            <Link className="link2 t3" to="/queue" title="Jobs that wait and may run here">
              {formatCount(host.waiting ?? 0)} waiting
            </Link>
          )}
        </span>
        <p>
          {hardware(host)}
          <br />
          {measurements(host)}
        </p>
      </div>
      {host.problem === "" ? <HostContent host={host} /> : <p className="host-problem">{host.problem}</p>}
    </article>
  );
}

function hardware(host: Host): string {
  const [first] = host.gpus;
  if (first === undefined) return `${plural(host.cpus, "CPU")}, no GPU`;
  const kinds = new Set(host.gpus.map((gpu) => gpu.kind));
  const name =
    kinds.size === 1 ? `${host.gpus.length}${NBSP}×${NBSP}${first.kind}` : plural(host.gpus.length, "GPU");
  return first.driver === "" ? name : `${name}, driver ${first.driver.split(".")[0]}`;
}

function measurements(host: Host): string {
  if (host.backend === "local" && host.cpu_use === null) return "this server";
  if (host.cpu_use === null) return `${host.memory_gib}${NBSP}GiB memory`;
  const used = host.memory_used === null ? "" : `, ${inGib(host.memory_used, host.memory_total)}`;
  return `CPU ${formatPercent(host.cpu_use)}${used}`;
}

function inGib(used: number | null, total: number | null): string {
  if (used === null || total === null) return "memory unknown";
  return `${(used / GIB).toFixed(1)} of ${Math.round(total / GIB)}${NBSP}GiB`;
}

function HostContent({ host }: { host: Host }) {
  if (host.gpus.length === 0) return <CpuCells host={host} />;
  const [only] = host.jobs;
  return (
    <ol className="gpus">
      {host.gpus.map((gpu) => (
        <li key={gpu.uuid} className="gpu">
          <span className="gi">{gpu.index}</span>
          {gpu.free ? (
            <span className="t3">free</span>
          ) : host.jobs.length === 1 && only !== undefined ? (
            <JobName job={only} />
          ) : (
            <span className="t3">
              {host.jobs.length === 0 ? "used by others" : plural(host.jobs.length, "job")}
            </span>
          )}
          <span className={gpu.temperature_c !== null && gpu.temperature_c >= HOT_C ? "gt warn" : "gt"}>
            {gpu.temperature_c === null ? "" : `${Math.round(gpu.temperature_c)}${NBSP}°C`}
          </span>
          <GpuMeters gpu={gpu} />
        </li>
      ))}
    </ol>
  );
}

function GpuMeters({ gpu }: { gpu: Gpu }) {
  if (gpu.use === null && gpu.memory_used === null) {
    return (
      <span className="gms t3 small" title="Measured while a job runs on this host">
        {gpu.memory_gib}&nbsp;GiB
      </span>
    );
  }
  const filled = gpu.memory_used !== null && gpu.memory_total ? gpu.memory_used / gpu.memory_total : 0;
  return (
    <span className="gms">
      <Meter
        label={gpu.use === null ? "unknown" : `${formatPercent(gpu.use)} busy`}
        fraction={gpu.use ?? 0}
        color="--c3"
      />
      <Meter
        label={inGib(gpu.memory_used, gpu.memory_total)}
        fraction={filled}
        color={filled > NEARLY_FULL ? "--warn-fill" : "--c1"}
      />
    </span>
  );
}

function CpuCells({ host }: { host: Host }) {
  if (host.jobs.length === 0) return <p className="host-problem t3">Nothing runs here.</p>;
  return (
    <ol className="gpus">
      {host.jobs.map((job, index) => (
        <li key={job.id} className="gpu">
          <span className="gi">{index + 1}</span>
          <JobName job={job} />
          <span className="gt">{job.phase}</span>
          {index === 0 && host.cpu_use !== null && (
            <span className="gms">
              <Meter label={`${formatPercent(host.cpu_use)} CPU`} fraction={host.cpu_use} color="--c3" />
              <Meter
                label={host.memory_used === null ? "" : `${formatBytes(host.memory_used)} used`}
                fraction={
                  host.memory_used !== null && host.memory_total ? host.memory_used / host.memory_total : 0
                }
                color="--c1"
              />
            </span>
          )}
        </li>
      ))}
    </ol>
  );
}

function JobName({ job }: { job: Host["jobs"][number] }) {
  return (
    <Link className="cut link2" to="/jobs/$ref" params={{ ref: job.id }} title={job.name}>
      {job.name || job.id}
    </Link>
  );
}

function Meter({ label, fraction, color }: { label: string; fraction: number; color: string }) {
  const style = {
    "--w": `${Math.min(100, fraction * 100).toFixed(1)}%`,
    "--c": `var(${color})`,
  } as CSSProperties;
  return (
    <span className="gm">
      <span className="gml">{label}</span>
      <span className="gmb" aria-hidden="true">
        <i style={style} />
      </span>
    </span>
  );
}
