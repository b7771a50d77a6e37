//! The schema's fields by the capabilities that a caller needs for them. The table is written independently of the
//! schema: a field that is missing here or has another guard fails a test.

use noetl_auth::principal::Capability::{
    self, Advance, Cancel, Catalog, Execute, Lifecycle, Live, Outbox, OwnLifecycle, Project, Read, Retry,
};

/// Requirement of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// No requirement: a caller that got the object may read the field.
    Open,
    /// The caller must be identified.
    Caller,
    /// The caller must have one of these capabilities.
    Any(&'static [Capability]),
}

use Need::{Any, Caller, Open};

const READ: Need = Any(&[Read]);

pub(super) const FIELDS: &[(&str, Need, &str)] = &[
    // Root types: every field has a guard.
    ("Query", Any(&[Read, Outbox]), "outbox"),
    ("Query", Caller, "server viewer"),
    (
        "Query",
        READ,
        "catalogEntries catalogEntry dedupClaim event eventStream events execution executionHistory executionState executionStats executions node nodes replicas shards \
         stepStats subscription \
         subscriptions validateCatalogEntry",
    ),
    ("Mutation", Any(&[Catalog]), "archiveCatalogEntry registerCatalogEntry restoreCatalogEntry"),
    (
        "Mutation",
        Any(&[Lifecycle, OwnLifecycle]),
        "registerSubscription activateSubscription pauseSubscription resumeSubscription drainSubscription \
         deactivateSubscription",
    ),
    ("Mutation", Any(&[Lifecycle]), "transitionSubscriptions"),
    ("Mutation", Any(&[Execute]), "execute executeBatch rerunExecution rerunExecutions"),
    ("Mutation", Any(&[Cancel]), "cancelExecution cancelExecutions"),
    ("Mutation", Any(&[Advance]), "advanceProjections"),
    ("Mutation", Any(&[Project]), "projectEventDocuments"),
    ("Mutation", Any(&[Project]), "projectEvents"),
    ("Mutation", Any(&[Project]), "reserveEventIds"),
    ("Mutation", Any(&[Outbox]), "claimOutbox markOutboxFailed markOutboxPublished renewOutboxLeases"),
    ("Mutation", Any(&[Retry]), "discardOutbox retryOutbox"),
    ("Subscription", Any(&[Live]), "events executionListUpdates executionUpdates subscriptionUpdates systemStatus"),
    // Fields with payloads, and fields that lead to other objects.
    ("Event", READ, "catalogEntry context error meta owner result stackTrace"),
    (
        "Event",
        Open,
        "catalogId createdAt durationSeconds eventId executionId id nodeId nodeName nodeType organizationId parentEventId parentExecutionId \
         shard status tenantId type",
    ),
    (
        "Execution",
        READ,
        "cancelledBy catalogEntry children context error eventCount events executionPool failedSteps labels parent progress \
         rerunOf reruns result snapshot startedBy steps trace workload",
    ),
    (
        "Execution",
        Open,
        "catalogId durationSeconds endedAt id organizationId path shard startedAt status statusText tenantId",
    ),
    ("ExecutionState", READ, "context error eventCount execution failedSteps progress result steps"),
    ("ExecutionState", Open, "endedAt executionId status statusText"),
    ("LogOwner", Open, "execution subscription"),
    ("SourceSubscription", READ, "backlog catalogEntry executionPool events executions labels spec"),
    (
        "SourceSubscription",
        Open,
        "availableActions catalogId id lastEventId lastEventType organizationId path registeredAt shard status statusText tenantId \
         updatedAt",
    ),
    (
        "CatalogEntry",
        READ,
        "archivedAt archivedBy content description document executions labels name registeredBy versions workflow workload \
         workloadFields",
    ),
    ("CatalogEntry", Open, "catalogId createdAt id kind kindText path version"),
    ("CatalogEntryDraft", READ, "description document labels name workflow workload workloadFields"),
    ("CatalogEntryDraft", Open, "kind path"),
    ("Step", READ, "error result"),
    ("Step", Open, "attempt completedAt durationSeconds enteredAt frames iterations name startedAt status"),
    ("Outbox", READ, "entries"),
    ("Outbox", Open, "stats subjects"),
    ("OutboxEntry", READ, "event execution lastError payload"),
    (
        "OutboxEntry",
        Open,
        "attempts availableAt claimant createdAt dead entryId eventId executionId id leaseExpiresAt organizationId \
         payloadCodec publishedAt status statusText subject tenantId",
    ),
    ("OutboxClaim", Any(&[Outbox]), "payload payloadBase64"),
    (
        "OutboxClaim",
        Open,
        "attempts contentType entry entryId eventId executionId lease leaseExpiresAt messageId organizationId payloadCodec subject \
         tenantId",
    ),
    // Types with only numbers, ids, states and times.
    ("AdvancedProjection", Open, "appliedCount folded version"),
    ("AdvanceProjectionsResult", Open, "advanced executionId index userErrors"),
    ("CaughtUp", Open, "at cursor"),
    ("DedupClaim", READ, "execution"),
    ("DedupClaim", Open, "duplicates executionId expiresAt firstSeenAt"),
    ("CursorFrame", Open, "bodyCompleted bodyIssued claimCompleted index"),
    ("EventDelivery", Open, "at cursor event payloadOmitted"),
    (
        "EventStreamShard",
        Open,
        "feedEpoch lagEvents lagSeconds lastError lastSequence leader leaseExpiresAt oldestOpenTransactionSeconds \
         oldestPreparedTransactionSeconds preparedTransactions publishedEvents shard stream",
    ),
    ("DurationPercentiles", Open, "p50 p95 p99"),
    ("EventStreamStatus", Open, "connected enabled shards"),
    ("ExecutionHistory", Open, "buckets unavailableShards"),
    ("ExecutionHistoryBucket", Open, "cancelled completed durationSeconds failed from started to waitSeconds"),
    ("ExecutionPathCount", Open, "count path"),
    ("ExecutionProgress", Open, "stepsCompleted stepsKnown"),
    ("ExecutionStats", Open, "byPath byStatus capped morePaths total unavailableShards"),
    ("ExecutionStatusCount", Open, "count status"),
    ("ExecutionUpdate", Open, "at cursor execution executionId kind shard"),
    ("OutboxShardStats", Open, "dead failed inFlight oldestPendingAgeSeconds pending shard"),
    ("OutboxSubjectStats", Open, "dead failed inFlight oldestPendingAgeSeconds pending subject"),
    ("OutboxStats", Open, "byShard dead failed inFlight oldestPendingAgeSeconds pending unavailableShards"),
    ("PageInfo", Open, "endCursor hasNextPage hasPreviousPage startCursor"),
    ("ProjectionSnapshot", Open, "appliedCount behindBy checksum schemaVersion updatedAt version"),
    ("ServerInfo", Open, "features limits machineId replica settings startedAt traceUrl uptimeSeconds version"),
    (
        "ServerLimits",
        Open,
        "deadlineSeconds defaultPage maxBatch maxBodyBytes maxContentBytes maxCost maxDepth maxEventBytes maxEvents \
         maxOperationsPerSocket maxPage maxReadBytes maxReadRows maxResponseBytes maxWorkloadBytes",
    ),
    ("ServerSetting", Open, "isDefault name value"),
    ("DeploymentReplica", Open, "leaseExpiresAt machineId replica startedAt version"),
    ("Shard", Open, "available buckets error latencyMilliseconds poolIdle poolSize shard"),
    ("StepDurations", Open, "max p50 p95 p99 total"),
    ("StepIterations", Open, "completed dispatched expected failed"),
    ("StepStats", Open, "executions from moreSteps steps to unavailableShards"),
    (
        "StepSummary",
        Open,
        "attempts durationSeconds executions failed lastFailedExecutionId name share skipped slowestExecutionId",
    ),
    ("StreamGap", Open, "at cursor from reason shard to"),
    ("StreamHeartbeat", Open, "at cursor lagEvents"),
    ("SubscriptionUpdate", Open, "at cursor kind shard subscription subscriptionId"),
    ("SystemStatus", Open, "at cursor eventStream outbox shards"),
    ("UserError", Open, "code field message retryable"),
    ("Viewer", Open, "capabilities expiresAt roles subject tenant"),
    // Settings of a source subscription. The guard of the field `spec` protects them.
    (
        "SubscriptionSpec",
        Open,
        "activation activationText dedup directives dispatch ingress limits mode modeText source sourceText spool",
    ),
    ("SubscriptionDispatch", Open, "batchDispatch batchMax executionPool labels playbook"),
    ("SubscriptionDedup", Open, "enabled windowSeconds"),
    ("SubscriptionLimits", Open, "maxDispatchPerSecond maxInFlight"),
    ("HeaderDirective", Open, "allowed controls header"),
    ("SubscriptionIngress", Open, "gatewayPath verify"),
    ("IngressVerification", Open, "audience header secret serviceAccount type typeText"),
    ("SubscriptionSpool", Open, "backend backendText bucket mode modeText ordering orderingText path"),
    // Parts of a document. The guards of the fields `labels`, `trace`, `workflow` and `workloadFields` protect them.
    ("Label", Open, "name value"),
    ("Workflow", Open, "steps"),
    ("WorkflowStep", Open, "condition description name repetition routing tools transitions"),
    ("WorkflowTool", Open, "kind label playbook"),
    ("WorkflowRepetition", Open, "items iterator mode"),
    ("WorkflowTransition", Open, "condition to"),
    ("WorkloadField", READ, "default"),
    ("WorkloadField", Open, "fields name required type"),
    ("TraceContext", Open, "traceparent tracestate"),
    ("CatalogEntryValidation", Open, "entry userErrors"),
    // Results of mutations. The guard of the mutation protects them.
    ("AdvanceProjectionsPayload", Open, "results userErrors"),
    ("TransitionSubscriptionsPayload", Open, "results unavailableShards userErrors"),
    ("TransitionSubscriptionsResult", Open, "applied index subscription subscriptionId userErrors"),
    ("CancelExecutionPayload", Open, "cancelled complete execution results unavailableShards userErrors"),
    ("CancelExecutionsPayload", Open, "complete continueWith results unavailableShards userErrors"),
    ("CancelExecutionResult", Open, "cancelled execution executionId userErrors"),
    ("CancelExecutionsResult", Open, "cancelled execution executionId index userErrors"),
    ("ClaimOutboxPayload", Open, "claims unavailableShards userErrors"),
    ("DiscardOutboxPayload", Open, "discarded matched unavailableShards userErrors"),
    ("ExecuteBatchPayload", Open, "results userErrors"),
    ("ExecuteBatchResult", Open, "differs execution executionId index outcome userErrors"),
    ("ExecutePayload", Open, "differs execution executionId outcome userErrors"),
    ("RerunExecutionPayload", Open, "differs execution executionId outcome userErrors"),
    ("RerunExecutionsPayload", Open, "complete continueWith results unavailableShards userErrors"),
    ("RerunExecutionsResult", Open, "differs execution executionId index origin originId outcome userErrors"),
    ("MarkOutboxFailedPayload", Open, "results userErrors"),
    ("MarkOutboxFailedResult", Open, "dead entry entryId index retryInSeconds userErrors"),
    ("MarkOutboxPublishedPayload", Open, "published results userErrors"),
    ("MarkOutboxPublishedResult", Open, "entry entryId index userErrors"),
    ("RenewOutboxLeasesPayload", Open, "results userErrors"),
    ("RenewOutboxLeasesResult", Open, "entry entryId index leaseExpiresAt userErrors"),
    ("ProjectEventDocumentsPayload", Open, "duplicates executions projected rejected settled unknownTypes userErrors"),
    ("ProjectEventsResult", Open, "event eventId executionId index userErrors"),
    ("ProjectEventsPayload", Open, "duplicates executions projected rejected settled unknownTypes userErrors"),
    ("ReserveEventIdsPayload", Open, "eventIds userErrors"),
    ("CatalogArchivingPayload", Open, "catalogEntry userErrors"),
    ("RegisterCatalogEntryPayload", Open, "catalogEntry outcome userErrors"),
    ("RetryOutboxPayload", Open, "matched retried unavailableShards userErrors"),
    ("RegisterSubscriptionPayload", Open, "subscription userErrors"),
    ("SubscriptionTransitionPayload", Open, "subscription userErrors"),
    // Pages. The guard of the list protects them.
    ("TotalCount", Open, "capped value"),
    ("CatalogEntryConnection", Open, "edges nodes pageInfo totalCount unavailableShards"),
    ("CursorFrameConnection", Open, "edges nodes pageInfo totalCount unavailableShards"),
    ("CursorFrameEdge", Open, "cursor node"),
    ("StepConnection", Open, "edges nodes pageInfo totalCount unavailableShards"),
    ("StepEdge", Open, "cursor node"),
    ("EventConnection", Open, "edges nodes pageInfo streamCursor totalCount unavailableShards"),
    ("ExecutionConnection", Open, "edges nodes pageInfo totalCount unavailableShards"),
    ("OutboxEntryConnection", Open, "edges nodes pageInfo totalCount unavailableShards"),
    ("SourceSubscriptionConnection", Open, "edges nodes pageInfo totalCount unavailableShards"),
    ("CatalogEntryEdge", Open, "cursor node"),
    ("EventEdge", Open, "cursor node"),
    ("ExecutionEdge", Open, "cursor node"),
    ("OutboxEntryEdge", Open, "cursor node"),
    ("SourceSubscriptionEdge", Open, "cursor node"),
];
