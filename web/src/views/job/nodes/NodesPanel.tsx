import { Link } from "@tanstack/react-router";
import type { Schemas } from "@/api/client";
import { sentenceCase } from "@/lib/format";
import { rankText, shownNode, sizeText } from "@/log/nodes";
import { useLogAddress } from "@/log/useLogAddress";
import { StatusIcon, statusWord } from "@/ui/Status";
import type { Job } from "@/views/job/merge";
import { endMessage, nodeState } from "@/views/job/nodes/state";
import "./nodes.css";

type Attempt = Schemas["AttemptDetails"];

/** The machines of a job on several machines, with their state and exit. Nothing for a job on one machine. */
export function NodesPanel({ job }: { job: Job }) {
  const { attempt: chosen, node } = useLogAddress();
  const attempt = job.attempts.find((each) => each.number === chosen) ?? job.attempts.at(-1);
  if (attempt === undefined || (attempt.nodes ?? []).length < 2) return null;
  const shown = shownNode(job, attempt.number, node);
  return (
    <section className="panel nodes" aria-labelledby="h-nodes">
      <header>
        <h2 id="h-nodes">Nodes</h2>
        <span className="sub">
          {sizeText(attempt)}
          {job.attempts.length > 1 && `, attempt ${attempt.number}`}
        </span>
      </header>
      <div className="scroll-x" tabIndex={0} role="region" aria-label="Nodes of the job">
        <table className="tbl">
          <thead>
            <tr>
              <th>Node</th>
              <th>Host</th>
              <th>State</th>
              <th>Message</th>
            </tr>
          </thead>
          <tbody>
            {attempt.nodes!.map((each) => (
              <NodeRow key={each.node} attempt={attempt} node={each} isShown={each.node === shown} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

interface NodeRowProps {
  attempt: Attempt;
  node: Schemas["NodeDetails"];
  isShown: boolean;
}

function NodeRow({ attempt, node, isShown }: NodeRowProps) {
  const { note, word, ...state } = nodeState(attempt, node);
  const message = endMessage(node);
  return (
    <tr className={isShown ? "shown" : undefined}>
      <td className="two">
        <Link
          className="med link2"
          to="."
          search={(old: Record<string, unknown>) => ({
            ...old,
            node: node.node || undefined,
            line: undefined,
          })}
          replace
          resetScroll={false}
          aria-current={isShown ? "true" : undefined}
          title="Show the log and the measurements of this machine"
        >
          Node {node.node}
        </Link>
        <small>{rankText(node.node, attempt.processes_per_node ?? 1)}</small>
      </td>
      <td>
        <span className="cut" title={node.host}>
          {node.host || "–"}
        </span>
      </td>
      <td className="two">
        <span className="st">
          <StatusIcon {...state} />
          {word || sentenceCase(statusWord(state))}
        </span>
        <small>{note}</small>
      </td>
      <td>
        <span className="cut" title={message}>
          {message}
        </span>
      </td>
    </tr>
  );
}
