import { PageTitle } from "@/app/TopBar";

export default function MachinesPage() {
  return <PageTitle text="Machines" />;
}
