//! Rights of a role that runs servers without owning the tables: which ones it needs, lacks, and is granted.
//!
//! Rows of partitions are read and written through `noetl.event`, and PostgreSQL checks the rights on this table only. So
//! partitions that are created later need none. The default partition is also read by its own name. A trigger's function
//! needs no right of the writer. The one that writes `noetl.execution_label` has the rights of its owner.

use std::fmt;

use sqlx::{AssertSqlSafe, Connection, PgExecutor};

use super::error::StorageError;
use super::pools::Database;

/// Tables and the view that servers and housekeeping use, with the rights that their statements need.
const TABLES: [(&str, &str); 28] = [
    ("_sqlx_migrations", "SELECT"),
    ("adopted_table", "SELECT"),
    ("bucket_fence", "SELECT INSERT UPDATE DELETE"),
    ("bucket_move", "SELECT INSERT UPDATE DELETE"),
    ("catalog", "SELECT INSERT UPDATE"),
    ("database_identity", "SELECT INSERT UPDATE"),
    ("event", "SELECT INSERT UPDATE DELETE"),
    ("execution", "SELECT INSERT UPDATE DELETE"),
    ("execution_history", "SELECT INSERT DELETE"),
    ("execution_history_late", "SELECT INSERT DELETE"),
    ("execution_history_progress", "SELECT UPDATE"),
    ("execution_label", "SELECT"),
    ("machine_lease", "SELECT UPDATE"),
    ("outbox", "SELECT INSERT UPDATE DELETE"),
    ("outbox_forward", "SELECT INSERT UPDATE DELETE"),
    ("projection_cursor", "SELECT INSERT UPDATE"),
    ("projection_snapshot", "SELECT INSERT UPDATE DELETE"),
    ("read_model_fill", "SELECT INSERT UPDATE DELETE"),
    ("server_life", "SELECT INSERT"),
    ("shard_bucket", "SELECT INSERT UPDATE"),
    ("shard_map_version", "SELECT UPDATE"),
    ("source_subscription", "SELECT"),
    ("stream_cursor", "SELECT"),
    ("subscription_dedup", "SELECT INSERT UPDATE DELETE"),
    ("subscription_registry", "SELECT INSERT UPDATE"),
    ("tail_anchor", "SELECT INSERT UPDATE"),
    ("tail_cursor", "SELECT INSERT UPDATE"),
    ("tail_renumbering", "SELECT INSERT UPDATE DELETE"),
];

/// Functions that statements, indexes and other functions call.
const FUNCTIONS: [&str; 20] = [
    "bucket_of",
    "database_history",
    "duration_bounds",
    "duration_class",
    "duration_time",
    "history_class",
    "list_time",
    "log_end",
    "log_owner",
    "multiply_64",
    "outbox_owner",
    "outbox_selected",
    "outbox_state",
    "outbox_subject",
    "refuse_path_prefix",
    "require_server_life",
    "sent_meta",
    "server_life",
    "span_start",
    "subject_token",
];

/// Rights on one object that a role lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingRights {
    /// Role that lacks them.
    pub role: String,
    /// Kind and name of the object, such as `TABLE noetl.event`.
    object: String,
    /// Names of the rights, separated by commas.
    rights: String,
    /// Statement that grants them.
    grant: String,
}

impl fmt::Display for MissingRights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.rights, self.object)
    }
}

/// Returns whether a role exists on the database's server.
#[tracing::instrument(level = "debug", name = "sql.rights.role_exists", skip_all, fields(database = %database.name()))]
pub async fn role_exists(database: &Database, role: &str) -> Result<bool, StorageError> {
    let exists =
        sqlx::query_scalar!(r#"SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1::text) AS "exists!""#, role);
    database.run(exists.fetch_one(database.pool())).await
}

/// Returns the rights that the role of the connections lacks on the existing objects.
#[tracing::instrument(level = "debug", name = "sql.rights.missing", skip_all, fields(database = %database.name()))]
pub async fn missing(database: &Database) -> Result<Vec<MissingRights>, StorageError> {
    database.run(lacked(database.pool(), None)).await
}

/// Grants a role the rights that it lacks, in one transaction. Returns those that this role can't grant.
#[tracing::instrument(level = "debug", name = "sql.rights.grant", skip_all, fields(database = %database.name()))]
pub async fn grant(database: &Database, role: &str) -> Result<Vec<MissingRights>, StorageError> {
    let work = async {
        let mut connection = database.connect().await?;
        let mut tx = connection.begin().await?;
        // PostgreSQL refuses concurrent changes of the rights on one object.
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended('noetl.rights', 0))";
        sqlx::query(lock).execute(&mut *tx).await?;
        for missing in lacked(&mut *tx, Some(role)).await? {
            sqlx::raw_sql(AssertSqlSafe(missing.grant)).execute(&mut *tx).await?;
        }
        let left = lacked(&mut *tx, Some(role)).await?;
        tx.commit().await?;
        connection.close().await?;
        Ok(left)
    };
    work.await.map_err(|error: sqlx::Error| database.failed(error))
}

