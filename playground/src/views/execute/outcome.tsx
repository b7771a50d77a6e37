/** Outcome of a request, with a link to its execution. */

import { Alert, Text } from "@mantine/core";
import { IconCircleCheck, IconCopyCheck } from "@tabler/icons-react";

import { UserErrors } from "../../ui/confirm_dialog";
import { IdLink } from "../../ui/id_link";
import type { ExecuteMutation } from "./operations.generated";

export type Payload = NonNullable<ExecuteMutation["execute"]>;

export function Outcome({ payload, shownAtFields }: { payload: Payload; shownAtFields: boolean }) {
  const { outcome, executionId, differs, userErrors } = payload;
  const started = outcome === "STARTED";
  return (
    <>
      {outcome !== null && (
        <Alert
          color={started ? "teal" : "yellow"}
          variant="outline"
          role="status"
          icon={started ? <IconCircleCheck /> : <IconCopyCheck />}
          title={started ? "Started" : "Duplicate"}
        >
          <Text size="sm">
            {started ? "The request started an execution." : "An earlier request with this key started the execution."}
            {differs === true && " That request was different."}
          </Text>
          {executionId !== null && <IdLink kind="execution" id={executionId} />}
        </Alert>
      )}
      {shownAtFields ? (
        <Text size="sm" c="red" role="alert">
          The server refused the request. The marked fields say why.
        </Text>
      ) : (
        <UserErrors errors={userErrors} />
      )}
    </>
  );
}
