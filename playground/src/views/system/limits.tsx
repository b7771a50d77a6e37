/** Limits of the server on one request. */

import { FieldList } from "../../ui/field_list";
import { formatBytes, formatDuration, formatNumber } from "../../ui/format";
import { Panel } from "../../ui/panel";
import type { ServerInfo } from "./server";

export function Limits({ limits }: Pick<ServerInfo, "limits">) {
  return (
    <Panel title="Limits of a request">
      <FieldList
        fields={[
          ["Run time", formatDuration(limits.deadlineSeconds)],
          ["Items on a page", `${limits.maxPage} (default ${limits.defaultPage})`],
          ["Cost", `${formatNumber(limits.maxCost)} values`],
          ["Depth of fields", formatNumber(limits.maxDepth)],
          ["Rows read", formatNumber(limits.maxReadRows)],
          ["Data read", formatBytes(limits.maxReadBytes)],
          ["Response", formatBytes(limits.maxResponseBytes)],
          ["Request", formatBytes(limits.maxBodyBytes)],
          ["Executions in a batch", formatNumber(limits.maxBatch)],
          ["Events in a batch", formatNumber(limits.maxEvents)],
          ["One event", formatBytes(limits.maxEventBytes)],
          ["Workload", formatBytes(limits.maxWorkloadBytes)],
          ["Catalog document", formatBytes(limits.maxContentBytes)],
          ["Operations on a socket", formatNumber(limits.maxOperationsPerSocket)],
        ]}
      />
    </Panel>
  );
}
