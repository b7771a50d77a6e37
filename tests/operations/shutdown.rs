//! SIGTERM: the steps of a shutdown are in order, and no request is lost behind a balancer.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use noetl_testkit::{Deployment, Live, Server, WAIT_TIMEOUT, eventually, http_client, sleep_in_scenario};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

const LIVE: &str = "subscription { systemStatus { at } }";
const EXECUTE: &str = "mutation { execute(input: { entry: { path: \"p\" } }) { outcome execution { id } } }";

/// A balancer of connections. It probes the readiness of each replica and opens connections only to ready ones.
struct Balancer {
    url: String,
    tasks: Vec<AbortHandle>,
}

impl Balancer {
    async fn start(replicas: &[&Server]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (mut ready, mut tasks) = (Vec::new(), Vec::new());
        for replica in replicas {
            let address = replica.url.strip_prefix("http://").unwrap().to_owned();
            let (sender, receiver) = watch::channel(true);
            ready.push((address.clone(), receiver));
            tasks.push(tokio::spawn(check(address, sender)).abort_handle());
        }
        tasks.push(tokio::spawn(balance(listener, ready)).abort_handle());
        Self { url, tasks }
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

async fn check(address: String, ready: watch::Sender<bool>) {
    loop {
        let mut answer = [0; 12];
        let probe = async {
            let mut stream = TcpStream::connect(&address).await?;
            let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            stream.read_exact(&mut answer).await
        };
        let asked = tokio::time::timeout(Duration::from_secs(4), probe).await.is_ok_and(|asked| asked.is_ok());
        ready.send_replace(asked && answer == *b"HTTP/1.1 200");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn balance(listener: TcpListener, replicas: Vec<(String, watch::Receiver<bool>)>) {
    let mut connections = JoinSet::new();
    for next in 0.. {
        let (mut client, _) = listener.accept().await.unwrap();
        let ready: Vec<_> = replicas.iter().filter(|(_, ready)| *ready.borrow()).map(|(at, _)| at.clone()).collect();
        let Some(address) = ready.get(next % ready.len().max(1)).cloned() else { continue };
        connections.spawn(async move {
            if let Ok(mut server) = TcpStream::connect(address).await {
                let _ = copy_bidirectional(&mut client, &mut server).await;
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Clients that start executions until `stop` is set.
struct Load {
    clients: JoinSet<Vec<String>>,
    answered: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Load {
    fn start(url: &str) -> Self {
        let (answered, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let mut clients = JoinSet::new();
        for _ in 0..4 {
            let (url, answered, stop) = (format!("{url}/graphql"), Arc::clone(&answered), Arc::clone(&stop));
            clients.spawn(async move {
                let (client, mut ids) = (http_client(), Vec::new());
                while !stop.load(Ordering::Relaxed) {
                    let request = client.post(&url).json(&json!({ "query": EXECUTE })).timeout(WAIT_TIMEOUT);
                    let response = request.send().await.expect("the request failed");
                    assert_eq!(response.status(), 200);
                    let answer: Value = response.json().await.expect("a response was cut");
                    let id = answer["data"]["execute"]["execution"]["id"].as_str();
                    ids.push(id.unwrap_or_else(|| panic!("{answer}")).to_owned());
                    answered.fetch_add(1, Ordering::Relaxed);
                    // Between two requests, the connection is idle.
                    sleep_in_scenario(Duration::from_millis(10)).await;
                }
                ids
            });
        }
        Self { clients, answered, stop }
    }

    /// Waits for `count` more responses. Panics if a client fails.
    async fn more(&mut self, count: usize) {
        let until = self.answered.load(Ordering::Relaxed) + count;
        eventually("more responses arrive", async || {
            if let Some(ended) = self.clients.try_join_next() {
                panic!("a client ended: {ended:?}");
            }
            (self.answered.load(Ordering::Relaxed) >= until).then_some(())
        })
        .await;
    }

    async fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.join_all().await.concat()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_lost_when_a_replica_behind_a_balancer_is_stopped() {
    let deployment = Deployment::start(1).await;
    let delay = [("NOETL_SHUTDOWN_DELAY_SECS", "5")];
    let (first, second) = (deployment.replica_with(&delay).await, deployment.replica_with(&delay).await);
    first.register_entry("p", &json!({ "kind": "playbook" })).await;
    let balancer = Balancer::start(&[&first, &second]).await;
    let mut live =
        [Live::open(&balancer.url, LIVE, Value::Null).await, Live::open(&balancer.url, LIVE, Value::Null).await];
    let mut load = Load::start(&balancer.url);
    load.more(100).await;

    assert!(first.stop().await.success());
    load.more(100).await;
    let ids = load.end().await;
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    let rows = deployment.sum_over_shards("SELECT count(*) FROM noetl.execution").await;
    assert_eq!(
        usize::try_from(rows).unwrap(),
        ids.len(),
        "the number of executions differs from the number of responses"
    );

    // The live connection of the stopped replica was closed. It can continue on the other replica.
    let mut closed = 0;
    for live in &mut live {
        let items = async { while live.next().await.is_some() {} };
        if tokio::time::timeout(Duration::from_secs(3), items).await.is_ok() {
            assert_eq!(live.close_code, Some(1012));
            closed += 1;
        }
    }
    assert_eq!(closed, 1);
    assert!(Live::open(&balancer.url, LIVE, Value::Null).await.next().await.is_some());
}

/// Makes each start of an execution take 2 seconds.
async fn slow_down(deployment: &Deployment) {
    let mut connection = deployment.cluster().await;
    for statement in [
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(2); RETURN NEW; END'",
        "CREATE TRIGGER slow BEFORE INSERT ON noetl.execution FOR EACH ROW EXECUTE FUNCTION slow()",
    ] {
        sqlx::query(statement).execute(&mut connection).await.unwrap();
    }
}

/// Sends one mutation that starts several executions one after another. Returns when the server runs it.
async fn slow_mutation(server: &Server, executions: usize) -> JoinHandle<reqwest::Result<Value>> {
    let field = |index| format!("e{index}: execute(input: {{ entry: {{ path: \"p\" }} }}) {{ outcome }}");
    let query = format!("mutation {{ {} }}", (0..executions).map(field).collect::<Vec<_>>().join(" "));
    let request = http_client().post(format!("{}/graphql", server.url)).json(&json!({ "query": query }));
    let task = tokio::spawn(async move { request.send().await?.json().await });
    eventually("the mutation runs", async || (server.metric("graphql_requests").await >= 1.0).then_some(())).await;
    task
}

/// The parts wait most of the time, each for a server of its own.
#[tokio::test]
async fn a_shutdown_has_steps_gives_operations_their_deadline_and_is_aborted_by_a_second_signal() {
    let deployment = Deployment::start(0).await;
    let (first, second, third) = tokio::join!(
        deployment.replica_with(&[("NOETL_SHUTDOWN_DELAY_SECS", "5")]),
        deployment.replica(),
        deployment.replica_with(&[("NOETL_SHUTDOWN_DELAY_SECS", "60")]),
    );
    first.register_entry("p", &json!({ "kind": "playbook" })).await;
    slow_down(&deployment).await;
    tokio::join!(
        Box::pin(the_steps_of_a_shutdown_are_in_order(first)),
        Box::pin(an_operation_has_its_full_deadline_during_a_shutdown(second)),
        Box::pin(a_second_signal_aborts_a_shutdown(third)),
    );
}

/// The steps of a shutdown are in order. The server has a delay of 5 s.
async fn the_steps_of_a_shutdown_are_in_order(mut server: Server) {
    let mut live = server.live(LIVE, Value::Null).await;
    let mutation = slow_mutation(&server, 5).await;

    server.signal(Signal::SIGTERM);
    eventually("the replica is not ready", async || (server.get("/readyz").await.ok()?.status() == 503).then_some(()))
        .await;
    // During the delay, requests are served. Their connections are closed after the response.
    let response = server.get("/graphql?query=%7Bserver%7Bversion%7D%7D").await.unwrap();
    assert_eq!((response.status().as_u16(), &response.headers()["connection"]), (200, &"close".parse().unwrap()));
    assert!(live.next().await.is_some(), "the live connection ended during the delay");

    while live.next().await.is_some() {}
    assert_eq!(live.close_code, Some(1012));
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    eventually("no connection is accepted", async || TcpStream::connect(&address).await.is_err().then_some(())).await;
    assert!(!mutation.is_finished(), "the mutation ended before its deadline");
    let answer = mutation.await.unwrap().unwrap();
    assert_eq!(answer["data"]["e4"]["outcome"], "STARTED", "{answer}");
    assert!(server.ended().await.success());
}

/// An operation has its full deadline during a shutdown.
async fn an_operation_has_its_full_deadline_during_a_shutdown(mut server: Server) {
    // The mutation takes longer than the shutdown gives to background work, but less than its deadline.
    let mutation = slow_mutation(&server, 6).await;
    server.signal(Signal::SIGTERM);
    let answer = mutation.await.unwrap().expect("the response arrives");
    assert_eq!(answer["data"]["e5"]["outcome"], "STARTED", "{answer}");
    assert!(server.ended().await.success());
}

/// A second signal aborts a shutdown. The server has a delay of 60 s.
async fn a_second_signal_aborts_a_shutdown(mut server: Server) {
    let mutation = slow_mutation(&server, 5).await;
    server.signal(Signal::SIGTERM);
    eventually("the replica is not ready", async || (server.get("/readyz").await.ok()?.status() == 503).then_some(()))
        .await;
    server.signal(Signal::SIGTERM);
    server.ended().await;
    // The connection is closed, unless the response that the execution was not started is sent just before.
    if let Ok(answer) = mutation.await.unwrap() {
        assert_ne!(answer["data"]["e4"]["outcome"], "STARTED", "the operation was not aborted: {answer}");
    }
}
