//! Several commands work on the same moves of buckets. A command never counts a move as its own if another one fenced,
//! switched, completed or aborted it.
//!
//! The changes of the other command are made by SQL, at a statement before which the command under test is held.

use std::collections::{BTreeMap, BTreeSet};

use noetl_testkit::Deployment;
use noetl_testkit::feed::{Key, insert, run, try_insert};
use noetl_testkit::mover::{
    ErrorLines, bucket, buckets, events, kill_at, moved, owners, started, until_line, until_waiting,
};
use sqlx::PgConnection;
use tokio::process::Child;

/// Pattern of the statement that returns fenced moves to the copy.
const UNFENCE: &str = "UPDATE noetl.bucket_move AS moved SET state = 'copying'%";
/// Pattern of the statement that deletes aborted moves.
const FORGET: &str = "WITH forgotten AS (%";

/// Writes one event for each of several executions on shard 0, with ids from `from` on, and returns the executions. No
/// replica runs.
async fn with_executions(deployment: &Deployment, from: i64, count: usize) -> Vec<i64> {
    let executions = deployment.ids_on(0, from, count);
    for id in &executions {
        deployment.commit(*id, 1..=1).await;
    }
    executions
}

/// Holds the statements of the journal that are like a pattern, from the first fence on, until `holder` releases the
/// advisory lock `gate`. A held statement sees the rows from before the wait, like one that waits for
/// another process.
async fn hold(holder: &mut PgConnection, gate: i64, statement: &str) {
    let hold = format!(
        "CREATE FUNCTION public.hold_{gate}() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$ BEGIN
             IF current_query() LIKE $like${statement}$like$
                AND EXISTS (SELECT FROM noetl.bucket_move WHERE attempt > 0) THEN
                 PERFORM pg_advisory_xact_lock_shared({gate});
             END IF;
             RETURN NULL;
         END $$;
         CREATE TRIGGER hold_{gate} BEFORE UPDATE OR DELETE ON noetl.bucket_move FOR EACH STATEMENT
             EXECUTE FUNCTION public.hold_{gate}();
         SELECT pg_advisory_lock({gate})"
    );
    run(holder, &hold).await;
}

async fn release(holder: &mut PgConnection, gate: i64) {
    run(holder, &format!("SELECT pg_advisory_unlock({gate})")).await;
}

/// Ends the holding of statements at a gate.
async fn drop_gate(holder: &mut PgConnection, gate: i64) {
    run(holder, &format!("DROP FUNCTION public.hold_{gate} CASCADE")).await;
}

/// Starts a move whose first attempt to switch fails. Another command changes the journal after this command has read the
/// number of the attempt, and before it returns the moves to the copy.
async fn changed_at_the_end_of_an_attempt(
    deployment: &Deployment,
    moving: &BTreeSet<u16>,
    change: &str,
) -> (Child, ErrorLines) {
    let (mut other, mut reader) = tokio::join!(deployment.cluster(), deployment.shard(0));
    hold(&mut other, 1, UNFENCE).await;
    // The fence waits for this row, as for a transaction with an old snapshot, and fails after 0.3 s.
    run(&mut reader, "BEGIN; SELECT FROM noetl.bucket_fence WHERE bucket = -1 FOR SHARE").await;
    let (command, lines) = started(deployment, moving, 1);
    until_waiting(&mut other, UNFENCE).await;
    run(&mut other, change).await;
    run(&mut reader, "ROLLBACK").await;
    release(&mut other, 1).await;
    (command, lines)
}

/// Moves of other executions on one deployment.
#[tokio::test]
async fn a_command_counts_only_the_moves_that_no_other_command_fenced_switched_or_aborted() {
    let deployment = Deployment::start(2).await;
    // First, because the change of the other command concerns all moves of the deployment.
    a_command_fails_if_another_one_aborted_its_moves_while_an_attempt_ended(&deployment).await;
    a_command_continues_with_moves_that_another_one_fenced_while_an_attempt_ended(&deployment).await;
    a_command_does_not_copy_a_bucket_that_another_one_switched_while_it_waited(&deployment).await;
    an_abortion_counts_only_the_moves_that_it_aborted(&deployment).await;
}

/// The moves that the other command fenced are switched before the command reports success.
async fn a_command_continues_with_moves_that_another_one_fenced_while_an_attempt_ended(deployment: &Deployment) {
    let executions = with_executions(deployment, 2000, 3).await;
    let moving = buckets(&executions);
    let fences = "UPDATE noetl.bucket_move SET state = 'fenced', attempt = attempt + 1, changed_at = now()";
    let (mut command, mut lines) = changed_at_the_end_of_an_attempt(deployment, &moving, fences).await;
    until_line(&mut lines, "3 of 3 buckets have moved").await;
    assert!(command.wait().await.unwrap().success());
    drop_gate(&mut deployment.cluster().await, 1).await;
    assert_eq!(owners(deployment, &moving).await, BTreeSet::from([1]), "success was reported before the switch");
    assert_eq!(deployment.open_moves().await, 0);
    for id in executions {
        let refused = try_insert(&mut deployment.shard(0).await, (id, 2), "call.done").await.unwrap_err();
        assert_eq!(refused.as_database_error().unwrap().code().unwrap(), "NB001", "{refused}");
        insert(&mut deployment.shard(1).await, (id, 2)).await;
        assert_eq!(events(deployment, 1, &[id]).await.len(), 2);
    }
}

