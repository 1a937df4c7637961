import { PageTitle } from "@/app/TopBar";

export default function NewPage() {
  return <PageTitle text="New" />;
}
