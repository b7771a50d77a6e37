//! Faults while buckets move: statements that fail, an unknown outcome of the switch, lost sessions, another server,
//! and copied rows that differ. A command continues or ends, and no bucket is switched with wrong rows.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use noetl_domain::tenant::Scope;
use noetl_storage::error::DatabaseName;
use noetl_storage::pools::Database;
use noetl_storage::snapshots::{self, Projected};
use noetl_testkit::copies::{own_server, standby};
use noetl_testkit::feed::{Key, insert, run, try_insert};
use noetl_testkit::mover::{buckets, events, kill_at, moved, mover, owners, started, until_line, until_waiting};
use noetl_testkit::pages::texts;
use noetl_testkit::proxy::{ForwardingMode, Proxy};
use noetl_testkit::worker::event_with;
use noetl_testkit::{Deployment, Server, eventually, sleep_in_scenario};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// Starts executions on shard 0, each with one event, a row in the list and two outbox rows. No replica runs.
async fn with_executions(deployment: &Deployment, count: usize) -> Vec<i64> {
    with_executions_from(deployment, 1000, count).await
}

/// The same with the first ids from `from` on whose buckets shard 0 had at first.
async fn with_executions_from(deployment: &Deployment, from: i64, count: usize) -> Vec<i64> {
    let executions = deployment.ids_on(0, from, count);
    let mut source = deployment.shard(0).await;
    for id in &executions {
        insert(&mut source, (*id, 1)).await;
        let listed =
            format!("INSERT INTO noetl.execution (execution_id, catalog_id, status) VALUES ({id}, 0, 'RUNNING')");
        run(&mut source, &listed).await;
    }
    deployment.fill_outbox(0, &executions, 2).await;
    executions
}

/// Returns the rows of a table on a shard, as texts without the columns that differ between shards.
async fn rows(deployment: &Deployment, shard: usize, table: &str) -> Vec<String> {
    let query = format!("SELECT (to_jsonb(row) - 'outbox_id' - 'tx_id')::text FROM noetl.{table} AS row ORDER BY 1");
    sqlx::query_scalar(AssertSqlSafe(query)).fetch_all(&mut deployment.shard(shard).await).await.unwrap()
}

/// Panics unless executions have moved to shard 1, with their outbox rows, and the source refuses their rows. All other
/// executions must have moved before.
async fn assert_moved(deployment: &Deployment, executions: &[i64], case: &str) {
    assert_eq!(owners(deployment, &buckets(executions)).await, BTreeSet::from([1]), "{case}");
    let open = "SELECT count(*) FROM noetl.bucket_move WHERE state <> 'settled'";
    assert_eq!(deployment.in_cluster(open).await, 0, "{case}");
    let (source, target) = tokio::join!(events(deployment, 0, executions), events(deployment, 1, executions));
    assert!(source.keys().eq(target.keys()), "{case}: {source:?} {target:?}");
    let (source, target) = tokio::join!(rows(deployment, 0, "execution"), rows(deployment, 1, "execution"));
    assert_eq!(source, target, "{case}");
    let (source, target) = tokio::join!(deployment.outbox(0), deployment.outbox(1));
    let theirs = target.iter().filter(|row| row.execution_id.is_some_and(|id| executions.contains(&id)));
    assert_eq!((source.len(), theirs.count()), (0, 2 * executions.len()), "{case}");
    for id in executions {
        let refused = try_insert(&mut deployment.shard(0).await, (*id, 99), "call.done").await.unwrap_err();
        assert_eq!(refused.as_database_error().unwrap().code().unwrap(), "NB001", "{case}: {refused}");
        insert(&mut deployment.shard(1).await, (*id, 99)).await;
    }
}

/// A change of a row, by the step of the move that makes it.
#[derive(Debug, Clone, Copy)]
struct Step {
    name: &'static str,
    on_cluster: bool,
    change: &'static str,
    condition: &'static str,
}

impl Step {
    const fn cluster(name: &'static str, condition: &'static str) -> Self {
        Self { name, on_cluster: true, change: "UPDATE ON noetl.bucket_move", condition }
    }

