//! Commands for operators without a browser: lists and changes of executions, outbox entries and source subscriptions,
//! over the public API of a running server.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Failure;
use super::client::{Client, ClientError, Server, refusal};
use super::output::{self, Form};

/// Server and output of a command.
#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    server: Server,
    /// Form of the output
    #[arg(long, global = true, value_enum, default_value_t)]
    output: Form,
}

/// `executions`.
#[derive(Debug, Args)]
pub(super) struct Executions {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    action: ExecutionAction,
}

#[derive(Debug, Subcommand)]
enum ExecutionAction {
    /// List executions, newest first.
    List {
        /// Only executions with this status, such as RUNNING; may be repeated
        #[arg(long)]
        status: Vec<String>,
        /// Only executions whose path begins with this text
        #[arg(long)]
        path_prefix: Option<String>,
        /// Only the execution of this dedup key
        #[arg(long)]
        dedup_key: Option<String>,
        /// Maximum number (1 to 100)
        #[arg(long, default_value_t = 25)]
        first: u32,
    },
    /// Show an execution with its steps.
    Show {
        /// Id of the execution
        id: String,
    },
    /// Cancel an execution.
    Cancel {
        /// Id of the execution
        id: String,
        /// Cancel the executions that it started, too
        #[arg(long)]
        cascade: bool,
        /// Reason for the log of the execution
        #[arg(long)]
        reason: Option<String>,
    },
}

/// `outbox`.
#[derive(Debug, Args)]
pub(super) struct Outbox {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    action: OutboxAction,
}

#[derive(Debug, Subcommand)]
enum OutboxAction {
    /// List outbox entries.
    List {
        /// Only entries with this status, such as DEAD; may be repeated
        #[arg(long)]
        status: Vec<String>,
        /// Maximum number (1 to 100)
        #[arg(long, default_value_t = 25)]
        first: u32,
    },
    /// Make failed and DEAD entries claimable again.
    Retry(Entries),
    /// Delete DEAD entries.
    Discard(Entries),
}

#[derive(Debug, Args)]
struct Entries {
    /// Ids of the entries (`entryId`)
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<String>,
    /// Select all entries
    #[arg(long)]
    all: bool,
    /// Change nothing, and only count the entries
    #[arg(long)]
    dry_run: bool,
}

/// `subscriptions`.
#[derive(Debug, Args)]
pub(super) struct Subscriptions {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    action: SubscriptionAction,
}

#[derive(Debug, Subcommand)]
enum SubscriptionAction {
    /// List source subscriptions, newest first.
    List {
        /// Maximum number (1 to 100)
        #[arg(long, default_value_t = 25)]
        first: u32,
    },
    /// Activate a source subscription.
    Activate(Subscription),
    /// Pause a source subscription.
    Pause(Subscription),
    /// Resume a paused source subscription.
    Resume(Subscription),
    /// Drain a source subscription: it takes no new messages.
    Drain(Subscription),
    /// Deactivate a source subscription.
    Deactivate(Subscription),
}

#[derive(Debug, Args)]
struct Subscription {
    /// Id of the subscription
    id: String,
}

/// An operation with the places of its result.
struct Request {
    query: String,
    variables: Value,
    /// JSON pointer to the result in the data.
    result: &'static str,
    /// JSON pointer to a list of rows, or to one row, in the result.
    rows: &'static str,
    columns: &'static [&'static str],
    /// Whether the plain fields of the result stand before the table.
    with_fields: bool,
}

impl Default for Request {
    fn default() -> Self {
        let (query, variables) = (String::new(), Value::Null);
        Self { query, variables, result: "/done", rows: "", columns: &[], with_fields: false }
    }
}

impl Executions {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let columns = &["id", "status", "path", "startedAt", "endedAt", "error"];
        let request = match self.action {
            ExecutionAction::List { status, path_prefix, dedup_key, first } => {
                let statuses = (!status.is_empty()).then_some(status);
                let filter = json!({ "statuses": statuses, "pathPrefix": path_prefix, "dedupKey": dedup_key });
                Request {
                    query: "query Executions($filter: ExecutionFilter, $first: Int) {
                        done: executions(filter: $filter, first: $first) {
                            nodes { id status path startedAt endedAt error } unavailableShards } }"
                        .to_owned(),
                    variables: json!({ "filter": filter, "first": first }),
                    rows: "/nodes",
                    columns,
                    ..Request::default()
                }
            }
            ExecutionAction::Show { id } => Request {
                query: "query Execution($id: ID!) { done: execution(id: $id) {
                    id status path startedAt endedAt error shard eventCount
                    steps(first: 100) { nodes { name status enteredAt completedAt error } } } }"
                    .to_owned(),
                variables: json!({ "id": id }),
                rows: "/steps/nodes",
                columns: &["name", "status", "enteredAt", "completedAt", "error"],
                with_fields: true,
                ..Request::default()
            },
            ExecutionAction::Cancel { id, cascade, reason } => Request {
                query: "mutation Cancel($input: CancelExecutionInput!) { done: cancelExecution(input: $input) {
                    execution { id status path startedAt endedAt error } cancelled complete
                    userErrors { message retryable } } }"
                    .to_owned(),
                variables: json!({ "input": { "executionId": id, "cascade": cascade, "reason": reason } }),
                rows: "/execution",
                columns,
                ..Request::default()
            },
        };
        request.run(&self.options).await
    }
}