/// Returns the rights that a role lacks; `None`: the current role. A role also has the rights of an owner, of the roles
/// that it is a member of, and of everyone. The statement reads PostgreSQL's catalog only, so it needs no right.
async fn lacked(connection: impl PgExecutor<'_>, role: Option<&str>) -> sqlx::Result<Vec<MissingRights>> {
    let (tables, rights): (Vec<String>, Vec<String>) =
        TABLES.iter().map(|(table, rights)| ((*table).to_owned(), (*rights).to_owned())).unzip();
    let functions: Vec<String> = FUNCTIONS.iter().map(|name| (*name).to_owned()).collect();
    sqlx::query_as!(
        MissingRights,
        r#"WITH grantee AS MATERIALIZED (SELECT coalesce($1::text, current_user::text)::name AS name),
           space AS MATERIALIZED (SELECT oid FROM pg_namespace WHERE nspname = 'noetl'),
           listed AS MATERIALIZED (
               SELECT class.oid, given.name, given.rights
               FROM unnest($2::text[], $3::text[]) AS given (name, rights)
               JOIN pg_class AS class ON class.relname = given.name
               JOIN space ON space.oid = class.relnamespace
           ),
           -- Materialized, so that no check of a right is made before the conditions on the kind of object.
           wanted (place, object, privilege, held) AS MATERIALIZED (
               SELECT 1, 'SCHEMA noetl', 'USAGE', has_schema_privilege(grantee.name, space.oid, 'USAGE')
               FROM space CROSS JOIN grantee
               UNION ALL
               SELECT 2, format('TABLE noetl.%I', listed.name), privilege,
                      has_table_privilege(grantee.name, listed.oid, privilege)
               FROM listed CROSS JOIN grantee CROSS JOIN unnest(string_to_array(listed.rights, ' ')) AS privilege
               UNION ALL
               SELECT 2, format('TABLE %I.%I', nspname, relname), 'SELECT',
                      has_table_privilege(grantee.name, class.oid, 'SELECT')
               FROM listed
               JOIN pg_partitioned_table AS parent ON parent.partrelid = listed.oid
               JOIN pg_class AS class ON class.oid = parent.partdefid
               JOIN pg_namespace ON pg_namespace.oid = class.relnamespace
               CROSS JOIN grantee
               UNION ALL
               SELECT 3, format('SEQUENCE %I.%I', nspname, relname), 'USAGE',
                      has_sequence_privilege(grantee.name, class.oid, 'USAGE')
               FROM pg_class AS class
               JOIN pg_namespace ON pg_namespace.oid = class.relnamespace
               CROSS JOIN grantee
               WHERE class.relkind = 'S' AND (
                   (nspname = 'noetl' AND relname = 'outbox_lease_token')
                   -- Sequences of columns' defaults.
                   OR class.oid IN (
                       SELECT objid FROM pg_depend JOIN listed ON listed.oid = refobjid
                       WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass AND deptype = 'a'))
               UNION ALL
               SELECT 4, format('FUNCTION noetl.%I(%s)', proname, pg_get_function_identity_arguments(proc.oid)),
                      'EXECUTE', has_function_privilege(grantee.name, proc.oid, 'EXECUTE')
               FROM pg_proc AS proc
               JOIN space ON space.oid = proc.pronamespace
               CROSS JOIN grantee
               WHERE proname = ANY($4::text[])
           )
           SELECT grantee.name::text AS "role!", object AS "object!", rights AS "rights!",
                  format('GRANT %s ON %s TO %I', rights, object, grantee.name) AS "grant!"
           FROM (
               SELECT place, object, string_agg(privilege, ', ' ORDER BY privilege) AS rights
               FROM wanted WHERE NOT held GROUP BY place, object
           ) AS lacked
           CROSS JOIN grantee
           ORDER BY place, object"#,
        role,
        &tables,
        &rights,
        &functions,
    )
    .fetch_all(connection)
    .await
}
