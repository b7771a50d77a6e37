/** Cancels an execution with a reason, and if the user wants, the executions that it started. */

import { Checkbox, Stack } from "@mantine/core";
import { IconPlayerStop } from "@tabler/icons-react";
import { useState } from "react";

import { useApiMutation } from "../../api/hooks";
import { ConfirmDialog } from "../../ui/confirm_dialog";
import { PermittedButton } from "../../ui/permitted_button";
import type { Execution } from "./live_execution";
import { CancelExecutionDocument } from "./operations.generated";

export function CancelButton({ execution: { id, endedAt } }: { execution: Execution }) {
  const [opened, setOpened] = useState(false);
  const [cascade, setCascade] = useState(false);
  const cancel = useApiMutation(CancelExecutionDocument);
  const payload = cancel.data?.data.cancelExecution;
  const failures = cancel.error ? [cancel.error] : (cancel.data?.errors ?? []);
  const refusals = [...failures, ...(payload?.userErrors ?? [])];

  async function confirm(reason: string | null) {
    const { data } = await cancel.mutateAsync({ input: { executionId: id, reason, cascade } });
    if (data.cancelExecution?.userErrors.length === 0) {
      setOpened(false);
    }
  }

  return (
    <>
      <PermittedButton
        capability="CANCEL"
        variant="default"
        leftSection={<IconPlayerStop size={14} />}
        {...(endedAt !== null && { refusal: "The execution has ended." })}
        onClick={() => setOpened(true)}
      >
        Cancel…
      </PermittedButton>
      <ConfirmDialog
        opened={opened}
        title="Cancel the execution"
        action="Cancel execution"
        keep="Keep running"
        dangerous
        busy={cancel.isPending}
        userErrors={refusals}
        onConfirm={(reason) => void confirm(reason).catch(() => {})}
        onClose={() => {
          setOpened(false);
          cancel.reset();
        }}
      >
        <Stack gap="sm">
          <span>No further step begins. A step that a worker runs now is not interrupted.</span>
          <Checkbox
            label="Also cancel the executions that it started"
            checked={cascade}
            onChange={(event) => setCascade(event.currentTarget.checked)}
          />
        </Stack>
      </ConfirmDialog>
    </>
  );
}
