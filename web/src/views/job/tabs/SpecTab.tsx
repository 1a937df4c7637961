import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "@/api/client";
import { showToast } from "@/app/toasts";
import { copyText } from "@/lib/clipboard";
import { formatBytes, plural } from "@/lib/format";
import { Button } from "@/ui/Button";
import { Segmented } from "@/ui/controls";
import { Icon } from "@/ui/Icon";
import { ErrorState, Skeleton } from "@/ui/states";
import type { Job } from "@/views/job/merge";
import { Hash } from "@/views/job/tabs/files";
import { useAddress } from "@/views/job/useAddress";

type Form = "yaml" | "cli" | "python";

const FORMS: { value: Form; label: string }[] = [
  { value: "yaml", label: "YAML" },
  { value: "cli", label: "CLI" },
  { value: "python", label: "Python" },
];

const CODE_KINDS: Record<string, string> = {
  snapshot: "copy of the working directory",
  archive: "uploaded archive",
  inline: "text in the spec",
  in_place: "runs in place, without a copy",
  none: "no code",
};

/** What was submitted, as text that submits it again, and the hashes of its code and data. */
export function SpecTab({ job }: { job: Job }) {
  const [address, setAddress] = useAddress("form");
  const form = FORMS.find(({ value }) => value === address)?.value ?? "yaml";
  const params = { params: { path: { ref: job.id } } };
  const query = useQuery({
    queryKey: ["job-spec", job.id],
    queryFn: () => unwrap(api.GET("/api/v1/training/{ref}/spec", params)),
    staleTime: Infinity,
  });
  const text = query.data?.[form] ?? "";
  const copy = () => {
    void copyText(text);
    showToast({ title: "Spec copied", icon: <Icon name="copy" /> });
  };
  return (
    <section className="panel">
      <header>
        <h2>Spec</h2>
        <Segmented
          label="Form"
          value={form}
          choices={FORMS}
          onChange={(value) => setAddress(value === "yaml" ? "" : value)}
        />
        <Button icon="copy" disabled={query.data === undefined} title="Copy the text" onClick={copy}>
          Copy
        </Button>
      </header>
      {query.data !== undefined ? (
        <pre className="code spec" tabIndex={0}>
          {form === "yaml" ? <YamlLines text={text} /> : text}
        </pre>
      ) : query.error === null ? (
        <Skeleton label="Loading the spec" />
      ) : (
        <ErrorState title="The spec could not be shown" error={query.error} />
      )}
      <dl className="hashes">
        <dt>Code</dt>
        <dd>
          <CodeLine job={job} />
        </dd>
        <dt>Data</dt>
        <dd>
          <DataLine job={job} />
        </dd>
      </dl>
    </section>
  );
}

const KEY_LINE = /^(\s*(?:- )?)([\w.-]+)(:.*)$/;

/** YAML with coloured keys. */
function YamlLines({ text }: { text: string }) {
  return text.split("\n").map((line, index) => {
    const match = KEY_LINE.exec(line);
    if (match === null) return <span key={index}>{`${line}\n`}</span>;
    return (
      <span key={index}>
        {match[1]}
        <span className="ck2">{match[2]}</span>
        {`${match[3]}\n`}
      </span>
    );
  });
}

function CodeLine({ job }: { job: Job }) {
  const { code } = job;
  const files = useQuery({
    queryKey: ["job-code", job.id],
    queryFn: () => unwrap(api.GET("/api/v1/training/{ref}/code", { params: { path: { ref: job.id } } })),
    enabled: code.kind === "snapshot",
    staleTime: Infinity,
  }).data;
  return (
    <>
      {code.sha256 !== null && <Hash sha256={code.sha256} />} {CODE_KINDS[code.kind] ?? code.kind}
      {files !== undefined && `, ${plural(files.count, "file")}, ${formatBytes(files.size)}`}
      {code.path !== null && <span className="t3"> {code.path}</span>}
    </>
  );
}

function DataLine({ job }: { job: Job }) {
  const { data } = job;
  if (data === null) return <span className="t3">no dataset in the spec</span>;
  return (
    <>
      {data.sha256 !== null && <Hash sha256={data.sha256} />} {data.source}
      {data.parts > 1 && <span className="t3"> {plural(data.parts, "part")}</span>}
    </>
  );
}
