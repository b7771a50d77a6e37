//! Partitions of the event table are created and dropped without blocking writers for long, also beside partitions with
//! other names and bounds, as databases of NoETL's own server have.

use std::time::Duration;

use noetl_testkit::feed::{insert, insert_typed, run};
use noetl_testkit::{Deployment, eventually, sleep_in_scenario};
use sqlx::{AssertSqlSafe, PgConnection};

/// The tables of an existing NoETL server.
const NOETL: &str = include_str!("../fixtures/noetl.sql");
const RETENTION: (&str, &str) = ("NOETL_EVENT_RETENTION_DAYS", "30");

/// Returns an SQL expression: the smallest id of the day that is some months after the start of this quarter.
fn first_id(months: i32, days: i32) -> String {
    let start = "date_trunc('quarter', now() AT TIME ZONE 'UTC')";
    let at = format!("{start} + make_interval(months => {months}, days => {days})");
    format!("((extract(epoch FROM ({at}) - timestamp '2024-01-01')::bigint * 1000) << 22)")
}

async fn id(connection: &mut PgConnection, months: i32, days: i32) -> i64 {
    let query = format!("SELECT {}", first_id(months, days));
    sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(connection).await.unwrap()
}

/// Creates a partition. Each bound is in months and days after the start of this quarter.
async fn partition(connection: &mut PgConnection, name: &str, from: (i32, i32), to: (i32, i32)) {
    let (from, to) = (id(connection, from.0, from.1).await, id(connection, to.0, to.1).await);
    run(connection, &format!("CREATE TABLE noetl.{name} PARTITION OF noetl.event FOR VALUES FROM ({from}) TO ({to})"))
        .await;
}

/// Returns the partitions that cover a range of ids, with their bounds.
async fn ranges(connection: &mut PgConnection) -> Vec<(String, i64, i64)> {
    let query = r"SELECT relname::text, trim(bound[1], '''')::bigint, trim(bound[2], '''')::bigint
        FROM pg_inherits JOIN pg_class ON oid = inhrelid
        CROSS JOIN LATERAL regexp_match(pg_get_expr(relpartbound, oid), 'FROM \((''?-?\d+''?)\) TO \((''?-?\d+''?)\)')
            AS bound
        WHERE inhparent = 'noetl.event'::regclass AND bound IS NOT NULL ORDER BY 2";
    sqlx::query_as(query).fetch_all(connection).await.unwrap()
}

async fn names(connection: &mut PgConnection, pattern: &str) -> Vec<String> {
    let query = "SELECT relname::text FROM pg_inherits JOIN pg_class ON oid = inhrelid
                 WHERE inhparent = 'noetl.event'::regclass AND relname LIKE $1 ORDER BY relname";
    sqlx::query_scalar(query).bind(pattern).fetch_all(connection).await.unwrap()
}

/// Returns an unmigrated deployment whose only database has NoETL's tables, without partitions with bounds. The
/// default partition has the name `event_rest`.
async fn of_noetl() -> Deployment {
    let mut deployment = Deployment::unmigrated(1).await;
    deployment.env.retain(|(name, _)| name != "NOETL_SHARDS");
    deployment.shard_dsns = vec![deployment.cluster_dsn.clone()];
    let mut database = deployment.cluster().await;
    run(&mut database, NOETL).await;
    let other_names = "DROP TABLE noetl.event_first, noetl.event_second;
        ALTER TABLE noetl.event_default RENAME TO event_rest;
        INSERT INTO noetl.resource (name) VALUES ('playbook');
        INSERT INTO noetl.catalog (catalog_id, path, version, kind) VALUES (0, 'flow', 1, 'playbook')";
    run(&mut database, other_names).await;
    deployment
}

async fn event(connection: &mut PgConnection, log: i64) {
    let event = format!("INSERT INTO noetl.event (execution_id, event_id, catalog_id) VALUES ({log}, 1, 0)");
    run(connection, &event).await;
}

