/** Says of when a list is, while the connection is lost or the list can't be read again. */

import { Text } from "@mantine/core";

import { useZone } from "./clock";
import { formatClock, formatTime } from "./format";
import { useConnectionLoss } from "./known_until";

interface Props {
  /** Time of the last read in milliseconds since 1970; 0 if there was none. */
  readAt: number;
  /** Whether the last read failed. */
  failed: boolean;
  /** Whether a live subscription reports the changes of the list, so that it is current until the connection is lost. */
  live: boolean;
}

export function AsOf({ readAt, failed, live }: Props) {
  const lostAt = useConnectionLoss();
  const zone = useZone();
  if (readAt === 0 || (lostAt === null && !failed)) {
    return null;
  }
  const at = live && lostAt !== null ? Math.max(readAt, lostAt) : readAt;
  return (
    <Text size="xs" c="dimmed" mb={4} role="status">
      As of{" "}
      <time dateTime={new Date(at).toISOString()} title={formatTime(at, zone)}>
        {formatClock(at, zone).slice(0, 8)}
      </time>
    </Text>
  );
}
