/** The source subscriptions: their state and work, actions on one or on all of the list, and registration. */

import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";

import { useApiPages } from "../../api/hooks";
import { useLiveRefresh } from "../../api/live_refresh";
import { ExportMenu } from "../../ui/export_menu";
import { OpenAsGraphql } from "../../ui/open_as_graphql";
import { Panel } from "../../ui/panel";
import { PermittedButton } from "../../ui/permitted_button";
import { Failure, Loading, PartialData } from "../../ui/states";
import { ViewPage } from "../../ui/view_page";
import { CHANGE_ONE } from "./actions";
import { useActivities } from "./activity";
import { BulkActions } from "./bulk_actions";
import { DeactivatedSwitch } from "./deactivated_switch";
import { choosesStatuses, filterInWords, filterOf } from "./filter";
import { DeactivatedCountDocument, SubscriptionChangesDocument, SubscriptionListDocument } from "./operations.generated";
import { RegisterDialog } from "./register_dialog";
import { SubscriptionFilters } from "./subscription_filters";
import { EXPORTED, SubscriptionTable } from "./subscription_table";
import { TransitionResult } from "./transition_result";
import { useTransition } from "./use_transition";

const route = getRouteApi("/subscriptions");
const LIVE_QUERIES = [SubscriptionListDocument, DeactivatedCountDocument];

export function SubscriptionsView() {
  const { statuses, path, labels, deactivated, register } = route.useSearch();
  const navigate = route.useNavigate();
  const transition = useTransition();
  const filter = useMemo(() => filterOf({ statuses, path, labels, deactivated }), [statuses, path, labels, deactivated]);
  const filtered = choosesStatuses(statuses) || (path ?? labels) !== undefined;
  const list = useApiPages(SubscriptionListDocument, { filter }, (data) => data.subscriptions);
  useLiveRefresh(SubscriptionChangesDocument, { filter }, LIVE_QUERIES);
  const activities = useActivities(list.nodes.map((subscription) => subscription.id));
  const changed = list.nodes.find(({ id }) => id === transition.variables?.input.subscriptionId);
  const openDialog = (entry: string | undefined) =>
    void navigate({ search: (before) => ({ ...before, register: entry }), replace: register !== undefined });

  return (
    <ViewPage
      title="Subscriptions"
      description="Receivers of messages. Each message starts an execution."
      actions={
        <>
          <PermittedButton capability={CHANGE_ONE} onClick={() => openDialog("choose")}>
            Register a subscription
          </PermittedButton>
          <ExportMenu
            name="subscriptions"
            document={SubscriptionListDocument}
            variables={{ filter }}
            select={(data) => data.subscriptions}
            columns={EXPORTED}
          />
          <OpenAsGraphql document={SubscriptionListDocument} variables={{ filter }} />
        </>
      }
    >
      <SubscriptionFilters />
      <TransitionResult transition={transition} current={changed?.statusText} />
      <PartialData unavailableShards={list.unavailableShards} errors={list.errors} />
      {list.query.error && <Failure error={list.query.error} retry={list.query.refetch} />}
      <Panel
        title={titleOf(filtered, deactivated === "1")}
        actions={
          <>
            <DeactivatedSwitch />
            <BulkActions filter={filter} selected={filterInWords({ statuses, path, labels, deactivated })} />
          </>
        }
      >
        {list.query.data ? (
          <SubscriptionTable
            subscriptions={list.nodes}
            activities={activities}
            transition={transition}
            filtered={filtered}
            pages={list.query}
          />
        ) : (
          !list.query.error && <Loading />
        )}
      </Panel>
      {register !== undefined && <RegisterDialog entry={register} onChoose={openDialog} onClose={() => openDialog(undefined)} />}
    </ViewPage>
  );
}

function titleOf(filtered: boolean, withDeactivated: boolean): string {
  if (filtered) {
    return "Subscriptions that match the filter";
  }
  return withDeactivated ? "All subscriptions" : "Subscriptions that are not deactivated";
}
