//! Steps of the database's clock do not stop the feed for long, and never let two tailers publish.

use noetl_testkit::feed::run;
use noetl_testkit::{Deployment, Server, eventually};

/// Writes the end of the lease as it is after the clock was set back or forward by an interval.
async fn step(deployment: &Deployment, interval: &str) {
    let lease = format!("UPDATE noetl.tail_cursor SET lease_until = lease_until + interval '{interval}'");
    run(&mut deployment.shard(0).await, &lease).await;
}

#[tokio::test]
async fn steps_of_the_clock_stop_no_feed_and_lose_and_repeat_no_event() {
    let deployment = Deployment::start(1).await;
    let server = deployment.replica().await;
    deployment.feeds_begun().await;
    let next = a_lease_of_a_dead_leader_that_ends_in_an_hour_is_taken_over(&deployment, server).await;
    let _one = a_lease_that_was_released_in_the_future_is_taken(&deployment, next).await;
    steps_while_two_replicas_run_lose_and_repeat_no_event(&deployment).await;
}

/// The clock is set back by an hour, so the lease of the dead leader ends in an hour.
async fn a_lease_of_a_dead_leader_that_ends_in_an_hour_is_taken_over(
    deployment: &Deployment,
    mut server: Server,
) -> Server {
    deployment.commit(7, 1..=10).await;
    deployment.until_published(10).await;
    server.kill_9().await;
    step(deployment, "1 hour").await;
    let next = deployment.replica().await;
    deployment.commit(7, 11..=20).await;
    deployment.assert_published_once().await;
    assert_eq!(deployment.epoch().await, 1);
    next
}

/// The clock is an hour slower than the one that the last leader saw, as that of a standby may be.
async fn a_lease_that_was_released_in_the_future_is_taken(deployment: &Deployment, server: Server) -> Server {
    assert!(server.stop().await.success());
    run(&mut deployment.shard(0).await, "UPDATE noetl.tail_cursor SET updated_at = now() + interval '1 hour'").await;
    let next = deployment.replica().await;
    deployment.commit(8, 1..=10).await;
    deployment.assert_published_once().await;
    next
}

/// Another replica starts, and the clock steps back and forward. Each event is published once, and one of them leads.
async fn steps_while_two_replicas_run_lose_and_repeat_no_event(deployment: &Deployment) {
    let _other = deployment.replica().await;
    for (round, interval) in (0..).zip(["1 hour", "-1 hour", "10 years", "-10 years", "5 seconds", "-5 seconds"]) {
        deployment.commit(9, round * 100 + 1..=round * 100 + 50).await;
        step(deployment, interval).await;
        deployment.commit(9, round * 100 + 51..=round * 100 + 100).await;
        deployment.assert_published_once().await;
    }
    eventually("a replica leads", async || deployment.leader(0).await).await;
    assert_eq!(deployment.epoch().await, 1);
}