    const fn source(name: &'static str, change: &'static str, condition: &'static str) -> Self {
        Self { name, on_cluster: false, change, condition }
    }

    async fn database(self, deployment: &Deployment) -> PgConnection {
        if self.on_cluster { deployment.cluster().await } else { deployment.shard(0).await }
    }

    /// Lets the step fail once, as if it had waited too long for a lock.
    async fn fail_once(self, deployment: &Deployment) {
        let Self { name, change, condition, .. } = self;
        let trigger = format!(
            "CREATE SEQUENCE public.{name};
             CREATE FUNCTION public.fail_{name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF nextval('public.{name}') = 1 THEN RAISE EXCEPTION 'a lock' USING ERRCODE = '55P03'; END IF;
                 IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER fail_{name} BEFORE {change} FOR EACH ROW WHEN ({condition})
                 EXECUTE FUNCTION public.fail_{name}()"
        );
        run(&mut self.database(deployment).await, &trigger).await;
    }

    /// Panics unless the step was tried again. From now on, it does not fail by itself.
    async fn assert_repeated(self, deployment: &Deployment, case: &str) {
        let Self { name, .. } = self;
        let calls = format!("SELECT last_value FROM public.{name}");
        let mut database = self.database(deployment).await;
        let calls: i64 = sqlx::query_scalar(AssertSqlSafe(calls)).fetch_one(&mut database).await.unwrap();
        assert!(calls > 1, "{case}: {name} was tried {calls} times");
        let drop = format!("DROP FUNCTION public.fail_{name} CASCADE; DROP SEQUENCE public.{name}");
        run(&mut database, &drop).await;
    }
}

const FENCE: Step = Step::cluster("fence", "NEW.state = 'fenced'");
const RAISE: Step = Step::source("raise", "INSERT ON noetl.bucket_fence", "true");
const SEAL: Step = Step::source("seal", "UPDATE ON noetl.bucket_fence", "NEW.sealed AND NOT OLD.sealed");
const UNFENCE: Step = Step::cluster("unfence", "OLD.state = 'fenced' AND NEW.state = 'copying'");
const LIFT: Step = Step::source("lift", "DELETE ON noetl.bucket_fence", "true");
const SWITCH: Step = Step::cluster("switch", "NEW.state = 'switched'");
const CLOSE: Step = Step::source("close", "UPDATE ON noetl.bucket_fence", "NEW.moved_to IS NOT NULL");
const SETTLE: Step = Step::cluster("settle", "NEW.state = 'settled'");

#[tokio::test]
async fn a_step_that_waits_too_long_for_a_lock_is_tried_again() {
    let cases: [&[Step]; 8] =
        [&[FENCE], &[RAISE], &[SEAL], &[SEAL, UNFENCE], &[SEAL, LIFT], &[SWITCH], &[CLOSE], &[SWITCH, UNFENCE, SETTLE]];
    // Two deployments, each with the move of other executions for each case.
    let in_turn = cases.chunks(4).map(async |cases| {
        let deployment = Deployment::start(2).await;
        for (number, steps) in (1..).zip(cases) {
            let case = format!("{:?}", steps.iter().map(|step| step.name).collect::<Vec<_>>());
            let executions = with_executions_from(&deployment, number * 1000, 3).await;
            for step in *steps {
                step.fail_once(&deployment).await;
            }
            let command = mover(&deployment, &buckets(&executions), 1, &[]).output().await.unwrap();
            assert!(command.status.success(), "{case}: {}", String::from_utf8_lossy(&command.stderr));
            for step in *steps {
                step.assert_repeated(&deployment, &case).await;
            }
            assert_moved(&deployment, &executions, &case).await;
        }
    });
    join_all(in_turn).await;
}

/// Key of the advisory lock at which the commit of a switch waits.
const GATE: i64 = 4242;

/// The connection is cut while the switch is being committed, so the command does not know whether it was.
async fn cut_at_the_commit(is_committed: bool) {
    let mut deployment = Deployment::start(2).await;
    let executions = with_executions(&deployment, 3).await;
    let mut observer = deployment.cluster().await;
    // The session does not look whether its client is still there, so its transaction stays open until the gate opens.
    let gate = format!(
        "CREATE FUNCTION public.wait() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$ BEGIN
             IF current_setting('client_connection_check_interval', true) IS NOT NULL THEN
                 PERFORM set_config('client_connection_check_interval', '0', true);
             END IF;
             PERFORM pg_advisory_xact_lock_shared({GATE}); RETURN NULL;
         END $$;
         CREATE CONSTRAINT TRIGGER wait AFTER UPDATE ON noetl.bucket_move DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW WHEN (NEW.state = 'switched') EXECUTE FUNCTION public.wait();
         SELECT pg_advisory_lock({GATE})"
    );
    run(&mut observer, &gate).await;
    let (proxy, through) = Proxy::before_database(&deployment.cluster_dsn).await;
    deployment.env.retain(|(name, _)| name != "NOETL_CLUSTER_DSN");
    deployment.env.push(("NOETL_CLUSTER_DSN".to_owned(), through));
    let (mut command, mut lines) = started(&deployment, &buckets(&executions), 1);

    let committing = until_waiting(&mut observer, "COMMIT").await;
    // Earlier attempts may have taken too long.
    let attempts = "SELECT max(attempt % 1000000) FROM noetl.bucket_move";
    let first = deployment.in_cluster(attempts).await;
    proxy.set(ForwardingMode::Closed);
    until_line(&mut lines, "could not switch a group of buckets").await;
    proxy.set(ForwardingMode::Normal);
    // The command waits for the transaction, and leaves the fence as it is.
    until_waiting(&mut observer, "UPDATE noetl.bucket_move AS moved SET state = 'copying'%").await;
    let sealed = "SELECT count(*) FROM noetl.bucket_fence WHERE sealed AND moved_to IS NULL";
    let sealed: i64 = sqlx::query_scalar(sealed).fetch_one(&mut deployment.shard(0).await).await.unwrap();
    assert_eq!(usize::try_from(sealed).unwrap(), buckets(&executions).len());
    if !is_committed {
        run(&mut observer, &format!("SELECT pg_terminate_backend({committing})")).await;
    }
    run(&mut observer, &format!("SELECT pg_advisory_unlock({GATE})")).await;
    until_line(&mut lines, "buckets have moved").await;
    assert!(command.wait().await.unwrap().success());
    assert_moved(&deployment, &executions, &format!("committed: {is_committed}")).await;
    // A switch that was committed needed no other fence.
    let last = deployment.in_cluster(attempts).await;
    assert!(if is_committed { last == first } else { last > first }, "{first} {last}");
}

#[tokio::test]
async fn a_connection_that_is_lost_at_the_commit_of_the_switch_leaves_the_decision_to_the_journal() {
    tokio::join!(cut_at_the_commit(true), cut_at_the_commit(false));
}

/// Moves of other executions on one deployment, without a replica.
#[tokio::test]
async fn nothing_is_switched_with_wrong_rows_or_without_the_locks_and_the_fence_of_the_command() {
    let deployment = Deployment::start(2).await;
    // First, because it compares all outbox rows.
    rows_that_differ_only_in_their_content_are_found_before_the_switch(&deployment).await;
    a_command_that_lost_a_session_before_the_switch_does_not_switch(&deployment).await;
    the_retention_does_nothing_on_a_shard_to_which_a_fenced_move_leads(&deployment).await;
    // Last, because its move stays open.
    a_sealed_fence_is_constant_and_a_fence_whose_time_has_passed_can_t_be_sealed(&deployment).await;
}

/// The session that holds the lock of the source or of the target ends at the seal.
async fn a_command_that_lost_a_session_before_the_switch_does_not_switch(deployment: &Deployment) {
    for (lost, from) in [(0, 3000), (1, 4000)] {
        let executions = with_executions_from(deployment, from, 3).await;
        let database = deployment.shard_dsns[lost].rsplit('/').next().unwrap();
        // The seal of the first attempt ends the session that holds the lock of a shard.
        let trigger = format!(
            "CREATE SEQUENCE public.seals;
             CREATE FUNCTION public.end_session() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE holder integer; BEGIN
                 IF nextval('public.seals') > 1 THEN RETURN NEW; END IF;
                 SELECT pid INTO STRICT holder FROM pg_locks
                 WHERE locktype = 'advisory' AND objsubid = 1
                   AND ((classid::bigint << 32) | objid::bigint) = hashtextextended('noetl.retention', 0)
                   AND database = (SELECT oid FROM pg_database WHERE datname = '{database}');
                 PERFORM pg_terminate_backend(holder);
                 WHILE EXISTS (SELECT FROM pg_locks WHERE pid = holder) LOOP PERFORM pg_sleep(0.005); END LOOP;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER end_session BEFORE UPDATE ON noetl.bucket_fence FOR EACH ROW
                 WHEN (NEW.sealed AND NOT OLD.sealed) EXECUTE FUNCTION public.end_session()"
        );
        run(&mut deployment.shard(0).await, &trigger).await;
        let command = mover(deployment, &buckets(&executions), 1, &[]).output().await.unwrap();
        let said = String::from_utf8_lossy(&command.stderr);
        assert!(command.status.success() && said.contains("a session of the command was lost"), "{lost}: {said}");
        let drop = "DROP FUNCTION public.end_session CASCADE; DROP SEQUENCE public.seals";
        run(&mut deployment.shard(0).await, drop).await;
        assert_moved(deployment, &executions, &lost.to_string()).await;
    }
}

/// A trigger on the target changes a column of the copied rows.
async fn rows_that_differ_only_in_their_content_are_found_before_the_switch(deployment: &Deployment) {
    // The outbox first: its rows leave the source.
    let cases = [("outbox", "NEW.payload := '{}'", 1000), ("execution", "NEW.error := 'other'", 2000)];
    for (table, change, from) in cases {
        let executions = with_executions_from(deployment, from, 3).await;
        let before = rows(deployment, 0, table).await;
        let trigger = format!(
            "CREATE FUNCTION public.change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {change}; RETURN NEW; END $$;
             CREATE TRIGGER change BEFORE INSERT OR UPDATE ON noetl.{table} FOR EACH ROW
                 EXECUTE FUNCTION public.change()"
        );
        run(&mut deployment.shard(1).await, &trigger).await;
        let (mut command, mut lines) = started(deployment, &buckets(&executions), 1);
        until_line(&mut lines, "the copied rows differ from those of the source").await;
        let changed = rows(deployment, 1, table).await;
        assert!(changed.len() == before.len() && changed != before, "{table}: {changed:?}");
        assert_eq!(owners(deployment, &buckets(&executions)).await, BTreeSet::from([0]), "{table}");
        let drop = format!("DROP TRIGGER change ON noetl.{table}; DROP FUNCTION public.change");
        run(&mut deployment.shard(1).await, &drop).await;
        until_line(&mut lines, "buckets have moved").await;
        assert!(command.wait().await.unwrap().success());
        assert_eq!(rows(deployment, 1, table).await, before, "{table}");
        assert_moved(deployment, &executions, table).await;
    }
}

#[tokio::test]
async fn a_source_on_another_server_ends_the_command_and_the_next_one_copies_everything_again() {
    let shared = std::env::var("NOETL_TEST_PG").unwrap();
    let (mut primary, folder) = own_server().await;
    let mut deployment = Deployment::on_servers(&shared, &[&primary.dsn("postgres"), &shared]).await;
    let proxy = Proxy::start(primary.port()).await;
    let name = deployment.shard_dsns[0].rsplit('/').next().unwrap().to_owned();
    deployment.shard_dsns[0] = format!("postgres://noetl@127.0.0.1:{}/{name}", proxy.port);
    deployment.configure_shards(&deployment.shard_dsns.clone());
    let moving = with_executions(&deployment, 3).await;
    let executions = deployment.ids_on(0, 1000, 4);
    let (lost, all) = (executions[3], buckets(&executions));
    kill_at(&deployment, &moving, "shards_move.prepared").await;

    // The standby lacks an event, and an execution.
    let mut standby = standby(&primary, &folder.path().join("standby")).await;
    standby.stop().await;
    let mut writer = PgConnection::connect(&primary.dsn(&name)).await.unwrap();
    for key in [(moving[0], 50), (lost, 1)] {
        insert(&mut writer, key).await;
    }
    let mut open = writer.begin().await.unwrap();
    insert(&mut *open, (moving[1], 7)).await;
    let (mut command, mut lines) = started(&deployment, &all, 1);
    until_line(&mut lines, "did not end in time").await;
    let copied = events(&deployment, 1, &executions).await;
    assert!(copied.contains_key(&(moving[0], 50)) && copied.contains_key(&(lost, 1)), "{copied:?}");

    // The standby must not get the last rows when it starts.
    primary.kill_9().await;
    standby.restart().await.unwrap();
    let mut promoted = PgConnection::connect(&standby.dsn(&name)).await.unwrap();
    run(&mut promoted, "SELECT pg_promote()").await;
    proxy.redirect(standby.port());
    until_line(&mut lines, "is on another server than before").await;
    assert!(!command.wait().await.unwrap().success());
    assert_eq!(owners(&deployment, &all).await, BTreeSet::from([0]));

    insert(&mut promoted, (moving[2], 60)).await;
    moved(&deployment, &all, 1, &[]).await;
    let expected: BTreeSet<Key> = moving.iter().map(|id| (*id, 1)).chain([(moving[2], 60)]).collect();
    let on_target: BTreeSet<Key> = events(&deployment, 1, &executions).await.into_keys().collect();
    assert_eq!(on_target, expected);
    assert_moved(&deployment, &moving, "after the failover").await;
}

/// An execution of shard 0 whose state a replica has read there.
struct HeldState<'a> {
    deployment: &'a Deployment,
    server: &'a Server,
    id: i64,
    /// Connections of the replica that has read the state.
    replica: Database,
    state: Vec<Projected>,
}

