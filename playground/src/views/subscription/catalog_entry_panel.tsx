/** The catalog entry that the subscription was registered with. Later versions do not change the subscription. */

import { Box } from "@mantine/core";

import { FieldList } from "../../ui/field_list";
import { JsonTree } from "../../ui/json_tree";
import { Panel } from "../../ui/panel";
import { Empty } from "../../ui/states";
import { Time } from "../../ui/time";
import type { Subscription } from "./subscription";

export function CatalogEntryPanel({ subscription: { catalogEntry: entry } }: { subscription: Subscription }) {
  if (!entry) {
    return (
      <Panel title="Catalog entry">
        <Empty title="The catalog entry can't be read">It may have been deleted by another program.</Empty>
      </Panel>
    );
  }
  return (
    <Panel title="Catalog entry">
      <FieldList
        fields={[
          ["Path", entry.path],
          ["Version", versionOf(entry)],
          ["Description", entry.description],
          ["Registered", <Time value={entry.createdAt} absolute />],
        ]}
      />
      {entry.document !== null && (
        <Box mt="sm">
          <JsonTree value={entry.document} name="Document" />
        </Box>
      )}
    </Panel>
  );
}

function versionOf({ version, versions }: NonNullable<Subscription["catalogEntry"]>): string {
  const newest = versions?.nodes[0]?.version ?? version;
  return newest === version ? `${version}, the newest` : `${version}; the catalog has version ${newest}, for the next registration`;
}