#[tokio::test]
async fn migrate_creates_the_missing_ranges_beside_half_years_with_other_names() {
    let deployment = of_noetl().await;
    let mut database = deployment.cluster().await;
    // Ends within the next quarter, so a part of that quarter is covered.
    partition(&mut database, "event_half", (-3, 0), (3, 40)).await;
    // Our name for the quarter after the next one, as the name of another range.
    let taken = "SELECT to_char(date_trunc('quarter', now() AT TIME ZONE 'UTC') + interval '6 months',
                                '\"event_p\"YYYY\"q\"Q')";
    let taken: String = sqlx::query_scalar(taken).fetch_one(&mut database).await.unwrap();
    partition(&mut database, &taken, (-9, 0), (-3, 0)).await;
    let strays = [id(&mut database, -12, 0).await, id(&mut database, 30, 0).await];
    for stray in strays {
        event(&mut database, stray).await;
    }
    deployment.migrate().await;

    let ranges = ranges(&mut database).await;
    let (from, to) = (id(&mut database, -9, 0).await, id(&mut database, 9, 0).await);
    assert_eq!((ranges[0].1, ranges[ranges.len() - 1].2), (from, to), "{ranges:?}");
    assert!(ranges.windows(2).all(|pair| pair[0].2 == pair[1].1), "a range is missing: {ranges:?}");
    assert_eq!(ranges.len(), 4, "{ranges:?}");
    // The rows of the new ranges are in their partitions; the strays stay in the default partition.
    let next = id(&mut database, 3, 50).await;
    event(&mut database, next).await;
    let rest: Vec<i64> = sqlx::query_scalar("SELECT execution_id FROM noetl.event_rest ORDER BY execution_id")
        .fetch_all(&mut database)
        .await
        .unwrap();
    assert_eq!(rest, strays);
    let checks = "SELECT count(*) FROM pg_constraint WHERE conrelid = 'noetl.event_rest'::regclass AND contype = 'c'";
    assert_eq!(deployment.in_cluster(checks).await, 0, "a check was left on the default partition");
    let (output, said) = deployment.try_maintain(&[]).await;
    assert!(output.status.success() && said.contains("partitions: made none"), "{said}");
}

/// The last part fills the default partition.
#[tokio::test]
async fn no_lock_on_the_event_table_is_held_or_awaited_for_long() {
    let deployment = Deployment::start(1).await;
    Box::pin(a_partition_is_created_later_if_a_transaction_uses_the_default_partition(&deployment)).await;
    Box::pin(a_partition_whose_check_is_cancelled_is_kept_and_the_others_are_dropped(&deployment)).await;
    Box::pin(a_filled_default_partition_is_not_scanned_under_an_exclusive_lock(&deployment)).await;
}

/// A default partition with many rows is not scanned under an exclusive lock when a partition is created.
async fn a_filled_default_partition_is_not_scanned_under_an_exclusive_lock(deployment: &Deployment) {
    let mut shard = deployment.shard(0).await;
    let last = ranges(&mut shard).await.pop().unwrap();
    run(&mut shard, &format!("DROP TABLE noetl.{}", last.0)).await;
    // More than the size up to which a scan is harmless.
    let rows = format!(
        "INSERT INTO noetl.event (execution_id, event_id, event_type, error)
         SELECT {}, n, 'call.done', repeat('x', 1000) FROM generate_series(1, 12000) AS n",
        last.2
    );
    run(&mut shard, &rows).await;
    let told = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET client_min_messages = debug1', current_database());
                END $$";
    run(&mut shard, told).await;
    let (output, said) = deployment.try_maintain(&[("NOETL_LOG", "info,sqlx::postgres::notice=debug")]).await;
    assert!(output.status.success() && said.contains(&format!("made {}", last.0)), "{said}");
    // PostgreSQL's message of an attachment that reads no row of the default partition.
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(log.contains("is implied by existing constraints"), "{log}");
    assert_eq!(ranges(&mut shard).await.pop(), Some(last));
}

/// A partition is created later if a transaction uses the default partition, and writers do not wait.
async fn a_partition_is_created_later_if_a_transaction_uses_the_default_partition(deployment: &Deployment) {
    let (mut shard, mut holder) = tokio::join!(deployment.shard(0), deployment.shard(0));
    let last = ranges(&mut shard).await.pop().unwrap();
    run(&mut shard, &format!("DROP TABLE noetl.{}", last.0)).await;
    run(&mut holder, "BEGIN; SELECT count(*) FROM noetl.event_default").await;
    run(&mut shard, "SET lock_timeout = '3s'").await;
    let mut maintained = Box::pin(deployment.try_maintain(&[]));
    let mut next = 0;
    let (output, said) = loop {
        next += 1;
        // The insert fails if it waits longer than its lock timeout.
        let write = async {
            insert(&mut shard, (1, next)).await;
            sleep_in_scenario(Duration::from_millis(10)).await;
        };
        tokio::select! {
            done = &mut maintained => break done,
            () = write => {}
        }
    };
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("in use by a long transaction"), "{said}");
    run(&mut holder, "COMMIT").await;
    let (output, said) = deployment.try_maintain(&[]).await;
    assert!(output.status.success() && said.contains(&format!("made {}", last.0)), "{said}");
}

