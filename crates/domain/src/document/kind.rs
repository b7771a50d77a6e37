//! Kinds of catalog entries.

/// Kind of a catalog entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Workflow that can be executed.
    Playbook,
    /// Entry that can be executed like a playbook.
    Agent,
    /// Receiver of messages, which starts an execution for each message.
    Subscription,
    /// Access data of another system.
    Credential,
    /// Server of the Model Context Protocol.
    Mcp,
    /// Memory of agents.
    Memory,
    /// Kind that this server does not know. NoETL's databases may have further kinds.
    Unknown,
}

impl Kind {
    /// Known kinds.
    pub const KNOWN: [Self; 6] =
        [Self::Playbook, Self::Agent, Self::Subscription, Self::Credential, Self::Mcp, Self::Memory];

    /// Returns the kind with this stored name, in any case.
    #[must_use]
    pub fn from_stored(name: &str) -> Self {
        let known =
            Self::KNOWN.into_iter().find(|kind| kind.name().is_some_and(|known| known.eq_ignore_ascii_case(name)));
        known.unwrap_or(Self::Unknown)
    }

    /// Returns the name in lower case, as it is stored; `None` for an unknown kind.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Playbook => Some("playbook"),
            Self::Agent => Some("agent"),
            Self::Subscription => Some("subscription"),
            Self::Credential => Some("credential"),
            Self::Mcp => Some("mcp"),
            Self::Memory => Some("memory"),
            Self::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_names_are_read_in_any_case_and_other_names_are_unknown() {
        for kind in Kind::KNOWN {
            let name = kind.name().unwrap();
            assert_eq!((Kind::from_stored(name), Kind::from_stored(&name.to_uppercase())), (kind, kind));
        }
        assert_eq!((Kind::from_stored("tool"), Kind::from_stored("")), (Kind::Unknown, Kind::Unknown));
        assert_eq!(Kind::Unknown.name(), None);
    }
}