impl<'a> HeldState<'a> {
    async fn read(deployment: &'a Deployment, server: &'a Server) -> Self {
        let id = loop {
            let id = server.start_execution().await;
            if deployment.ids_on(0, id, 1) == [id] {
                break id;
            }
        };
        let replica = Database::new(DatabaseName::Shard(0), deployment.shard_dsns[0].parse().unwrap(), 2);
        let mut held = Self { deployment, server, id, replica, state: Vec::new() };
        held.project(1_000_001, "first").await;
        held.state = snapshots::read(&held.replica, &Scope::Unrestricted, &[id], Duration::from_mins(1)).await.unwrap();
        assert_eq!(held.state.len(), 1);
        held
    }

    /// Adds an event of a step.
    async fn project(&self, event: i64, step: &str) {
        let fields = json!({ "type": "step.enter", "nodeName": step, "status": "RUNNING" });
        let payload = self.server.project(&[event_with(self.id, self.id + event, &fields)]).await;
        assert_eq!(payload["projected"], 1);
    }

    /// Moves the execution to shard 1, and adds an event.
    async fn leave(&self) {
        moved(self.deployment, &buckets(&[self.id]), 1, &[]).await;
        self.project(1_000_002, "second").await;
    }

    /// Returns the number of states of the execution that shard 0 stores.
    async fn stored(&self) -> i64 {
        let stored = "SELECT count(*) FROM noetl.projection_snapshot WHERE aggregate_id = $1::bigint::text";
        let stored = sqlx::query_scalar(stored).bind(self.id);
        stored.fetch_one(&mut self.deployment.shard(0).await).await.unwrap()
    }

