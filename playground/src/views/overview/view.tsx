/** The overview: whether the system is healthy, in words, and the figures behind it. */

import { SimpleGrid } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";

import { SystemStatusDocument } from "../../api/system_status.generated";
import { useSystemStatus } from "../../api/system_status";
import { SlowShardsText } from "../../app/slow_shards_text";
import { OpenAsGraphql } from "../../ui/open_as_graphql";
import { Panel } from "../../ui/panel";
import { RateChart } from "../../ui/rate_chart";
import { Failure, Loading } from "../../ui/states";
import { TextLink } from "../../ui/text_link";
import { ViewPage } from "../../ui/view_page";
import { FeedFigures, OutboxFigures } from "./figures";
import { HealthBanner } from "./health_banner";
import { PastWork } from "./past_work";
import { RecentWork } from "./recent_work";
import { ShardTable } from "./shard_table";
import { LeaveWatchMode, WatchModeLink } from "./watch_mode";

const route = getRouteApi("/");

export function OverviewView() {
  const { status, state, error, samples } = useSystemStatus();
  const { watch } = route.useSearch();
  return (
    <ViewPage
      title="Overview"
      actions={
        watch === "1" ? (
          <LeaveWatchMode />
        ) : (
          <>
            <WatchModeLink />
            <OpenAsGraphql document={SystemStatusDocument} />
          </>
        )
      }
    >
      {state === "ended" && error && <Failure error={error} />}
      {status ? <HealthBanner status={status} stale={state !== "live"} /> : !error && <Loading lines={2} />}
      <SimpleGrid cols={{ base: 2, sm: 3, lg: 6 }} spacing="sm">
        <RecentWork />
        {status && <FeedFigures status={status} samples={samples} />}
        {status && <OutboxFigures status={status} />}
      </SimpleGrid>
      <PastWork />
      {status && (
        <Panel
          title="Events published per second, while this page is open"
          actions={
            <TextLink to="/system" hash="hour" size="xs">
              All charts
            </TextLink>
          }
        >
          <RateChart
            label="Events published per second"
            points={samples.map((sample) => ({ at: sample.at, value: sample.eventsPerSecond }))}
          />
        </Panel>
      )}
      {status && (
        <Panel
          title="Shards"
          actions={
            <TextLink to="/system" hash="shards" size="xs">
              All details
            </TextLink>
          }
        >
          <SlowShardsText status={status} />
          <ShardTable status={status} />
        </Panel>
      )}
    </ViewPage>
  );
}
