/** Use of a version: its newest executions, and the subscription of its path. */

import { Text } from "@mantine/core";

import { useApiQuery } from "../../api/hooks";
import { isExecutable, lastFailuresLocation, pathLocation } from "../../app/path_links";
import { formatCount } from "../../ui/format";
import { IdLink } from "../../ui/id_link";
import { Panel } from "../../ui/panel";
import { Failure, Loading, PartialData } from "../../ui/states";
import { StatusBadge } from "../../ui/status_badge";
import { TextLink } from "../../ui/text_link";
import { Time } from "../../ui/time";
import type { Entry } from "./entry";
import { CatalogUseDocument, type CatalogUseQuery } from "./operations.generated";
import classes from "./entry_use.module.css";

const EVERY_MS = 5_000;

export function EntryUse({ entry }: { entry: Entry }) {
  const { path, version, kind } = entry;
  const used = isExecutable(kind) || kind === "SUBSCRIPTION";
  const variables = { path, filter: { path, version } };
  const { data, error, refetch } = useApiQuery(CatalogUseDocument, variables, { every: EVERY_MS, enabled: used });
  if (!used) {
    return null;
  }
  const title = kind === "SUBSCRIPTION" ? "Subscription" : "Executions";
  return (
    <Panel title={title} actions={<AllOf entry={entry} />}>
      {error && <Failure error={error} retry={refetch} />}
      {!data && !error && <Loading lines={2} />}
      {data && kind === "SUBSCRIPTION" && <SubscriptionOfPath subscription={data.data.subscription} />}
      {data && kind !== "SUBSCRIPTION" && <Executions entry={entry} executions={data.data.executions} />}
      {data && <PartialData errors={data.errors} />}
    </Panel>
  );
}

function AllOf({ entry: { kind, path } }: { entry: Entry }) {
  const view = kind === "SUBSCRIPTION" ? "subscriptions" : "executions";
  return (
    <>
      {view === "executions" && (
        <TextLink {...lastFailuresLocation(path)} size="xs">
          Failed in the last hour
        </TextLink>
      )}
      <TextLink {...pathLocation(view, path)} size="xs">
        {view === "subscriptions" ? "All subscriptions" : "All executions"}
      </TextLink>
    </>
  );
}

function SubscriptionOfPath({ subscription }: Pick<CatalogUseQuery, "subscription">) {
  if (!subscription) {
    return (
      <Text size="xs" c="dimmed">
        No subscription is registered for this path.
      </Text>
    );
  }
  return (
    <ul className={classes.list}>
      <li className={classes.item}>
        <StatusBadge status={subscription.status} />
        <IdLink id={subscription.id} kind="subscription" />
        <Time value={subscription.registeredAt} />
      </li>
    </ul>
  );
}

function Executions({ entry, executions }: Pick<CatalogUseQuery, "executions"> & { entry: Entry }) {
  if (!executions) {
    return null;
  }
  const { nodes, totalCount, unavailableShards } = executions;
  return (
    <>
      <PartialData unavailableShards={unavailableShards} />
      <Text size="xs" c="dimmed" mb={4}>
        {nodes.length === 0 && "This version was not executed yet."}
        {nodes.length > 0 && totalCount && (
          <TextLink to="/executions" search={{ path: entry.path, version: String(entry.version) }} inherit>
            {formatCount(totalCount)} of this version
          </TextLink>
        )}
      </Text>
      <ul className={classes.list}>
        {nodes.map(({ id, status, startedAt }) => (
          <li key={id} className={classes.item}>
            <StatusBadge status={status} />
            <IdLink id={id} kind="execution" />
            <Time value={startedAt} />
          </li>
        ))}
      </ul>
    </>
  );
}
