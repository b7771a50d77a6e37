/** State of the outbox, live: its figures, its depth over the last hour, and the numbers by shard and subject. */

import type { SystemStatusHistory } from "../../api/system_status";
import { Panel } from "../../ui/panel";
import { RateChart } from "../../ui/rate_chart";
import { Failure, Loading, PartialData } from "../../ui/states";
import { DepthFigures } from "./depth_figures";
import { ShardDepths } from "./shard_depths";
import { SubjectDepths } from "./subject_depths";
import classes from "./outbox_state.module.css";

export function OutboxState({ history: { status, state, error, samples } }: { history: SystemStatusHistory }) {
  if (state === "ended" && error) {
    return <Failure error={error} />;
  }
  if (!status) {
    return <Loading lines={2} />;
  }
  const { outbox } = status;
  if (!outbox) {
    return <PartialData errors={[{ message: "The outbox could not be counted. Check the databases of the shards." }]} />;
  }
  return (
    <>
      <PartialData unavailableShards={outbox.unavailableShards} />
      <DepthFigures outbox={outbox} />
      <div className={classes.panels}>
        <Panel title="Depth, while this page is open">
          <RateChart
            label="Entries that can be claimed"
            points={samples.map(({ at, outboxPending }) => ({ at, value: outboxPending }))}
            height={260}
          />
        </Panel>
        <div className={classes.column}>
          <Panel title="By shard">
            <ShardDepths rows={outbox.byShard} />
          </Panel>
          <Panel title="Not delivered, by subject">
            <SubjectDepths />
          </Panel>
        </div>
      </div>
    </>
  );
}
