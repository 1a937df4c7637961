import { useNavigate, useSearch } from "@tanstack/react-router";
import { useSession } from "@/app/session";
import { PageTitle } from "@/app/TopBar";
import { AddBackendDialog } from "@/views/machines/AddBackendDialog";
import { BackendsPanel } from "@/views/machines/BackendsPanel";
import { HostsPanel } from "@/views/machines/HostsPanel";
import { RentedPanel } from "@/views/machines/RentedPanel";
import "./machines.css";

/** Rented machines, your own hosts, and the backends: `/machines`. `?add=KIND` opens the form. */
export default function MachinesPage() {
  const { can } = useSession();
  const search = useSearch({ from: "/machines" });
  const navigate = useNavigate({ from: "/machines" });
  const adding = typeof search.add === "string" && can("admin") ? search.add : null;
  const add = (kind: string | undefined) =>
    void navigate({ search: { ...search, add: kind }, replace: true });
  return (
    <>
      <PageTitle text="Machines" />
      <RentedPanel />
      <HostsPanel onAdd={() => add("ssh")} />
      <BackendsPanel onAdd={() => add("choose")} />
      {adding !== null && (
        <AddBackendDialog kind={adding === "choose" ? "" : adding} onClose={() => add(undefined)} />
      )}
    </>
  );
}