#[tokio::test]
async fn retention_drops_old_partitions_of_a_noetl_database_and_reports_its_default_partition() {
    let deployment = of_noetl().await;
    let mut database = deployment.cluster().await;
    let oldest = id(&mut database, -18, 0).await;
    let first = "CREATE TABLE noetl.event_before PARTITION OF noetl.event FOR VALUES FROM (MINVALUE) TO";
    run(&mut database, &format!("{first} ({oldest})")).await;
    partition(&mut database, "event_h1", (-18, 0), (-12, 0)).await;
    partition(&mut database, "event_h2", (-12, 0), (-6, 0)).await;
    let aged = "CREATE FUNCTION public.aged() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN NEW.created_at := '2024-01-01'; RETURN NEW; END $$;
                CREATE TRIGGER aged BEFORE INSERT ON noetl.event FOR EACH ROW EXECUTE FUNCTION public.aged()";
    run(&mut database, aged).await;
    let ended = async |database: &mut PgConnection, log: i64| {
        for (event, event_type) in [(1, "playbook.initialized"), (2, "playbook.completed")] {
            let row = format!(
                "INSERT INTO noetl.event (execution_id, event_id, catalog_id, event_type)
                 VALUES ({log}, {event}, 0, '{event_type}')"
            );
            run(database, &row).await;
        }
    };
    let (old, in_default) = (id(&mut database, -15, 0).await, id(&mut database, -5, 0).await);
    for log in [5, old, in_default] {
        ended(&mut database, log).await;
    }
    deployment.migrate().await;
    deployment.publish_all().await;
    let (output, said) = deployment.try_maintain(&[RETENTION]).await;
    assert!(output.status.success(), "{said}");
    assert_eq!(names(&mut database, "event_h%").await, [""; 0], "{said}");
    assert_eq!(names(&mut database, "event_before").await, [""; 0], "{said}");
    assert!(said.contains("noetl.event_rest stays: it is the default partition"), "{said}");
    let left: Vec<i64> =
        sqlx::query_scalar("SELECT DISTINCT execution_id FROM noetl.event").fetch_all(&mut database).await.unwrap();
    assert_eq!(left, [in_default]);
}

/// A partition whose check is cancelled is kept, and the others are dropped.
async fn a_partition_whose_check_is_cancelled_is_kept_and_the_others_are_dropped(deployment: &Deployment) {
    let mut shard = deployment.shard(0).await;
    let aged = "CREATE FUNCTION public.aged() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN NEW.created_at := '2024-01-01'; RETURN NEW; END $$";
    run(&mut shard, aged).await;
    for n in 1..=2 {
        let old = format!(
            "CREATE TABLE noetl.event_old{n} PARTITION OF noetl.event FOR VALUES FROM ({n}000) TO ({n}999);
             CREATE TRIGGER aged BEFORE INSERT ON noetl.event_old{n} FOR EACH ROW EXECUTE FUNCTION public.aged()"
        );
        run(&mut shard, &old).await;
        insert_typed(&mut shard, (n * 1000, 1), "call.done").await;
    }
    deployment.publish_all().await;
    let (mut holder, mut observer) = tokio::join!(deployment.shard(0), deployment.shard(0));
    run(&mut holder, "BEGIN; LOCK TABLE noetl.event_old1 IN ACCESS EXCLUSIVE MODE").await;
    // A statement timeout cancels a statement in the same way.
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
                  WHERE datname = current_database() AND wait_event_type = 'Lock'
                    AND application_name = 'noetl-graphql'";
    let mut maintained = Box::pin(deployment.try_maintain(&[RETENTION]));
    let cancelled = eventually("the check waits and is cancelled", async || {
        let cancelled: Option<bool> = sqlx::query_scalar(cancel).fetch_optional(&mut observer).await.unwrap();
        cancelled
    });
    tokio::select! {
        (_, said) = &mut maintained => panic!("the check does not wait: {said}"),
        _ = cancelled => {}
    }
    run(&mut holder, "COMMIT").await;
    let (output, said) = maintained.await;
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(names(&mut shard, "event_old%").await, ["event_old1"], "{said}");
    assert!(said.contains("event_old1 stays: its check did not end in time"), "{said}");
}