/// The command names an aborted move, and switches none.
async fn a_command_fails_if_another_one_aborted_its_moves_while_an_attempt_ended(deployment: &Deployment) {
    let executions = with_executions(deployment, 1000, 3).await;
    let moving = buckets(&executions);
    let aborts = "DELETE FROM noetl.bucket_move";
    let (mut command, mut lines) = changed_at_the_end_of_an_attempt(deployment, &moving, aborts).await;
    until_line(&mut lines, "another command aborted the move of bucket").await;
    assert!(!command.wait().await.unwrap().success());
    drop_gate(&mut deployment.cluster().await, 1).await;
    assert_eq!(owners(deployment, &moving).await, BTreeSet::from([0]));
}

/// The event that was written to the target after the switch stays there.
async fn a_command_does_not_copy_a_bucket_that_another_one_switched_while_it_waited(deployment: &Deployment) {
    let executions = with_executions(deployment, 4000, 2).await;
    let [switched, fenced] = [executions[0], executions[1]];
    kill_at(deployment, &executions, "shards_move.sealed").await;
    let mut target = deployment.shard(1).await;
    run(&mut target, "SELECT pg_advisory_lock(hashtextextended('noetl.retention', 0))").await;
    let (mut command, mut lines) = started(deployment, &buckets(&executions), 1);
    until_line(&mut lines, "waiting for another move").await;
    let switch = format!(
        "UPDATE noetl.shard_map_version SET version = version + 1;
         UPDATE noetl.shard_bucket SET shard = 1 WHERE bucket = {0};
         UPDATE noetl.bucket_move SET map_version = 1, state = 'switched' WHERE bucket = {0}",
        bucket(switched)
    );
    run(&mut deployment.cluster().await, &switch).await;
    insert(&mut target, (switched, 2)).await;
    run(&mut target, "SELECT pg_advisory_unlock(hashtextextended('noetl.retention', 0))").await;
    until_line(&mut lines, "1 of 1 buckets have moved").await;
    assert!(command.wait().await.unwrap().success());
    assert_eq!(deployment.open_moves().await, 0);
    let on_target: Vec<Key> = events(deployment, 1, &executions).await.into_keys().collect();
    assert_eq!(on_target, [(switched, 1), (switched, 2), (fenced, 1)]);
}

/// Moves that another command switched, settled or fenced stay in the journal, with their rows.
async fn an_abortion_counts_only_the_moves_that_it_aborted(deployment: &Deployment) {
    let executions = with_executions(deployment, 3000, 5).await;
    let [switched, settled, fenced] = [0, 1, 2].map(|index| bucket(executions[index]));
    kill_at(deployment, &executions, "shards_move.sealed").await;

    let mut other = deployment.cluster().await;
    hold(&mut other, 1, UNFENCE).await;
    hold(&mut other, 2, FORGET).await;
    let moving = buckets(&executions);
    let abortion = moved(deployment, &moving, 1, &["--abort"]);
    let others = async {
        // Two moves end before the command returns its moves to the copy.
        until_waiting(&mut other, UNFENCE).await;
        let switch = format!(
            "UPDATE noetl.shard_map_version SET version = version + 1;
             UPDATE noetl.shard_bucket SET shard = 1 WHERE bucket IN ({switched}, {settled});
             UPDATE noetl.bucket_move
             SET map_version = 1, state = CASE bucket WHEN {switched} THEN 'switched' ELSE 'settled' END
             WHERE bucket IN ({switched}, {settled})"
        );
        run(&mut other, &switch).await;
        release(&mut other, 1).await;
        // One is fenced before the command deletes its moves.
        until_waiting(&mut other, FORGET).await;
        let fence = "UPDATE noetl.bucket_move SET state = 'fenced', attempt = attempt + 1 WHERE bucket";
        run(&mut other, &format!("{fence} = {fenced}")).await;
        release(&mut other, 2).await;
    };
    let (said, ()) = tokio::join!(abortion, others);
    assert_eq!(said, "2 moves of buckets to shard 1 aborted\n");

    let journal = "SELECT bucket, state FROM noetl.bucket_move WHERE bucket = ANY($1)";
    let moving: Vec<i16> = moving.into_iter().map(u16::cast_signed).collect();
    let journal = sqlx::query_as::<_, (i16, String)>(journal).bind(&moving);
    let journal: BTreeMap<i16, String> = journal.fetch_all(&mut other).await.unwrap().into_iter().collect();
    let expected = [(switched, "switched"), (settled, "settled"), (fenced, "fenced")];
    let expected = expected.map(|(bucket, state)| (bucket.cast_signed(), state.to_owned()));
    assert_eq!(journal, BTreeMap::from(expected));
    // The rows of the moves that had ended stay on the target.
    let on_target: Vec<Key> = events(deployment, 1, &executions).await.into_keys().collect();
    assert_eq!(on_target, [(executions[0], 1), (executions[1], 1)]);
    // The buckets of the aborted moves can be written again, and those of the others can't.
    let mut source = deployment.shard(0).await;
    for id in &executions[3..] {
        insert(&mut source, (*id, 2)).await;
    }
    for id in &executions[..2] {
        let refused = try_insert(&mut source, (*id, 2), "call.done").await.unwrap_err();
        assert_eq!(refused.as_database_error().unwrap().code().unwrap(), "NB001", "{refused}");
    }
}
