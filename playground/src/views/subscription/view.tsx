/** One subscription: its state and actions, its work, its history, its settings and its catalog entry. */

import { Anchor, SimpleGrid } from "@mantine/core";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { useApiQuery } from "../../api/hooks";
import { useLiveRefresh } from "../../api/live_refresh";
import { IdLink } from "../../ui/id_link";
import { OpenAsGraphql } from "../../ui/open_as_graphql";
import { Empty, Failure, Loading, PartialData } from "../../ui/states";
import { Time } from "../../ui/time";
import { ViewPage } from "../../ui/view_page";
import { ExecutionHistory } from "../execution_history/panel";
import { SubscriptionChangesDocument } from "../subscriptions/operations.generated";
import { SubscriptionActions } from "../subscriptions/subscription_actions";
import { SubscriptionStatusBadge } from "../subscriptions/subscription_table";
import { TransitionResult } from "../subscriptions/transition_result";
import { useTransition } from "../subscriptions/use_transition";
import { CatalogEntryPanel } from "./catalog_entry_panel";
import { ExecutionsPanel } from "./executions_panel";
import { HistoryPanel } from "./history_panel";
import {
  SubscriptionDetailDocument,
  SubscriptionHistoryDocument,
  SubscriptionRegistrationsDocument,
} from "./operations.generated";
import { RegistrationsPanel } from "./registrations_panel";
import { SettingsPanel } from "./settings_panel";
import type { Subscription } from "./subscription";
import { WorkFigures } from "./work_figures";
import classes from "./view.module.css";

const route = getRouteApi("/subscriptions/$id");
const LIVE_QUERIES = [SubscriptionDetailDocument, SubscriptionHistoryDocument, SubscriptionRegistrationsDocument];

export function SubscriptionView() {
  const { id } = route.useParams();
  const { data, error, isPlaceholderData, refetch } = useApiQuery(SubscriptionDetailDocument, { id });
  useLiveRefresh(SubscriptionChangesDocument, { subscriptionIds: [id] }, LIVE_QUERIES);
  if (!data || isPlaceholderData) {
    return <ViewPage title="Subscription">{error ? <Failure error={error} retry={refetch} /> : <Loading />}</ViewPage>;
  }
  const { subscription } = data.data;
  return subscription ? (
    <Details key={id} subscription={subscription}>
      <PartialData errors={data.errors} />
      {error && <Failure error={error} retry={refetch} />}
    </Details>
  ) : (
    <ViewPage title="Subscription">
      <PartialData errors={data.errors} />
      <Empty title="This subscription does not exist">
        Check the id, or choose one in the{" "}
        <Anchor component={Link} to="/subscriptions" inherit underline="always">
          list of subscriptions
        </Anchor>
        .
      </Empty>
    </ViewPage>
  );
}

function Details({ subscription, children }: { subscription: Subscription; children: ReactNode }) {
  const transition = useTransition();
  const { id, path, status, updatedAt } = subscription;
  const playbook = subscription.spec?.dispatch.playbook ?? null;
  return (
    <ViewPage
      title={path}
      description={
        <span className={classes.facts}>
          <SubscriptionStatusBadge subscription={subscription} />
          <span>
            in this state since <Time value={updatedAt} absolute />
          </span>
          <IdLink id={id} kind="subscription" />
        </span>
      }
      actions={
        <>
          <SubscriptionActions subscription={subscription} transition={transition} />
          <OpenAsGraphql document={SubscriptionDetailDocument} variables={{ id }} />
        </>
      }
    >
      <TransitionResult transition={transition} current={subscription.statusText} />
      {children}
      <SimpleGrid cols={{ base: 2, sm: 3, lg: 5 }} spacing="sm">
        <WorkFigures id={id} draining={status === "DRAINING"} />
      </SimpleGrid>
      {playbook !== null && <ExecutionHistory path={playbook} named />}
      <div className={classes.panels}>
        <div className={classes.column}>
          <ExecutionsPanel id={id} />
          <CatalogEntryPanel subscription={subscription} />
          <RegistrationsPanel id={id} path={path} />
        </div>
        <div className={classes.column}>
          <HistoryPanel id={id} />
          <SettingsPanel subscription={subscription} />
        </div>
      </div>
    </ViewPage>
  );
}
