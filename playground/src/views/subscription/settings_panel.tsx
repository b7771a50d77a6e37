/** The settings of the subscription, from the document of its catalog entry. */

import { FieldList } from "../../ui/field_list";
import { formatDuration, formatItems } from "../../ui/format";
import { Panel } from "../../ui/panel";
import { Empty } from "../../ui/states";
import { Time } from "../../ui/time";
import type { Subscription } from "./subscription";

export function SettingsPanel({ subscription }: { subscription: Subscription }) {
  const { spec, registeredAt, shard, tenantId, organizationId } = subscription;
  return (
    <Panel title="Settings">
      <FieldList
        fields={[
          ["Registered", <Time value={registeredAt} absolute />],
          ["Shard", String(shard)],
          ["Tenant", tenantId],
          ["Organization", organizationId],
          ...(spec ? specFields(spec) : []),
        ]}
      />
      {!spec && <Empty title="The document can't be read">Look at the content of the catalog entry, and register a corrected version.</Empty>}
    </Panel>
  );
}

function specFields(spec: NonNullable<Subscription["spec"]>): [string, string | null][] {
  const { dispatch, dedup, limits, spool } = spec;
  return [
    ["Source", [spec.sourceText, spec.modeText].filter((text) => text !== null).join(", ")],
    ["Activation", spec.activationText],
    ["Runs", dispatch.playbook],
    ["Pool", dispatch.executionPool ?? "the default pool"],
    ["Batch", dispatch.batchMax === null ? null : `up to ${formatItems(dispatch.batchMax, "execution")} in a request`],
    ["Dedup", dedup.enabled ? `for ${formatDuration(dedup.windowSeconds ?? DEFAULT_WINDOW)}` : "off"],
    ["At the same time", limits.maxInFlight === null ? null : `up to ${formatItems(limits.maxInFlight, "message")}`],
    ["Per second", limits.maxDispatchPerSecond === null ? null : `up to ${formatItems(limits.maxDispatchPerSecond, "execution")}`],
    ["Spool", spool && [spool.modeText, spool.backendText].filter((text) => text !== null).join(", ")],
  ];
}

/** Seconds; the window of requests that name none, if the document names none. */
const DEFAULT_WINDOW = 300;
