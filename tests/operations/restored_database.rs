//! After a crash, a database continues in the same epoch. A database that was restored to an earlier state or from a
//! dump, or is a promoted standby, begins a new epoch. All events that it contains are published.

use noetl_testkit::copies::{own_server, restore, standby, switch_server};
use noetl_testkit::feed::{Reader, assert_exactly, run};
use noetl_testkit::{Deployment, copy_folder, eventually};
use sqlx::{Connection, PgConnection};

/// Commits each event in its own transaction. Each uses `ids` transaction ids: its own, and those of empty transactions
/// after it.
async fn commit_one_by_one(deployment: &Deployment, execution: i64, events: std::ops::RangeInclusive<i64>, ids: i64) {
    let rows = format!(
        "DO $$ BEGIN FOR n IN {}..{} LOOP
             INSERT INTO noetl.event (execution_id, event_id, event_type) VALUES ({execution}, n, 'call.done');
             COMMIT;
             FOR more IN 2..{ids} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP;
         END LOOP; END $$",
        events.start(),
        events.end()
    );
    run(&mut deployment.shard(0).await, &rows).await;
}

#[tokio::test]
async fn a_crashed_database_continues_in_the_same_epoch_without_loss() {
    let (mut postgres, _folder) = own_server().await;
    let deployment = Deployment::on(&postgres.dsn("postgres"), 0).await;
    let _server = deployment.replica().await;
    deployment.feeds_begun().await;
    for round in 0..3 {
        deployment.commit(7, round * 1000 + 1..=round * 1000 + 600).await;
        postgres.kill_9().await;
        postgres.restart().await.unwrap();
        deployment.commit(7, round * 1000 + 901..=round * 1000 + 950).await;
    }
    deployment.assert_published_once().await;
    assert_eq!(deployment.epoch().await, 1);
}

/// The stream has batches that the restored database does not know. The database reuses their transaction ids.
#[tokio::test]
async fn a_database_restored_to_an_earlier_state_publishes_all_its_events_in_a_new_epoch() {
    let (mut postgres, folder) = own_server().await;
    let deployment = Deployment::on(&postgres.dsn("postgres"), 0).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    deployment.commit(7, 1..=10).await;
    deployment.until_published(10).await;
    deployment.until_batch_finished().await;
    assert!(server.stop().await.success());
    postgres.stop().await;
    let (data, earlier) = (folder.path().join("postgres/data"), folder.path().join("earlier"));
    copy_folder(&data, &earlier);
    postgres.restart().await.unwrap();
    let server = deployment.replica().await;
    for batch in 0..3 {
        deployment.commit(8, batch * 10 + 11..=batch * 10 + 20).await;
        deployment.until_published(usize::try_from(batch * 10 + 20).unwrap()).await;
    }
    let forgotten = deployment.committed().await;

    assert!(server.stop().await.success());
    postgres.stop().await;
    std::fs::remove_dir_all(&data).unwrap();
    copy_folder(&earlier, &data);
    postgres.restart().await.unwrap();
    deployment.commit(9, 101..=105).await;
    let _server = deployment.replica().await;
    deployment.commit(9, 106..=130).await;
    let everything = &forgotten | &deployment.committed().await;
    deployment.until_published(everything.len()).await;
    assert_exactly(&deployment.published().await, &everything);
    assert_eq!(deployment.epoch().await, 2);
}

/// The standby lacks the last commits of the primary, which were published. The standby reuses their transaction ids.
#[tokio::test]
async fn a_promoted_standby_publishes_all_its_events_in_a_new_epoch() {
    let (mut primary, folder) = own_server().await;
    let mut deployment = Deployment::on(&primary.dsn("postgres"), 0).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    deployment.commit(7, 1..=10).await;
    let mut standby = standby(&primary, &folder.path().join("standby")).await;
    deployment.commit(7, 11..=20).await;
    deployment.until_published(20).await;
    let name = deployment.cluster_dsn.rsplit('/').next().unwrap().to_owned();
    eventually("the standby has replayed them", async || {
        let mut replayed = PgConnection::connect(&standby.dsn(&name)).await.ok()?;
        let query = "SELECT (SELECT count(*) FROM noetl.event) = 20 AND published_events = 20 FROM noetl.tail_cursor";
        sqlx::query_scalar::<_, bool>(query).fetch_one(&mut replayed).await.ok()?.then_some(())
    })
    .await;
    standby.stop().await;
    deployment.commit(8, 21..=40).await;
    deployment.until_published(40).await;
    let forgotten = deployment.committed().await;
    primary.kill_9().await;
    assert!(server.stop().await.success());

    standby.restart().await.unwrap();
    switch_server(&mut deployment, &standby);
    run(&mut deployment.shard(0).await, "SELECT pg_promote()").await;
    deployment.commit(9, 101..=120).await;
    let server = deployment.replica().await;
    deployment.commit(9, 121..=140).await;
    let everything = &forgotten | &deployment.committed().await;
    deployment.until_published(everything.len()).await;
    assert_exactly(&deployment.published().await, &everything);
    assert_eq!(deployment.epoch().await, 2);
    assert!(server.stop().await.success());
    let _server = deployment.replica().await;
    deployment.commit(9, 141..=150).await;
    deployment.until_published(everything.len() + 10).await;
    assert_eq!(deployment.epoch().await, 2);
}

#[tokio::test]
async fn a_restored_dump_publishes_all_its_events_in_a_new_epoch() {
    let ((mut old, _folder), (new, _other_folder)) = tokio::join!(own_server(), own_server());
    let mut deployment = Deployment::on(&old.dsn("postgres"), 0).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    commit_one_by_one(&deployment, 7, 1..=600, 5).await;
    deployment.until_published(600).await;
    assert!(server.stop().await.success());
    // These events are committed and in the dump, but not published.
    commit_one_by_one(&deployment, 7, 601..=650, 1).await;

    restore(&mut deployment, &old, &new).await;
    old.stop().await;
    // Another server writes before the tailer starts: events with transaction ids of old rows, one of them in a
    // savepoint.
    commit_one_by_one(&deployment, 8, 4_001..=4_050, 1).await;
    run(
        &mut deployment.shard(0).await,
        "BEGIN; SAVEPOINT one; INSERT INTO noetl.event (execution_id, event_id, event_type) VALUES (8, 4051, 'a'); COMMIT",
    )
    .await;
    let server = deployment.replica().await;
    deployment.assert_published_once().await;
    assert_eq!(deployment.epoch().await, 2);
    // The transaction counter passes the transaction ids of the old rows.
    commit_one_by_one(&deployment, 9, 5_001..=5_400, 10).await;
    deployment.assert_published_once().await;
    let mut reader = Reader::from_beginning(&server).await;
    let committed = deployment.committed().await;
    reader.read_exactly(&committed).await;

    assert!(server.stop().await.success());
    let _server = deployment.replica().await;
    commit_one_by_one(&deployment, 9, 9_001..=9_010, 1).await;
    deployment.assert_published_once().await;
    assert_eq!(deployment.epoch().await, 2);
    eventually("the tail cursor has no error", async || deployment.last_error().await.is_none().then_some(())).await;
}