    /// Adds an event, and panics unless the states that are read next have the steps of all events.
    async fn assert_unused(&self) {
        self.project(1_000_003, "third").await;
        for _ in 0..2 {
            let state = self.server.execution_state(self.id).await;
            let steps = texts(&state["steps"]["nodes"], "name");
            assert_eq!(steps, ["first", "second", "third"], "{state}");
            // The state that is stored next replaces the one that can't be used.
            self.server.advance_projections(&[self.id]).await;
        }
    }
}

/// Each part has an execution of its own.
#[tokio::test]
async fn a_state_that_was_read_before_the_bucket_left_is_not_used_after_it_came_back() {
    let deployment = Deployment::start(2).await;
    let server = deployment.replica_without_projector().await;
    Box::pin(a_state_that_became_unusable_does_not_replace_a_later_one(&deployment, &server)).await;
    Box::pin(a_state_that_was_read_before_two_moves_is_not_used_if_it_is_stored_after_them(&deployment, &server)).await;
    // Last, because it leaves triggers.
    Box::pin(a_move_back_waits_for_statements_that_store_states_from_before_the_bucket_left(&deployment, &server))
        .await;
}

/// The source refuses the state while the bucket is away. After the bucket came back, the state is stored and not used.
async fn a_state_that_was_read_before_two_moves_is_not_used_if_it_is_stored_after_them(
    deployment: &Deployment,
    server: &Server,
) {
    let held = HeldState::read(deployment, server).await;
    held.leave().await;
    let refused = snapshots::save(&held.replica, &held.state).await.unwrap_err();
    assert!(refused.bucket_moves().is_some(), "{refused}");
    moved(deployment, &buckets(&[held.id]), 0, &[]).await;
    snapshots::save(&held.replica, &held.state).await.unwrap();
    assert_eq!(held.stored().await, 1);
    held.assert_unused().await;
}

