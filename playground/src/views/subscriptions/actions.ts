/** The actions on a subscription: their names, their results in words, and their operations. */

import type { TypedDocument } from "../../api/client";
import type {
  Capability,
  SubscriptionAction,
  SubscriptionStatus,
  SubscriptionTransitionInput,
} from "../../api/schema.generated";
import {
  ActivateSubscriptionDocument,
  DeactivateSubscriptionDocument,
  DrainSubscriptionDocument,
  PauseSubscriptionDocument,
  ResumeSubscriptionDocument,
  type PauseSubscriptionMutation,
} from "./operations.generated";

/** A caller with only `OWN_LIFECYCLE` can change the subscriptions that it registered; the server checks that. */
export const CHANGE_ONE: readonly Capability[] = ["LIFECYCLE", "OWN_LIFECYCLE"];

interface Action {
  label: string;
  /** Result of the action, as a sentence. */
  effect: string;
  target: SubscriptionStatus;
  /** Whether the user confirms it first, because messages stop for longer than a pause. */
  confirmed: boolean;
  document: TypedDocument<PauseSubscriptionMutation, { input: SubscriptionTransitionInput }>;
}

export const ACTIONS: Record<SubscriptionAction, Action> = {
  ACTIVATE: {
    label: "Activate",
    effect: "It starts to receive messages.",
    target: "ACTIVE",
    confirmed: false,
    document: ActivateSubscriptionDocument,
  },
  RESUME: {
    label: "Resume",
    effect: "It receives messages again.",
    target: "ACTIVE",
    confirmed: false,
    document: ResumeSubscriptionDocument,
  },
  PAUSE: {
    label: "Pause",
    effect: "It receives no messages until it is resumed. The source keeps them.",
    target: "PAUSED",
    confirmed: false,
    document: PauseSubscriptionDocument,
  },
  DRAIN: {
    label: "Drain",
    effect: "It processes the messages that it has received, and receives no more. It can't be paused or resumed after that.",
    target: "DRAINING",
    confirmed: true,
    document: DrainSubscriptionDocument,
  },
  DEACTIVATE: {
    label: "Deactivate",
    effect: "It ends, and its path is free for another registration.",
    target: "DEACTIVATED",
    confirmed: true,
    document: DeactivateSubscriptionDocument,
  },
};

/** Actions in the order in which they are offered. */
export const ACTION_ORDER: readonly SubscriptionAction[] = ["PAUSE", "RESUME", "ACTIVATE", "DRAIN", "DEACTIVATE"];
