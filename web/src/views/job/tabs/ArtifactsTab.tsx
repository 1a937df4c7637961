import { useQuery } from "@tanstack/react-query";
import { api, unwrap, type Schemas } from "@/api/client";
import { attemptColour, vars } from "@/lib/css";
import { formatBytes, plural } from "@/lib/format";
import { EmptyState, ErrorState, Skeleton } from "@/ui/states";
import { isEnded } from "@/ui/Status";
import { artifactsKey } from "@/views/job/data";
import type { Job } from "@/views/job/merge";
import { DownloadLink, fileEnding, Hash } from "@/views/job/tabs/files";
import { PreviewButton } from "@/views/job/tabs/PreviewDialog";

type Artifact = Schemas["ArtifactDetails"];

const THUMBNAIL_BYTES = 2 * 1024 * 1024;

/** The files that the job produced. */
export function ArtifactsTab({ job }: { job: Job }) {
  const query = useQuery({
    queryKey: artifactsKey(job.id),
    queryFn: () => unwrap(api.GET("/api/v1/training/{ref}/artifacts", { params: { path: { ref: job.id } } })),
  });
  if (query.data === undefined) {
    return query.error === null ? (
      <Skeleton label="Loading the artifacts" />
    ) : (
      <ErrorState
        title="The artifacts could not be loaded"
        error={query.error}
        onRetry={() => void query.refetch()}
      />
    );
  }
  const { artifacts } = query.data;
  if (artifacts.length === 0) {
    return (
      <EmptyState small title={isEnded(job.status) ? "The job has no artifacts" : "No artifacts yet"}>
        Name files with <code>outputs</code> in the spec, or call <code>anygpu.artifact()</code>.
      </EmptyState>
    );
  }
  const size = artifacts.reduce((total, each) => total + each.size, 0);
  return (
    <section className="panel">
      <header>
        <h2>Artifacts</h2>
        <span className="sub">
          {plural(artifacts.length, "file")}, {formatBytes(size)}
        </span>
      </header>
      <div className="scroll-x" tabIndex={0} role="region" aria-label="Artifacts">
        <table className="tbl art">
          <thead className="sr">
            <tr>
              <th>Kind</th>
              <th>Name</th>
              <th>Size</th>
              <th>SHA-256</th>
              <th>Actions</th>
            </tr>
          </thead>
          <tbody>
            {artifacts.map((each) => (
              <ArtifactRow key={each.name} artifact={each} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function ArtifactRow({ artifact }: { artifact: Artifact }) {
  const { name, preview, problem } = artifact;
  return (
    <tr>
      <td className="th">
        {preview === "image" && artifact.size <= THUMBNAIL_BYTES ? (
          <img src={`${artifact.download}?preview=1`} alt="" width="40" height="40" loading="lazy" />
        ) : (
          <span className="ftype">{fileEnding(name)}</span>
        )}
      </td>
      <td className="two">
        <b className="med">{name}</b>
        <small>
          <i className="swatch" style={vars({ "--c": attemptColour(artifact.attempt) })} /> attempt{" "}
          {artifact.attempt}
          {preview !== null && `, ${preview}`}
        </small>
      </td>
      <td className="num nowrap">{formatBytes(artifact.size)}</td>
      <td className="nowrap">
        <Hash sha256={artifact.sha256} />{" "}
        {problem === null ? (
          <span className="ok small">verified</span>
        ) : (
          <span className="bad small">{problem}</span>
        )}
      </td>
      <td>
        <span className="row row-end">
          {preview !== null && <PreviewButton name={name} download={artifact.download} kind={preview} />}
          {problem === null && <DownloadLink href={artifact.download} label={`Download ${name}`} />}
        </span>
      </td>
    </tr>
  );
}
