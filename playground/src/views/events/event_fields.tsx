/** The fields of an event. Empty fields are left out. */

import { Code, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";

import { IdLink } from "../../ui/id_link";
import { FieldList } from "../../ui/field_list";
import { formatDuration } from "../../ui/format";
import { JsonTree } from "../../ui/json_tree";
import { LongMessage } from "../../ui/long_message";
import { objectOf } from "../../ui/object_links";
import { StatusBadge } from "../../ui/status_badge";
import { TextLink } from "../../ui/text_link";
import { Time } from "../../ui/time";
import type { EventDetailQuery } from "./operations.generated";

type EventDetail = NonNullable<EventDetailQuery["event"]>;

export function EventFields({ event }: { event: EventDetail }) {
  return (
    <>
      <FieldList fields={fieldsOf(event)} />
      {event.error !== null && (
        <Document title="Error">
          <Text size="sm" component="div">
            <LongMessage text={event.error} name="error" />
          </Text>
        </Document>
      )}
      {event.stackTrace !== null && <Document title="Stack trace"><Code block>{event.stackTrace}</Code></Document>}
      <Json title="Result" value={event.result} />
      <Json title="Context" value={event.context} />
      <Json title="Meta" value={event.meta} />
    </>
  );
}

function fieldsOf(event: EventDetail): [string, ReactNode][] {
  const owner = event.owner && objectOf(event.owner);
  return [
    ["Type", event.type],
    ["Status", event.status && <StatusBadge status={event.status} />],
    ["Created", <Time value={event.createdAt} absolute />],
    event.owner && !owner
      ? ["Unknown object", event.executionId]
      : [owner?.title ?? "Execution", <IdLink id={event.executionId} kind={owner?.kind ?? "execution"} />],
    ["Path", owner?.path && <CatalogLink path={owner.path} version={event.catalogEntry?.version} />],
    ["Event", event.eventId],
    ["Caused by", event.parentEventId],
    ["Parent", event.parentExecutionId && <IdLink id={event.parentExecutionId} kind="execution" />],
    ["Node", event.nodeName && `${event.nodeName}${event.nodeType ? ` (${event.nodeType})` : ""}`],
    ["Duration", event.durationSeconds !== null && formatDuration(event.durationSeconds)],
    ["Shard", String(event.shard)],
    ["Catalog id", event.catalogId],
  ];
}

function CatalogLink({ path, version }: { path: string; version: number | undefined }) {
  return (
    <TextLink to="/catalog/$" params={{ _splat: path }} search={{ version: version?.toString() }} inherit>
      {path}
    </TextLink>
  );
}

function Json({ title, value }: { title: string; value: unknown }) {
  if (value === null || value === undefined) {
    return null;
  }
  return (
    <Document title={title}>
      <JsonTree value={value} name={title} />
    </Document>
  );
}

function Document({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section aria-label={title}>
      <Title order={3} size="xs" mt="md" mb={4}>
        {title}
      </Title>
      {children}
    </section>
  );
}
