/** Input, result and durable variables of an execution as trees. */

import { SimpleGrid, Text } from "@mantine/core";

import { CopyButton } from "../../ui/copy_button";
import { JsonTree } from "../../ui/json_tree";
import { Panel } from "../../ui/panel";
import type { Execution } from "./live_execution";

export function Documents({ execution }: { execution: Execution }) {
  const ended = execution.endedAt !== null;
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
      <Document title="Input" value={execution.workload} missing="The execution has no workload." />
      <Document
        title="Result"
        value={execution.result}
        missing={ended ? "The execution ended without a result." : "The result appears here when the execution ends."}
      />
      <Document title="Variables" value={execution.context} missing="The execution has set no variable." />
    </SimpleGrid>
  );
}

function Document({ title, value, missing }: { title: string; value: unknown; missing: string }) {
  if (value === null || value === undefined) {
    return (
      <Panel title={title}>
        <Text size="sm" c="dimmed">
          {missing}
        </Text>
      </Panel>
    );
  }
  return (
    <Panel title={title} actions={<CopyButton value={JSON.stringify(value, null, 2)} name={title.toLowerCase()} />}>
      <JsonTree value={value} name={title} openLevels={3} />
    </Panel>
  );
}
