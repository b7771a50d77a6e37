/** The chart of the path that runs for the messages of the subscription. The history counts executions by path. */

import { getRouteApi } from "@tanstack/react-router";

import { ExecutionHistory } from "../execution_history/panel";

const route = getRouteApi("/subscriptions/$id");

export function PlaybookHistory({ path }: { path: string }) {
  const { period } = route.useSearch();
  const navigate = route.useNavigate();
  const choose = (chosen: string) =>
    void navigate({ search: (before) => ({ ...before, period: chosen }), replace: true, resetScroll: false });
  return <ExecutionHistory path={path} named period={period} onPeriod={choose} />;
}
