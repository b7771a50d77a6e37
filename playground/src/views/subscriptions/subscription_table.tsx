/** The subscriptions with their state, their work and their actions. */

import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import { DataTable, type Column, type Pages } from "../../ui/data_table";
import { formatCount } from "../../ui/format";
import { LongText } from "../../ui/long_text";
import { ObjectLink } from "../../ui/object_links";
import { Empty } from "../../ui/states";
import { StatusBadge } from "../../ui/status_badge";
import { Time } from "../../ui/time";
import { DUPLICATES, type Activity } from "./activity";
import type { SubscriptionFieldsFragment } from "./operations.generated";
import { SubscriptionActions } from "./subscription_actions";
import type { TransitionState } from "./use_transition";
import classes from "./subscription_table.module.css";

/** Columns of the list as a file. */
export const EXPORTED: readonly string[] = [
  "id",
  "path",
  "status",
  "statusText",
  "lastEventId",
  "updatedAt",
];

interface Row {
  subscription: SubscriptionFieldsFragment;
  activity: Activity | undefined;
}

const COLUMNS: readonly Column<Row>[] = [
  {
    title: "Path",
    cell: ({ subscription: { id, path } }) => (
      <LongText
        text={path}
        name="path"
        link={(shown) => (
          <ObjectLink kind="subscription" id={id} className={classes.path} label={path}>
            {shown}
          </ObjectLink>
        )}
      />
    ),
  },
  { title: "State", cell: (row) => <State {...row} /> },
  { title: "In this state since", cell: ({ subscription }) => <Time value={subscription.updatedAt} /> },
  { title: "Rate", align: "right", cell: ({ activity }) => <Rate activity={activity} /> },
  { title: "Executed", align: "right", cell: ({ activity }) => <Executed activity={activity} /> },
  { title: "Deduplicated", align: "right", cell: ({ activity }) => <Deduplicated activity={activity} /> },
  { title: "Last event", cell: ({ activity }) => <LastEvent activity={activity} /> },
];

interface Props {
  subscriptions: readonly SubscriptionFieldsFragment[];
  activities: ReadonlyMap<string, Activity>;
  transition: TransitionState;
  filtered: boolean;
  pages: Pages;
}

export function SubscriptionTable({ subscriptions, activities, transition, filtered, pages }: Props) {
  const actions: Column<Row> = {
    title: "Actions",
    align: "right",
    cell: ({ subscription }) => <SubscriptionActions subscription={subscription} transition={transition} compact />,
  };
  return (
    <DataTable
      label="Subscriptions"
      columns={[...COLUMNS, actions]}
      rows={subscriptions.map((subscription) => ({ subscription, activity: activities.get(subscription.id) }))}
      rowKey={({ subscription }) => subscription.id}
      empty={<NoSubscriptions filtered={filtered} />}
      pages={pages}
      live
    />
  );
}

export function SubscriptionStatusBadge({ subscription }: { subscription: Pick<SubscriptionFieldsFragment, "status" | "statusText"> }) {
  const { status, statusText } = subscription;
  return <StatusBadge status={status} {...(status === "UNKNOWN" && { label: `Unknown (${statusText})` })} />;
}

/** The state. A subscription that drains says how many executions have not ended. */
function State({ subscription, activity }: Row) {
  const left = subscription.status === "DRAINING" ? activity?.backlog : null;
  return (
    <>
      <SubscriptionStatusBadge subscription={subscription} />
      {left && (
        <Text size="xs" c="dimmed">
          {formatCount(left)} left
        </Text>
      )}
    </>
  );
}

/** The number of executions, which leads to their list. */
function Executed({ activity }: { activity: Activity | undefined }) {
  const count = activity?.executions?.totalCount;
  return count ? (
    <Link to="/executions" search={{ parent: activity.id }} className={classes.link!}>
      {formatCount(count)}
    </Link>
  ) : (
    "–"
  );
}

/** The number of duplicate messages, which leads to their events. */
function Deduplicated({ activity }: { activity: Activity | undefined }) {
  const count = activity?.duplicates?.totalCount;
  return count ? (
    <Link to="/events" search={{ executions: activity.id, types: DUPLICATES, from: "beginning" }} className={classes.link!}>
      {formatCount(count)}
    </Link>
  ) : (
    "–"
  );
}

function Rate({ activity }: { activity: Activity | undefined }) {
  const count = activity?.recent?.totalCount;
  return <>{count ? `${formatCount(count)}/min` : "–"}</>;
}

function LastEvent({ activity }: { activity: Activity | undefined }) {
  const event = activity?.newest?.nodes[0];
  if (!activity || !event) {
    return "–";
  }
  const search = { executions: activity.id, from: "beginning", event: event.id };
  return (
    <span>
      <Link to="/events" search={search} className={classes.link!}>
        {event.type.replace(/^subscription\./, "")}
      </Link>{" "}
      <Text span size="xs" c="dimmed">
        <Time value={event.createdAt} />
      </Text>
    </span>
  );
}

function NoSubscriptions({ filtered }: { filtered: boolean }) {
  return filtered ? (
    <Empty title="No subscription matches the filter">Change the filter or clear it.</Empty>
  ) : (
    <Empty title="The list has no subscriptions">
      Register one from a catalog entry of kind subscription, then activate it. It starts an execution for each message.
    </Empty>
  );
}
