/** Below a list that is read in pages: the number of its loaded rows, and a button that loads the next page. */

import { Button, Group, Text } from "@mantine/core";
import { useEffect, useRef } from "react";

import { formatNumber } from "./format";

export interface Pages {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => unknown;
  /** Time of the last read in milliseconds since 1970, if the list is read from the server. */
  dataUpdatedAt?: number;
  /** Whether the last read failed. */
  isError?: boolean;
}

interface Props {
  /** Number of rows that are loaded. */
  shown: number;
  pages: Pages;
  /** Whether the next page is also loaded when the end of the list comes near the window. */
  endless: boolean;
}

/** Distance from the window, in pixels, at which the end of the list is near. */
const NEAR = 200;

export function MoreRows({ shown, pages, endless }: Props) {
  const end = useRef<HTMLDivElement>(null);
  const { hasNextPage, isFetchingNextPage, isError = false, fetchNextPage } = pages;
  // After a failure, only the user asks for the next page, so that a refused request is not sent without an end.
  const waits = endless && hasNextPage && !isFetchingNextPage && !isError;
  useEffect(() => {
    if (!waits || !end.current) {
      return;
    }
    const observer = new IntersectionObserver(
      (entries) => {
        if (entries.some(({ isIntersecting }) => isIntersecting)) {
          observer.disconnect();
          fetchNextPage();
        }
      },
      { rootMargin: `0px 0px ${NEAR}px 0px` },
    );
    observer.observe(end.current);
    return () => observer.disconnect();
  }, [waits, shown, fetchNextPage]);
  return (
    <Group ref={end} justify="space-between" mt="xs">
      <Text size="xs" c="dimmed" role="status">
        {formatNumber(shown)} shown{hasNextPage ? ", the list has more" : ""}
      </Text>
      {hasNextPage && (
        <Button size="xs" variant="default" loading={isFetchingNextPage} onClick={() => fetchNextPage()}>
          Load more
        </Button>
      )}
    </Group>
  );
}
