/** The replica that this page talks to: its identity, and the background work that is turned on. */

import type { Feature } from "../../api/schema.generated";
import type { SystemStatus } from "../../api/system_status";
import { FieldList } from "../../ui/field_list";
import { Panel } from "../../ui/panel";
import { StatusBadge } from "../../ui/status_badge";
import { Time } from "../../ui/time";
import type { ServerQuery } from "./operations.generated";

export type ServerInfo = NonNullable<ServerQuery["server"]>;

const FEATURES: readonly { feature: Feature; name: string }[] = [
  { feature: "EVENT_STREAM", name: "Publishing of events" },
  { feature: "LIVE_EVENTS", name: "Live subscriptions" },
  { feature: "OUTBOX_RELAY", name: "Outbox relay" },
  { feature: "PROJECTOR", name: "Projector" },
];

interface Props {
  server: ServerInfo;
  status: SystemStatus | null;
}

export function Server({ server, status }: Props) {
  return (
    <Panel title="Replica of this page">
      <FieldList
        fields={[
          ["Name", server.replica],
          ["Machine id", String(server.machineId)],
          ["Version", server.version],
          ["Started", <Time value={server.startedAt} absolute />],
          ...FEATURES.map(({ feature, name }) => [name, <OnOff key={feature} on={server.features.includes(feature)} />] as const),
          ["Broker", status && <OnOff on={status.eventStream.connected} texts={["Connected", "Not connected"]} />],
        ]}
      />
    </Panel>
  );
}

function OnOff({ on, texts = ["On", "Off"] }: { on: boolean; texts?: readonly [string, string] }) {
  return <StatusBadge status={on ? "ON" : "OFF"} label={on ? texts[0] : texts[1]} tone={on ? "good" : "plain"} />;
}
