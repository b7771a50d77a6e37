/** The runs that an execution can be compared with, in groups. Each run is in the first group that it belongs to. */

import type { RunsToCompareQuery, RunToCompareFragment as Run } from "./operations.generated";

export interface Group {
  title: string;
  runs: readonly Run[];
}

/** Returns the groups that have a run. */
export function groupsOf(id: string, { execution, successful, recent }: RunsToCompareQuery): Group[] {
  const listed = new Set([id]);
  const groups = [
    { title: "Last successful run before this one", runs: others(successful?.nodes, id).slice(0, 1) },
    { title: "The run that this one repeats", runs: execution?.rerunOf ? [execution.rerunOf] : [] },
    { title: "Reruns of this run", runs: execution?.reruns?.nodes ?? [] },
    { title: "Newest runs of the path", runs: recent?.nodes ?? [] },
  ];
  return groups
    .map(({ title, runs }) => ({ title, runs: runs.filter((run) => !listed.has(run.id) && listed.add(run.id)) }))
    .filter(({ runs }) => runs.length > 0);
}

function others(runs: readonly Run[] | undefined, id: string): readonly Run[] {
  return (runs ?? []).filter((run) => run.id !== id);
}
