//! Sessions of helpers that need one for a single statement. They are kept, because a new session costs PostgreSQL more than
//! most statements.

use std::collections::HashMap;
use std::sync::Mutex;

use sqlx::pool::PoolConnection;
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgPool, Postgres};

/// Pools by DSN.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, PgPool>>);

impl Sessions {
    /// Returns a session on a database.
    pub(crate) async fn of(&self, dsn: &str) -> PoolConnection<Postgres> {
        let pool = {
            let mut pools = self.0.lock().unwrap();
            let new = || PgPoolOptions::new().connect_lazy(dsn).unwrap();
            pools.entry(dsn.to_owned()).or_insert_with(new).clone()
        };
        pool.acquire().await.unwrap()
    }
}
