import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ApiProblem, requireOk } from "@/api/client";
import { formatBytes, formatCount, plural } from "@/lib/format";
import { parseTable, type TextTable } from "@/lib/table";
import { Button, IconButton } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { ErrorState, Skeleton } from "@/ui/states";
import { DownloadLink } from "@/views/job/tabs/files";

interface PreviewProps {
  name: string;
  /** The path of the file on the server. */
  download: string;
  kind: string;
}

/** A button that shows a file in a dialog. */
export function PreviewButton({ mini = false, ...file }: PreviewProps & { mini?: boolean }) {
  const [open, setOpen] = useState(false);
  const show = () => setOpen(true);
  return (
    <>
      {mini ? (
        <IconButton icon="expand" label={`Preview ${file.name}`} mini onClick={show} />
      ) : (
        <Button look="quiet" aria-label={`Preview ${file.name}`} onClick={show}>
          Preview
        </Button>
      )}
      <Dialog open={open} onClose={() => setOpen(false)} title={file.name} wide>
        {open && (file.kind === "image" ? <ImagePreview {...file} /> : <TextPreview {...file} />)}
        <div className="row dialog-actions">
          <DownloadLink href={file.download} label={`Download ${file.name}`} />
        </div>
      </Dialog>
    </>
  );
}

function ImagePreview({ name, download }: PreviewProps) {
  const [failed, setFailed] = useState(false);
  if (failed) {
    const problem = new ApiProblem({
      title: "No preview",
      status: 415,
      code: "no_preview",
      detail: "The browser cannot show this image.",
      hint: "Download it instead.",
    });
    return <ErrorState title="The image could not be shown" error={problem} />;
  }
  return (
    <div className="preview-image">
      <img src={`${download}?preview=1`} alt={name} onError={() => setFailed(true)} />
    </div>
  );
}

async function readPreview(download: string) {
  const response = await requireOk(await fetch(`${download}?preview=1`));
  return {
    text: await response.text(),
    cut: response.headers.get("X-Preview-Truncated") === "true",
    size: Number(response.headers.get("X-File-Size") ?? 0),
  };
}

function TextPreview({ name, download, kind }: PreviewProps) {
  const query = useQuery({ queryKey: ["preview", download], queryFn: () => readPreview(download) });
  if (query.data === undefined) {
    return query.error === null ? (
      <Skeleton label="Loading the preview" />
    ) : (
      <ErrorState title="The file could not be shown" error={query.error} />
    );
  }
  const { text, cut, size } = query.data;
  const table = kind === "table" ? parseTable(name, text, cut) : null;
  return (
    <>
      {table === null ? (
        <pre className="code preview-text" tabIndex={0}>
          {kind === "text" && name.endsWith(".json") && !cut ? indentJson(text) : text}
        </pre>
      ) : (
        <PreviewTable table={table} />
      )}
      {cut && (
        <p className="t3 small">
          This is the beginning of the file, which has {formatBytes(size)}. Download it for the rest.
        </p>
      )}
    </>
  );
}

function indentJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function PreviewTable({ table }: { table: TextTable }) {
  const numeric = table.head.map((_, column) => table.rows.every((row) => isNumber(row[column])));
  return (
    <>
      <p className="t3 small">
        {plural(table.head.length, "column")}, first {formatCount(table.rows.length)} rows
      </p>
      <div className="preview-table" tabIndex={0} role="region" aria-label="Table">
        <table className="tbl">
          <thead>
            <tr>
              {table.head.map((name, index) => (
                <th key={index} className={numeric[index] ? "num" : undefined}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {table.rows.map((row, index) => (
              <tr key={index}>
                {table.head.map((_, column) => (
                  <td key={column} className={numeric[column] ? "num" : undefined}>
                    {row[column]}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function isNumber(text: string | undefined): boolean {
  return text !== undefined && text.trim() !== "" && Number.isFinite(Number(text));
}
