/** The details of one entry: its fields, its last error and its message. */

import { Drawer, Group, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";

import { useApiQuery } from "../../api/hooks";
import { FieldList } from "../../ui/field_list";
import { IdLink } from "../../ui/id_link";
import { JsonTree } from "../../ui/json_tree";
import { LongMessage } from "../../ui/long_message";
import { OpenAsGraphql } from "../../ui/open_as_graphql";
import { Empty, Failure, Loading, PartialData } from "../../ui/states";
import { Time } from "../../ui/time";
import { EntryActions } from "./entry_actions";
import { EntryStatus } from "./entry_table";
import { OutboxEntryDetailDocument, type OutboxEntryDetailQuery } from "./operations.generated";

type Entry = Extract<OutboxEntryDetailQuery["node"], { __typename: "OutboxEntry" }>;

const EVERY_MS = 5_000;

interface Props {
  id: string;
  onClose: () => void;
}

export function EntryDetails({ id, onClose }: Props) {
  return (
    <Drawer opened onClose={onClose} position="right" size="min(100%, 560px)" title="Outbox entry">
      <Details id={id} onClose={onClose} />
    </Drawer>
  );
}

function Details({ id, onClose }: Props) {
  const { data, error, isPlaceholderData, refetch } = useApiQuery(OutboxEntryDetailDocument, { id }, { every: EVERY_MS });
  if (error) {
    return <Failure error={error} retry={refetch} />;
  }
  if (!data || isPlaceholderData) {
    return <Loading />;
  }
  const entry = data.data.node;
  if (entry?.__typename !== "OutboxEntry") {
    return (
      <>
        <PartialData errors={data.errors} />
        <Empty title="This entry does not exist">It may have been discarded, or deleted some time after its delivery.</Empty>
      </>
    );
  }
  return (
    <>
      <PartialData errors={data.errors} />
      <Group gap="xs" mb="sm">
        <EntryActions entry={entry} size="xs" onDiscarded={onClose} />
        <OpenAsGraphql document={OutboxEntryDetailDocument} variables={{ id }} />
      </Group>
      <FieldList fields={fieldsOf(entry)} />
      {entry.lastError !== null && (
        <Section title="Last error">
          <Text size="sm" component="div">
            <LongMessage text={entry.lastError} name="error" />
          </Text>
        </Section>
      )}
      <Section title="Message">
        {entry.payload === null ? (
          <Empty title="The message is not JSON">Its encoding is {entry.payloadCodec}. A claim returns its bytes.</Empty>
        ) : (
          <JsonTree value={entry.payload} name="Message" />
        )}
      </Section>
    </>
  );
}

function fieldsOf(entry: Entry): [string, ReactNode][] {
  const waits = entry.status === "PENDING" || entry.status === "FAILED";
  return [
    ["Entry", entry.entryId],
    ["Status", <EntryStatus entry={entry} />],
    ["Subject", entry.subject ?? "that of the event"],
    ["Execution", entry.executionId !== null && <IdLink id={entry.executionId} kind="execution" />],
    ["Path", entry.execution?.path],
    ["Event", entry.eventId],
    ["Claims", String(entry.attempts)],
    ["Claimant", entry.claimant],
    ["Written", <Time value={entry.createdAt} absolute />],
    ["Claimable from", waits && <Time value={entry.availableAt} absolute />],
    ["Lease expires", entry.leaseExpiresAt !== null && <Time value={entry.leaseExpiresAt} absolute />],
    ["Delivered", entry.publishedAt !== null && <Time value={entry.publishedAt} absolute />],
    ["Encoding", entry.payloadCodec],
    ["Tenant", entry.tenantId],
    ["Organization", entry.organizationId],
  ];
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section aria-label={title}>
      <Title order={3} size="xs" mt="md" mb={4}>
        {title}
      </Title>
      {children}
    </section>
  );
}
