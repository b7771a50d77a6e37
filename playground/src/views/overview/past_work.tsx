/** Executions of the last hour, day or month. It is not drawn again with each change of the live status. */

import { memo } from "react";

import { ExecutionHistory } from "../execution_history/panel";

export const PastWork = memo(ExecutionHistory);
