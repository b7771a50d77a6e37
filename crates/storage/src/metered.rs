//! Statements on pooled connections. Each row is charged to the current operation's budget, and the connection's state
//! notes whether a statement is running.

use std::borrow::BorrowMut;
use std::future::ready;

use async_stream::try_stream;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use sqlx::postgres::{PgDatabaseError, PgQueryResult, PgRow, PgSeverity, PgStatement, PgTypeInfo, Postgres};
use sqlx::{Describe, Either, Execute, Executor, Row, SqlStr};
use tokio::task::yield_now;

use super::budget::{Budget, Exceeded};
use super::connections::{Connection, Pool, State};
use super::error::READ_ONLY;

/// Bytes of rows after which a statement lets its deadline and other tasks run. A fast database always has the next row
/// ready, so that the reader would not wait for it.
const YIELD_BYTES: usize = 256 << 10;

type Step = Either<PgQueryResult, PgRow>;

impl<'c> Executor<'c> for &'c mut Connection {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, sqlx::Result<Step>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        steps(ready(Ok(self)), query)
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, sqlx::Result<Option<PgRow>>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        Box::pin(first(self.fetch_many(query)))
    }

    fn prepare_with<'e>(self, sql: SqlStr, parameters: &'e [PgTypeInfo]) -> BoxFuture<'e, sqlx::Result<PgStatement>>
    where
        'c: 'e,
    {
        Box::pin(async move {
            let (raw, state) = self.parts()?;
            state.running = true;
            let prepared = raw.prepare_with(sql, parameters).await.inspect_err(|error| state.note(error))?;
            state.running = false;
            Ok(prepared)
        })
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, sqlx::Result<Describe<Postgres>>>
    where
        'c: 'e,
    {
        Box::pin(async move {
            let (raw, state) = self.parts()?;
            state.running = true;
            let described = raw.describe(sql).await.inspect_err(|error| state.note(error))?;
            state.running = false;
            Ok(described)
        })
    }
}

impl<'p> Executor<'p> for &'p Pool {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, sqlx::Result<Step>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        steps(self.acquire(), query)
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, sqlx::Result<Option<PgRow>>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        Box::pin(first(self.fetch_many(query)))
    }

    fn prepare_with<'e>(self, sql: SqlStr, parameters: &'e [PgTypeInfo]) -> BoxFuture<'e, sqlx::Result<PgStatement>>
    where
        'p: 'e,
    {
        Box::pin(async move { self.acquire().await?.prepare_with(sql, parameters).await })
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, sqlx::Result<Describe<Postgres>>>
    where
        'p: 'e,
    {
        Box::pin(async move { self.acquire().await?.describe(sql).await })
    }
}

/// Runs a query on a connection that is acquired first, and returns its rows and results. Stops at the first error.
fn steps<'e, 'q: 'e, C, E>(
    acquired: impl Future<Output = sqlx::Result<C>> + Send + 'e,
    query: E,
) -> BoxStream<'e, sqlx::Result<Step>>
where
    C: BorrowMut<Connection> + Send + 'e,
    E: 'q + Execute<'q, Postgres>,
{
    try_stream! {
        let mut connection = acquired.await?;
        let budget = Budget::current();
        budget.as_ref().map_or(Ok(()), |budget| budget.check()).map_err(passed)?;
        let (raw, state) = connection.borrow_mut().parts()?;
        state.running = true;
        let mut steps = raw.fetch_many(query);
        let mut since_yield = 0;
        while let Some(step) = steps.try_next().await.inspect_err(|error| state.note(error))? {
            if let Either::Right(row) = &step {
                let bytes = bytes(row);
                budget.as_ref().map_or(Ok(()), |budget| budget.charge_row(bytes)).map_err(passed)?;
                since_yield += bytes;
            }
            yield step;
            if since_yield >= YIELD_BYTES {
                since_yield = 0;
                yield_now().await;
            }
        }
        state.running = false;
    }
    .boxed()
}

/// Returns the first row of a statement. Reads the statement to its end, since a later error may still fail it.
async fn first(mut steps: BoxStream<'_, sqlx::Result<Step>>) -> sqlx::Result<Option<PgRow>> {
    let mut first = None;
    while let Some(step) = steps.try_next().await? {
        first = first.or(step.right());
    }
    Ok(first)
}

impl State {
    /// Updates the state after an error. An error from the database ends the statement. A session that began while the
    /// database was read-only stays so, and is not used again.
    fn note(&mut self, error: &sqlx::Error) {
        match error {
            sqlx::Error::Database(error) => {
                let severity = error.try_downcast_ref().map(PgDatabaseError::severity);
                let is_read_only = error.code().is_some_and(|code| code == READ_ONLY);
                self.broken = is_read_only || matches!(severity, Some(PgSeverity::Fatal | PgSeverity::Panic));
                self.running = false;
            }
            sqlx::Error::Io(_) | sqlx::Error::Tls(_) => self.broken = true,
            _ => {}
        }
    }
}

/// Returns the size of a row's values in bytes, as the database sent them.
fn bytes(row: &PgRow) -> usize {
    let values = (0..row.len()).filter_map(|index| row.try_get_raw(index).ok());
    values.map(|value| value.as_bytes().map_or(0, <[u8]>::len)).sum()
}

/// Returns the driver's form of the error of a budget.
pub(super) fn passed(exceeded: Exceeded) -> sqlx::Error {
    sqlx::Error::Decode(Box::new(exceeded))
}
