import { PageTitle } from "@/app/TopBar";

export default function QueuePage() {
  return <PageTitle text="Queue" />;
}
