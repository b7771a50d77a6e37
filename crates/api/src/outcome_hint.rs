//! Hints for callers whose mutation reached its deadline, so that its outcome is unknown to them.

/// Returns the sentence that tells how to find out the outcome of a mutation, by the name of its root field.
#[must_use]
pub fn outcome_hint(field: &str) -> Option<&'static str> {
    Some(match field {
        "registerCatalogEntry" => {
            "Query catalogEntry by its path: the newest version has the content if it was stored."
        }
        "registerSubscription" => "Send registerSubscription again: it returns the path's live subscription.",
        "activateSubscription"
        | "pauseSubscription"
        | "resumeSubscription"
        | "drainSubscription"
        | "deactivateSubscription" => "Query subscription for its state and lastEventId.",
        "transitionSubscriptions" => "Query subscriptions with the same filter for their states.",
        "execute" | "executeBatch" | "rerunExecution" | "rerunExecutions" => {
            "With a dedup key, send the request again with the same key. Without a key, query executions first: \
             sending the request again may start a second execution."
        }
        "archiveCatalogEntry" | "restoreCatalogEntry" | "cancelExecution" | "cancelExecutions" => {
            "Send the request again: repeating it is harmless."
        }
        "advanceProjections" => "Send advanceProjections again: repeating it is harmless.",
        "projectEvents" | "projectEventDocuments" => {
            "Send projectEvents again with the same event ids or keys: known events are skipped."
        }
        "reserveEventIds" => "Send reserveEventIds again: ids that were reserved without a response stay unused.",
        "claimOutbox" => "Claim again: entries claimed without a response become claimable when their lease expires.",
        "markOutboxPublished" => "Send markOutboxPublished again with the same lease: repeating it is harmless.",
        "markOutboxFailed" | "renewOutboxLeases" | "retryOutbox" => "Query outbox for the status of the entries.",
        "discardOutbox" => "Query outbox for the DEAD entries that remain.",
        _ => return None,
    })
}
