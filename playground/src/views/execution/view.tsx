/** One execution: errors first, its facts, its history, and its steps, documents, events and children. */

import { Button } from "@mantine/core";
import { IconPlayerPlay } from "@tabler/icons-react";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { CopyButton } from "../../ui/copy_button";
import { LiveBadge } from "../../ui/live_badge";
import { objectLocation } from "../../ui/object_links";
import { OpenAsGraphql } from "../../ui/open_as_graphql";
import { Empty, Failure, Loading, PartialData } from "../../ui/states";
import { StatusBadge } from "../../ui/status_badge";
import { TextLink } from "../../ui/text_link";
import { ViewPage } from "../../ui/view_page";
import { useAllSteps } from "./all_steps";
import { CancelButton } from "./cancel_button";
import { DiscardReport } from "./discard_report";
import { discardOf } from "./discarded_delivery";
import { ErrorReport } from "./error_report";
import { eventsUntil } from "./event_ids";
import { HistorySlider } from "./history_slider";
import { useExecution, type Execution } from "./live_execution";
import { merged } from "./log_pages";
import { useLog } from "./log_reader";
import { useMoment } from "./moment";
import { ExecutionDetailDocument } from "./operations.generated";
import { Parts } from "./parts";
import { RerunButton } from "./rerun_button";
import { traceOfError, traceOfStep, type TraceOf } from "./stack_traces";
import { Summary } from "./summary";
import classes from "./view.module.css";

const route = getRouteApi("/executions/$id");

export function ExecutionView() {
  const { id } = route.useParams();
  const { query, live, execution } = useExecution(id);
  const title = execution?.path ?? `Execution ${id}`;
  return (
    <ViewPage
      title={title}
      description={
        <span className={classes.description}>
          {execution && <StatusBadge status={execution.status} />}
          {execution && <RerunMark execution={execution} />}
          <span className={classes.id}>{id}</span>
          <CopyButton value={id} name="id" />
          {execution?.endedAt === null && <LiveBadge state={live.state} name="Live updates" />}
        </span>
      }
      actions={execution && <Actions execution={execution} />}
    >
      {query.error && <Failure error={query.error} retry={query.refetch} />}
      {!query.error && execution === undefined && <Loading lines={8} />}
      {execution === null && (
        <Empty title="There is no execution with this id">
          Check the id. If it is the id of a source subscription,{" "}
          <TextLink to="/events" search={{ executions: id, from: "beginning" }} inherit underline="always">
            open its events
          </TextLink>
          .
        </Empty>
      )}
      {live.error && <Failure error={live.error} />}
      {execution && <PartialData errors={query.data?.errors ?? []} />}
      {execution && <Content key={id} execution={execution} />}
    </ViewPage>
  );
}

/** Says that the execution was run again, and leads to the newest rerun. */
function RerunMark({ execution: { reruns } }: { execution: Execution }) {
  const [newest] = reruns?.nodes ?? [];
  return newest ? <TextLink {...objectLocation("execution", newest.id)} inherit>Was run again</TextLink> : null;
}

function Actions({ execution }: { execution: Execution }) {
  return (
    <>
      <CancelButton execution={execution} />
      <RerunButton key={execution.id} execution={execution} />
      {execution.path !== null && (
        <Button
          renderRoot={(props) => <Link {...props} to="/execute" search={{ path: execution.path ?? undefined, from: execution.id }} />}
          size="xs"
          variant="default"
          leftSection={<IconPlayerPlay size={14} />}
        >
          Execute with changes…
        </Button>
      )}
      <OpenAsGraphql document={ExecutionDetailDocument} variables={{ id: execution.id }} />
    </>
  );
}

function Content({ execution: newest }: { execution: Execution }) {
  const { at } = route.useSearch();
  const navigate = route.useNavigate();
  const log = useLog(newest.id, newest.eventCount);
  const { execution, error: stepsError } = useAllSteps(newest);
  const { shown: state, event, error: momentError } = useMoment(execution, at);
  const { execution: shown, error: earlierStepsError } = useAllSteps(state, at);
  const error = momentError ?? stepsError ?? earlierStepsError;
  const moment = at === undefined ? undefined : event?.createdAt;
  const events = useMemo(
    () => eventsUntil(merged(log.events, log.part?.events ?? []), at),
    [log.events, log.part, at],
  );
  const discard = discardOf(shown.status, events);
  const traceOf: TraceOf = (step) => traceOfStep(step, events);
  const choose = (chosen: string | undefined) =>
    void navigate({ search: (before) => ({ ...before, at: chosen }), replace: true, resetScroll: false });
  return (
    <>
      <ErrorReport
        execution={shown}
        steps={shown.steps?.nodes ?? []}
        trace={traceOfError(shown.error, events)}
        traceOf={traceOf}
      />
      {discard && <DiscardReport id={shown.id} discard={discard} />}
      {error && <Failure error={error} />}
      <Summary execution={shown} moment={moment} events={log.start.length > 0 ? log.start : log.events} />
      <HistorySlider
        log={log}
        at={at}
        chosen={event && { event, place: Number(shown.eventCount) - 1 }}
        onChange={choose}
      />
      <Parts execution={execution} shown={shown} moment={moment} log={log} traceOf={traceOf} />
    </>
  );
}