/// The fence of the move back waits for a statement that began before it.
async fn a_move_back_waits_for_statements_that_store_states_from_before_the_bucket_left(
    deployment: &Deployment,
    server: &Server,
) {
    let held = HeldState::read(deployment, server).await;
    held.leave().await;
    // A statement of the replica begins, and waits before the trigger of the fence.
    let mut gate = deployment.shard(0).await;
    let wait = "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END $$;
                CREATE TRIGGER a_wait BEFORE INSERT ON noetl.projection_snapshot FOR EACH ROW EXECUTE FUNCTION wait();
                SELECT pg_advisory_lock(1)";
    sqlx::raw_sql(wait).execute(&mut gate).await.unwrap();
    // The statement waits for 3.5 s at most, so the command waits before its fence until the statement waits.
    let (mut hold, mut observer) = tokio::join!(deployment.cluster(), deployment.cluster());
    let before_fence = "CREATE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$ BEGIN
                            PERFORM pg_advisory_xact_lock_shared(2); RETURN NEW; END $$;
                        CREATE TRIGGER hold BEFORE UPDATE ON noetl.bucket_move FOR EACH ROW
                            WHEN (NEW.state = 'fenced') EXECUTE FUNCTION public.hold();
                        SELECT pg_advisory_lock(2)";
    run(&mut hold, before_fence).await;
    let (mut command, mut lines) = started(deployment, &buckets(&[held.id]), 0);
    until_waiting(&mut observer, "UPDATE noetl.bucket_move%").await;
    let save = snapshots::save(&held.replica, &held.state);
    let move_back = async {
        let waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND NOT granted";
        eventually("the statement waits", async || {
            sqlx::query(waiting).fetch_optional(&mut deployment.shard(0).await).await.unwrap()
        })
        .await;
        run(&mut hold, "SELECT pg_advisory_unlock(2)").await;
        until_line(&mut lines, "a transaction that writes to the target did not end in time").await;
        run(&mut gate, "SELECT pg_advisory_unlock(1)").await;
        assert!(command.wait().await.unwrap().success());
    };
    let (refused, ()) = tokio::join!(save, move_back);
    let refused = refused.unwrap_err();
    assert!(refused.bucket_moves().is_some(), "{refused}");
    assert_eq!(held.stored().await, 0);
    held.assert_unused().await;
}

