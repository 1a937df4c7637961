import { PageTitle } from "@/app/TopBar";

export default function JobsPage() {
  return <PageTitle text="Jobs" />;
}
