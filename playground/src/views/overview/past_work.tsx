/** Executions of the last hour, day or month. It is not drawn again with each change of the live status. */

import { getRouteApi } from "@tanstack/react-router";
import { memo } from "react";

import { ExecutionHistory } from "../execution_history/panel";

const route = getRouteApi("/");

export const PastWork = memo(function PastWork() {
  const { period } = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <ExecutionHistory
      period={period}
      onPeriod={(chosen) =>
        void navigate({ search: (before) => ({ ...before, period: chosen }), replace: true, resetScroll: false })
      }
    />
  );
});
