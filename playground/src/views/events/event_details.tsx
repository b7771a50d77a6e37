/** The details of one event: its fields, its documents as trees, and copies of it as JSON, cursor or GraphQL. */

import { Button, CloseButton, CopyButton as Copy, Drawer, Group, Title } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import type { ReactNode } from "react";

import { useApiQuery } from "../../api/hooks";
import { OpenAsGraphql } from "../../ui/open_as_graphql";
import { Empty, Failure, Loading, PartialData } from "../../ui/states";
import { EventFields } from "./event_fields";
import type { EventLog } from "./event_log";
import { EventDetailDocument, type EventDetailQuery } from "./operations.generated";
import classes from "./event_details.module.css";

const EVENT_ID = /^event-(\d+)-(\d+)$/;

interface Props {
  /** Id of the event: `event-<execution id>-<event id>`. */
  id: string;
  log: EventLog;
  onClose: () => void;
}

/** Beside the list on a wide screen, above it on a narrow one. */
export function EventDetails({ id, log, onClose }: Props) {
  const wide = useMediaQuery("(min-width: 62em)", true, { getInitialValueInEffect: false });
  if (!wide) {
    return (
      <Drawer opened onClose={onClose} position="bottom" size="85%" title="Event">
        <Details id={id} log={log} />
      </Drawer>
    );
  }
  return (
    <aside className={classes.panel} aria-label="Event">
      <Group justify="space-between" mb="sm">
        <Title order={2} size="sm">
          Event
        </Title>
        <CloseButton onClick={onClose} aria-label="Close the event" size="sm" />
      </Group>
      <Details id={id} log={log} />
    </aside>
  );
}

function Details({ id, log }: Omit<Props, "onClose">) {
  const [, executionId = "", eventId = ""] = EVENT_ID.exec(id) ?? [];
  const variables = { executionId, eventId };
  const { data, error, isPlaceholderData, refetch } = useApiQuery(EventDetailDocument, variables, { enabled: eventId !== "" });
  if (eventId === "") {
    return <Empty title="This is no id of an event">An id has the form event-1-2. Choose an event in the list.</Empty>;
  }
  if (error) {
    return <Failure error={error} retry={refetch} />;
  }
  if (!data || isPlaceholderData) {
    return <Loading />;
  }
  const { event } = data.data;
  if (!event) {
    return <Empty title="This event does not exist">It may belong to another deployment. Choose an event in the list.</Empty>;
  }
  return (
    <>
      <PartialData errors={data.errors} />
      <Actions event={event} cursor={log.cursorOf(id)} variables={variables} />
      <EventFields event={event} />
    </>
  );
}

interface ActionsProps {
  event: NonNullable<EventDetailQuery["event"]>;
  cursor: string | undefined;
  variables: { executionId: string; eventId: string };
}

function Actions({ event, cursor, variables }: ActionsProps) {
  return (
    <Group gap="xs" mb="sm">
      <CopyText text={JSON.stringify(event, null, 2)}>Copy JSON</CopyText>
      {cursor !== undefined && <CopyText text={cursor}>Copy cursor</CopyText>}
      <CopyText text={`${EventDetailDocument.toString().trim()}\n\n# ${JSON.stringify(variables)}`}>Copy GraphQL</CopyText>
      <OpenAsGraphql document={EventDetailDocument} variables={variables} />
    </Group>
  );
}

function CopyText({ text, children }: { text: string; children: ReactNode }) {
  return (
    <Copy value={text}>
      {({ copied, copy }) => (
        <Button size="xs" variant="default" onClick={copy}>
          {copied ? "Copied" : children}
        </Button>
      )}
    </Copy>
  );
}
