/** Carries out an action on one subscription, and keeps its result in words. */

import { useMutation, useQueryClient } from "@tanstack/react-query";

import { send } from "../../api/client";
import type { ApiError } from "../../api/errors";
import type { SubscriptionAction, SubscriptionTransitionInput } from "../../api/schema.generated";
import { sendAgain } from "../../api/send_again";
import { ACTIONS } from "./actions";

export interface Transition {
  action: SubscriptionAction;
  path: string;
  input: SubscriptionTransitionInput;
}

/** Result of a transition: the status after it, or the reasons it was refused. */
export interface TransitionOutcome {
  status: string | null;
  refusals: readonly { message: string }[];
}

export function useTransition() {
  const queries = useQueryClient();
  return useMutation<TransitionOutcome, ApiError, Transition>({
    mutationFn: async ({ action, input }) => {
      const { data, errors } = await send(ACTIONS[action].document, { input });
      const refusals = data.transition?.userErrors ?? errors;
      return { status: data.transition?.subscription?.statusText ?? null, refusals };
    },
    onSettled: () => sendAgain(queries),
  });
}

export type TransitionState = ReturnType<typeof useTransition>;
