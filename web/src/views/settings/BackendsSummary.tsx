import { Link } from "@tanstack/react-router";
import { LoadState } from "@/ui/states";
import { useBackendList } from "@/views/settings/data";

const STATES: Record<string, string> = { open: "ready", opening: "connecting", failed: "not available" };

/** The configured backends in short; Machines has the details. */
export function BackendsSummary() {
  const query = useBackendList();
  return (
    <section className="panel" aria-labelledby="backends-short">
      <header>
        <h2 id="backends-short">Backends</h2>
        <Link className="link small" to="/machines">
          Machines
        </Link>
      </header>
      <LoadState query={query} label="Loading backends" rows={2} failure="The backends could not be listed" />
      {query.data && (
        <ul className="settings-list">
          {query.data.backends.map((backend) => (
            <li key={backend.name}>
              <span className="two-lines">
                <b className="med">{backend.name}</b>
                <small className="t3">
                  {backend.kind}
                  {backend.reason === "" ? "" : `: ${backend.reason}`}
                </small>
              </span>
              <span className={backend.state === "failed" ? "bad" : "t2"}>
                {STATES[backend.state] ?? backend.state}
              </span>
            </li>
          ))}
          <li>
            <span>Machines that cost money</span>
            <span className="t2">{query.data.allow_paid ? "allowed" : "only for jobs that allow them"}</span>
          </li>
        </ul>
      )}
    </section>
  );
}