impl Outbox {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let change = |mutation: &str, input: &str, number: &str, entries: Entries| {
            let select = if entries.all { json!({ "all": true }) } else { json!({ "ids": entries.ids }) };
            (
                format!(
                    "mutation Change($input: {input}!) {{ done: {mutation}(input: $input) {{
                        matched changed: {number} unavailableShards userErrors {{ message retryable }} }} }}"
                ),
                json!({ "input": { "select": select, "dryRun": entries.dry_run } }),
            )
        };
        let (query, variables) = match self.action {
            OutboxAction::List { status, first } => {
                let statuses = (!status.is_empty()).then_some(status);
                let request = Request {
                    query: "query Entries($filter: OutboxFilter, $first: Int) { outbox {
                        done: entries(filter: $filter, first: $first) {
                            nodes { entryId status executionId attempts createdAt availableAt lastError }
                            unavailableShards } } }"
                        .to_owned(),
                    variables: json!({ "filter": { "statuses": statuses }, "first": first }),
                    result: "/outbox/done",
                    rows: "/nodes",
                    columns: &["entryId", "status", "executionId", "attempts", "createdAt", "availableAt", "lastError"],
                    ..Request::default()
                };
                return request.run(&self.options).await;
            }
            OutboxAction::Retry(entries) => change("retryOutbox", "RetryOutboxInput", "retried", entries),
            OutboxAction::Discard(entries) => change("discardOutbox", "DiscardOutboxInput", "discarded", entries),
        };
        let request = Request { query, variables, columns: &["matched", "changed"], ..Request::default() };
        request.run(&self.options).await
    }
}

impl Subscriptions {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let columns = &["id", "status", "path", "shard", "registeredAt", "updatedAt"];
        let (action, id) = match self.action {
            SubscriptionAction::List { first } => {
                let request = Request {
                    query: "query Subscriptions($first: Int) { done: subscriptions(first: $first) {
                        nodes { id status path shard registeredAt updatedAt } unavailableShards } }"
                        .to_owned(),
                    variables: json!({ "first": first }),
                    rows: "/nodes",
                    columns,
                    ..Request::default()
                };
                return request.run(&self.options).await;
            }
            SubscriptionAction::Activate(of) => ("activate", of.id),
            SubscriptionAction::Pause(of) => ("pause", of.id),
            SubscriptionAction::Resume(of) => ("resume", of.id),
            SubscriptionAction::Drain(of) => ("drain", of.id),
            SubscriptionAction::Deactivate(of) => ("deactivate", of.id),
        };
        let query = format!(
            "mutation Transition($id: ID!) {{ done: {action}Subscription(input: {{subscriptionId: $id}}) {{
                subscription {{ id status path shard registeredAt updatedAt }} userErrors {{ message retryable }} }} }}"
        );
        let variables = json!({ "id": id });
        let request = Request { query, variables, rows: "/subscription", columns, ..Request::default() };
        request.run(&self.options).await
    }
}

impl Request {
    /// Sends the request and prints its result. If data of shards are missing that can't be reached, standard error says
    /// so.
    async fn run(self, options: &Options) -> Result<(), Failure> {
        let data = Client::new(&options.server)?.send(&self.query, self.variables).await?;
        let done = data.pointer(self.result).filter(|done| !done.is_null());
        let Some(done) = done else {
            return Err(ClientError::Refused("there is no such object".to_owned()).into());
        };
        if let Some(error) = done["userErrors"].get(0) {
            return Err(refusal(error).into());
        }
        if let Some(shards) = done["unavailableShards"].as_array().filter(|shards| !shards.is_empty()) {
            output::note(&format!("these shards can't be reached: {}", Value::from(shards.clone())));
        }
        match options.output {
            Form::Json => output::print(&format!("{done:#}\n")),
            Form::Table => {
                let rows = done.pointer(self.rows).unwrap_or(&Value::Null);
                let head = if self.with_fields { fields(done) } else { String::new() };
                output::print(&(head + &output::table(self.columns, rows)))
            }
        }
    }
}

/// Returns the plain fields of an object, one on each line.
fn fields(object: &Value) -> String {
    let fields = object.as_object().into_iter().flatten().filter(|(_, value)| !value.is_object());
    fields.map(|(name, value)| format!("{name}: {}\n", output::cell(value))).chain(["\n".to_owned()]).collect()
}
