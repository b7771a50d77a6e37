/** Executions that an execution started, and those that these started. A level is read when it is opened. */

import { ActionIcon, Button } from "@mantine/core";
import { IconChevronDown, IconChevronRight } from "@tabler/icons-react";
import { useState } from "react";

import { useApiPages } from "../../api/hooks";
import { AsOf } from "../../ui/as_of";
import { IdLink } from "../../ui/id_link";
import { LongMessage } from "../../ui/long_message";
import { RunDuration } from "../../ui/run_duration";
import { Empty, Failure, Loading, PartialData } from "../../ui/states";
import { StatusBadge } from "../../ui/status_badge";
import { toneOf, type Tone } from "../../ui/tone";
import { ExecutionChildrenDocument, type ExecutionChildrenQuery } from "./operations.generated";
import classes from "./children_tree.module.css";

type Child = NonNullable<ExecutionChildrenQuery["executions"]>["nodes"][number];

const REFRESH_MS = 5_000;

interface Props {
  id: string;
  /** Whether more children can appear. */
  growing: boolean;
  nested?: boolean;
}

export function ChildrenTree({ id, growing, nested = false }: Props) {
  const options = growing ? { every: REFRESH_MS } : {};
  const { query, nodes, unavailableShards, errors } = useApiPages(
    ExecutionChildrenDocument,
    { id },
    (data) => data.executions,
    options,
  );
  const failure = query.error && <Failure error={query.error} retry={query.refetch} />;
  if (!query.data || query.isPlaceholderData) {
    return failure ?? <Loading lines={2} />;
  }
  return (
    <>
      {failure}
      <AsOf readAt={query.dataUpdatedAt} failed={query.isError} live={false} />
      <PartialData unavailableShards={unavailableShards} errors={errors} />
      {nodes.length === 0 && !nested && (
        <Empty title="No children">This execution has not started another one. A step with the tool playbook starts one.</Empty>
      )}
      <ul className={classes.children} aria-label={`Children of ${id}`}>
        {nodes.map((child) => (
          <ChildItem key={child.id} child={child} />
        ))}
      </ul>
      {query.hasNextPage && (
        <Button size="xs" variant="default" loading={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          Load more
        </Button>
      )}
    </>
  );
}

function ChildItem({ child }: { child: Child }) {
  const [opened, setOpened] = useState(false);
  const hasChildren = (child.children?.nodes.length ?? 0) > 0;
  return (
    <li>
      <div className={classes.child}>
        <ActionIcon
          variant="subtle"
          color="gray"
          size="sm"
          disabled={!hasChildren}
          aria-expanded={opened}
          aria-label={`Children of ${child.id}`}
          onClick={() => setOpened(!opened)}
        >
          {opened ? <IconChevronDown size={14} /> : <IconChevronRight size={14} />}
        </ActionIcon>
        <StatusBadge status={child.status} />
        <span className={classes.path}>{child.path ?? "Unknown path"}</span>
        <IdLink kind="execution" id={child.id} />
        <span className={classes.duration}>
          <RunDuration from={child.startedAt} to={child.endedAt} />
        </span>
        {child.error !== null && <ErrorOf error={child.error} tone={toneOf(child.status)} />}
      </div>
      {opened && <ChildrenTree id={child.id} growing={child.endedAt === null} nested />}
    </li>
  );
}

function ErrorOf({ error, tone }: { error: string; tone: Tone }) {
  return (
    <span className={classes.error} data-tone={tone}>
      <LongMessage text={error} name="error" />
    </span>
  );
}