/// A state of before the anchor was changed does not bring back an earlier status.
async fn a_state_that_became_unusable_does_not_replace_a_later_one(deployment: &Deployment, server: &Server) {
    let held = HeldState::read(deployment, server).await;
    // As a bucket that returns to the shard does.
    let outdate = "INSERT INTO noetl.tail_anchor AS anchor (singleton) VALUES (true)
                   ON CONFLICT (singleton) DO UPDATE SET tx_id = excluded.tx_id";
    run(&mut deployment.shard(0).await, outdate).await;
    // The execution ends by an event with a smaller id than the last one.
    let end = json!({ "type": "playbook.completed", "status": "COMPLETED" });
    assert_eq!(held.server.project(&[event_with(held.id, held.id + 1000, &end)]).await["projected"], 1);
    held.server.advance_projections(&[held.id]).await;
    let status = async || -> String {
        let listed = sqlx::query_scalar("SELECT upper(status) FROM noetl.execution WHERE execution_id = $1");
        listed.bind(held.id).fetch_one(&mut deployment.shard(0).await).await.unwrap()
    };
    assert_eq!(status().await, "COMPLETED");
    snapshots::save(&held.replica, &held.state).await.unwrap();
    assert_eq!(status().await, "COMPLETED");
    let state = held.server.execution_state(held.id).await;
    assert_eq!(state["status"], "COMPLETED", "{state}");
}

