//! Rows of a table as they are copied: in the text form of `COPY`, with the columns that the source has.

use futures::StreamExt;
use sqlx::AssertSqlSafe;

use super::session::Session;
use crate::error::StorageError;

/// Columns of a table, as quoted names.
#[derive(Debug)]
pub(super) struct Columns(Vec<String>);

impl Columns {
    /// Reads the columns that the source's table has. The target's must have them too.
    pub(super) async fn read(
        source: &mut Session<'_>,
        target: &mut Session<'_>,
        table: &str,
    ) -> Result<Self, StorageError> {
        let (columns, known) = (columns_of(source, table).await?, columns_of(target, table).await?);
        match columns.iter().find(|column| !known.contains(column)) {
            None => Ok(Self(columns)),
            Some(missing) => Err(target
                .shard
                .corrupt(format!("no column {missing} in noetl.{table}, which the source of the move has"))),
        }
    }

    /// Returns the names, separated by commas, without those that are skipped.
    pub(super) fn without(&self, skipped: &[&str]) -> String {
        self.each(skipped, str::to_owned)
    }

    /// Returns the assignments of an `ON CONFLICT` clause that replaces the columns.
    pub(super) fn replaced(&self) -> String {
        self.each(&[], |name| format!("{name} = excluded.{name}"))
    }

    fn each(&self, skipped: &[&str], text: impl Fn(&str) -> String) -> String {
        let columns = self.0.iter().filter(|name| !skipped.contains(&name.as_str()));
        columns.map(|name| text(name)).collect::<Vec<_>>().join(", ")
    }
}

async fn columns_of(session: &mut Session<'_>, table: &str) -> Result<Vec<String>, StorageError> {
    let names = sqlx::query_scalar!(
        r#"SELECT quote_ident(attname) AS "name!" FROM pg_attribute
           WHERE attrelid = ('noetl.' || $1::text)::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
           ORDER BY attnum"#,
        table,
    );
    names.fetch_all(&mut session.connection).await.map_err(|error| session.shard.failed(error))
}

/// Copies the rows of a query of the source to a table of the target, which is temporary.
pub(super) async fn copy(
    source: &mut Session<'_>,
    target: &mut Session<'_>,
    query: &str,
    into: &str,
) -> Result<u64, StorageError> {
    let (from, to) = (source.shard, target.shard);
    let out = format!("COPY ({query}) TO STDOUT");
    let mut rows = source.connection.copy_out_raw(&out).await.map_err(|error| from.failed(error))?;
    let into = format!("COPY {into} FROM STDIN");
    let mut sink = target.connection.copy_in_raw(&into).await.map_err(|error| to.failed(error))?;
    while let Some(chunk) = rows.next().await {
        match chunk {
            Ok(chunk) => {
                sink.send(chunk).await.map_err(|error| to.failed(error))?;
            }
            Err(error) => {
                sink.abort("the source failed").await.map_err(|error| to.failed(error))?;
                return Err(from.failed(error));
            }
        }
    }
    sink.finish().await.map_err(|error| to.failed(error))
}

/// Runs a statement whose text consists of constants, numbers and quoted names from PostgreSQL's catalog.
pub(super) async fn run(session: &mut Session<'_>, statement: &str) -> Result<(), StorageError> {
    let outcome = sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut session.connection).await;
    outcome.map(drop).map_err(|error| session.shard.failed(error))
}

/// Returns the number of the rows that a condition selects, and the sum of their 64-bit hashes.
pub(super) async fn checksum(
    session: &mut Session<'_>,
    table: &str,
    columns: &str,
    condition: &str,
) -> Result<(i64, String), StorageError> {
    let query = format!(
        "SELECT count(*), coalesce(sum(hashtextextended(ROW({columns})::text, 0)), 0)::text
         FROM noetl.{table} WHERE {condition}"
    );
    let checksum = sqlx::query_as(AssertSqlSafe(query)).fetch_one(&mut session.connection).await;
    checksum.map_err(|error| session.shard.failed(error))
}

/// Returns the condition that selects the rows of these executions.
pub(super) fn of(executions: &[i64]) -> String {
    let list: Vec<String> = executions.iter().map(i64::to_string).collect();
    format!("execution_id = ANY ('{{{}}}'::bigint[])", list.join(","))
}

/// Returns the condition that selects the open outbox rows of these executions.
pub(super) fn open(executions: &[i64]) -> String {
    format!("{} AND status <> 'PUBLISHED'", of(executions))
}
