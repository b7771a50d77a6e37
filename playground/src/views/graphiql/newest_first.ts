import type { ExecutionResult } from "graphql";
import type { FormattedExecutionResult, Sink } from "graphql-ws";

import { toApiError } from "../../api/errors";

/** Number of results in the response pane, and the interval of drawing it. Each drawing formats the whole list. */
const SHOWN = 100;
const DRAW_EVERY_MS = 200;

type Subscribe = (sink: Sink<FormattedExecutionResult>) => () => void;

interface Observer {
  next: (value: ExecutionResult) => void;
  error: (error: unknown) => void;
  complete: () => void;
}

/**
 * Combines a subscription's results in one growing list, newest first. GraphiQL shows only the last result that it
 * receives, so each result is the whole list. A heartbeat replaces the heartbeat before it.
 */
export function newestFirst(subscribe: Subscribe) {
  return {
    subscribe(observer: Observer) {
      let received = 0;
      let results: FormattedExecutionResult[] = [];
      let timer: number | undefined;

      const draw = () => {
        window.clearTimeout(timer);
        timer = undefined;
        const shown = { received, showing: results.length, newestFirst: results };
        observer.next(shown as ExecutionResult);
      };

      const unsubscribe = subscribe({
        next(result) {
          received += 1;
          const older = isHeartbeat(result) && isHeartbeat(results[0]) ? results.slice(1) : results;
          results = [result, ...older].slice(0, SHOWN);
          timer ??= window.setTimeout(draw, DRAW_EVERY_MS);
        },
        error(fault) {
          window.clearTimeout(timer);
          observer.error(Array.isArray(fault) ? fault : toApiError(fault));
        },
        complete() {
          if (timer !== undefined) {
            draw();
          }
          observer.complete();
        },
      });

      return {
        unsubscribe() {
          window.clearTimeout(timer);
          unsubscribe();
        },
      };
    },
  };
}

function isHeartbeat(result: FormattedExecutionResult | undefined): boolean {
  const item = result?.data?.events as { __typename?: string } | undefined;
  return item?.__typename === "StreamHeartbeat";
}
