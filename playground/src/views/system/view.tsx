/** The system in detail: databases, event feeds and their leases, outbox, this replica, limits, and the last hour. */

import { Group, SimpleGrid } from "@mantine/core";

import { useApiQuery } from "../../api/hooks";
import { SystemStatusDocument } from "../../api/system_status.generated";
import { useSystemStatus } from "../../api/system_status";
import { SlowShardsText } from "../../app/slow_shards_text";
import { OpenAsGraphql } from "../../ui/open_as_graphql";
import { Failure, Loading, PartialData } from "../../ui/states";
import { Time } from "../../ui/time";
import { ViewPage } from "../../ui/view_page";
import { FeedTable } from "./feed_table";
import { HourCharts } from "./hour_charts";
import { Limits } from "./limits";
import { ServerDocument } from "./operations.generated";
import { OutboxTable } from "./outbox_table";
import { Replicas } from "./replicas";
import { ScrolledPanel } from "./scrolled_panel";
import { Server } from "./server";
import { Settings } from "./settings";
import { ShardTable } from "./shard_table";
import { SystemFigures } from "./system_figures";

const EVERY_MS = 10_000;

export function SystemView() {
  const { status, state, error, samples } = useSystemStatus();
  const server = useApiQuery(ServerDocument, {}, { every: EVERY_MS });
  const replica = server.data?.data.server ?? null;
  const replicas = server.data?.data.replicas ?? null;
  return (
    <ViewPage
      title="System"
      description={status && <Group gap={4}>{state === "live" ? "Read" : "The connection is lost; read"} <Time value={status.at} /></Group>}
      actions={<OpenAsGraphql document={SystemStatusDocument} />}
    >
      {error && <Failure error={error} />}
      {!status && !error && <Loading lines={6} />}
      {status && <SystemFigures status={status} />}
      {status && (
        <>
          <ScrolledPanel id="shards" title="Shards: databases">
            <SlowShardsText status={status} />
            <ShardTable status={status} />
          </ScrolledPanel>
          <ScrolledPanel id="feeds" title="Event feeds: leaders, leases and epochs">
            <FeedTable status={status} />
          </ScrolledPanel>
          <ScrolledPanel id="outbox" title="Outbox">
            <OutboxTable status={status} />
          </ScrolledPanel>
        </>
      )}
      {replicas && (
        <ScrolledPanel id="replicas" title="Replicas">
          <Replicas replicas={replicas} status={status} connected={replica?.replica ?? null} />
        </ScrolledPanel>
      )}
      <ScrolledPanel id="hour" title="The last hour, while this page is open">
        <HourCharts samples={samples} />
      </ScrolledPanel>
      {server.error && <Failure error={server.error} retry={server.refetch} />}
      {server.data && <PartialData errors={server.data.errors} />}
      <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
        {replica && <Server server={replica} status={status} />}
        {replica && <Limits limits={replica.limits} />}
      </SimpleGrid>
      {replica && (
        <ScrolledPanel id="settings" title="Settings of the replica of this page">
          <Settings settings={replica.settings} />
        </ScrolledPanel>
      )}
    </ViewPage>
  );
}