/// The retention of the target works again after the move.
async fn the_retention_does_nothing_on_a_shard_to_which_a_fenced_move_leads(deployment: &Deployment) {
    let executions = with_executions_from(deployment, 5000, 1).await;
    kill_at(deployment, &executions, "shards_move.sealed").await;
    let retention = async || -> String {
        let (_, said) = deployment.try_maintain(&[("NOETL_EVENT_RETENTION_DAYS", "30")]).await;
        said.lines()
            .find(|line| line.starts_with("shard 1: retention: "))
            .unwrap_or_else(|| panic!("{said}"))
            .to_owned()
    };
    let busy = "another process runs the retention";
    let said = retention().await;
    assert!(said.contains(busy), "{said}");
    moved(deployment, &buckets(&executions), 1, &[]).await;
    let said = retention().await;
    assert!(!said.contains(busy), "{said}");
}

/// A writer that found the time of the fence passed is not followed by a seal.
async fn a_sealed_fence_is_constant_and_a_fence_whose_time_has_passed_can_t_be_sealed(deployment: &Deployment) {
    let executions = with_executions_from(deployment, 6000, 3).await;
    let mut writer = deployment.shard(0).await;
    kill_at(deployment, &executions, "shards_move.fenced").await;
    let insert = async |writer: &mut PgConnection, event| {
        let outcome = try_insert(writer, (executions[0], event), "call.done").await;
        outcome.map_err(|error| error.as_database_error().unwrap().code().unwrap().into_owned())
    };
    assert_eq!(insert(&mut writer, 2).await, Err("NB001".to_owned()));
    // The time passes.
    sleep_in_scenario(Duration::from_millis(3100)).await;
    run(&mut writer, "BEGIN").await;
    assert_eq!(insert(&mut writer, 3).await, Ok(()));
    // The mover's seal waits for this writer, and then finds the time passed.
    let fences: Vec<i16> = buckets(&executions).into_iter().map(u16::cast_signed).collect();
    let mut sealer = deployment.shard(0).await;
    run(&mut sealer, "SET lock_timeout = '100ms'").await;
    let locks = "SELECT bucket FROM noetl.bucket_fence WHERE bucket = ANY($1) FOR UPDATE";
    let locked = sqlx::query(locks).bind(&fences).execute(&mut sealer).await;
    assert_eq!(locked.unwrap_err().as_database_error().unwrap().code().unwrap(), "55P03");
    run(&mut writer, "COMMIT").await;
    let seal = "UPDATE noetl.bucket_fence SET sealed = true WHERE bucket = ANY($1) AND until > clock_timestamp()";
    let sealed = sqlx::query(seal).bind(&fences).execute(&mut sealer).await.unwrap().rows_affected();
    assert_eq!(sealed, 0);
}
