//! Kind of a catalog entry.

use async_graphql::Enum;

use noetl_domain::document::kind::Kind;

/// Kind of a catalog entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "Kind")]
pub enum CatalogKind {
    /// Workflow that can be executed.
    Playbook,
    /// Entry that can be executed like a playbook.
    Agent,
    /// Source subscription: a receiver of messages, which starts an execution for each message.
    Subscription,
    /// Access data of another system.
    Credential,
    /// Server of the Model Context Protocol.
    Mcp,
    /// Memory of agents.
    Memory,
    /// Stored under a name that this server does not know; `kindText` contains the name.
    Unknown,
}
