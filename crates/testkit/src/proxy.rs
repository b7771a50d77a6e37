//! A network that can fail: a TCP proxy in front of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::Deployment;

/// Maximum number of bytes that are forwarded at a time.
const CHUNK: usize = 16 << 10;
/// Number of chunks that are under way in one direction.
const UNDER_WAY: usize = 16;

/// Mode in which the proxy forwards bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardingMode {
    /// Each chunk is forwarded at once.
    Normal,
    /// Each byte arrives this time after it was sent.
    Delayed(Duration),
    /// Connections stay open, but no bytes are forwarded until the mode changes.
    Stalled,
    /// Open connections are closed and their unsent bytes are lost. New connections are closed immediately.
    Closed,
}

/// A proxy in front of one server.
pub struct Proxy {
    /// Port on 127.0.0.1.
    pub port: u16,
    /// Port on 127.0.0.1 to which new connections lead.
    target: Arc<AtomicU16>,
    mode: watch::Sender<ForwardingMode>,
    /// Number of times that the open connections were frozen.
    frozen: watch::Sender<u64>,
    task: AbortHandle,
}

/// Network of one connection.
#[derive(Clone)]
struct Network {
    mode: watch::Receiver<ForwardingMode>,
    frozen: watch::Receiver<u64>,
    /// Number of freezes before the connection was opened.
    opened: u64,
}

impl Network {
    /// Waits until bytes are forwarded. Returns `None` if the proxy has ended. A frozen connection waits forever.
    async fn forwarding(&mut self) -> Option<ForwardingMode> {
        let mode = self.mode.wait_for(|mode| *mode != ForwardingMode::Stalled).await.ok().map(|mode| *mode)?;
        if *self.frozen.borrow() != self.opened {
            std::future::pending::<()>().await;
        }
        Some(mode)
    }
}

impl Proxy {
    /// Starts a proxy in front of a port on 127.0.0.1.
    pub async fn start(target: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mode, modes) = watch::channel(ForwardingMode::Normal);
        let (frozen, freezes) = watch::channel(0);
        let network = Network { mode: modes, frozen: freezes, opened: 0 };
        let target = Arc::new(AtomicU16::new(target));
        let task = tokio::spawn(accept(listener, Arc::clone(&target), network)).abort_handle();
        Self { port, target, mode, frozen, task }
    }

    /// Starts a proxy in front of a database's server. Returns it with the address of the database through the proxy.
    pub async fn before_database(dsn: &str) -> (Self, String) {
        let port = dsn.parse::<PgConnectOptions>().unwrap().get_port();
        let proxy = Self::start(port).await;
        let through = dsn.replace(&format!(":{port}/"), &format!(":{}/", proxy.port));
        (proxy, through)
    }

    /// Leads new connections to another port, as a changed address does. Open connections stay.
    pub fn redirect(&self, target: u16) {
        self.target.store(target, Ordering::Relaxed);
    }

    /// Sets the mode of all connections.
    pub fn set(&self, mode: ForwardingMode) {
        self.mode.send_replace(mode);
    }

    /// Freezes the connections that are open: they stay open, but never forward another byte. New connections work.
    pub fn freeze(&self) {
        self.frozen.send_modify(|count| *count += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Deployment {
    /// Starts a proxy in front of a separate shard. It carries the connections of replicas that start later, but not
    /// those of the test.
    pub async fn shard_behind_proxy(&mut self, shard: usize) -> Proxy {
        let (proxy, through) = Proxy::before_database(&self.shard_dsns[shard]).await;
        let (_, dsns) = self.env.iter().find(|(name, _)| name == "NOETL_SHARDS").unwrap();
        let mut dsns: Vec<String> = dsns.split(',').map(str::to_owned).collect();
        dsns[shard] = through;
        self.configure_shards(&dsns);
        proxy
    }
}

async fn accept(listener: TcpListener, target: Arc<AtomicU16>, network: Network) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        let opened = *network.frozen.borrow();
        connections.spawn(connect(client, target.load(Ordering::Relaxed), Network { opened, ..network.clone() }));
        while connections.try_join_next().is_some() {}
    }
}

/// Forwards the bytes of one connection in both directions.
async fn connect(client: TcpStream, target: u16, mut network: Network) {
    if *network.mode.borrow() == ForwardingMode::Closed {
        return;
    }
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
    let (from_client, to_client) = split(client);
    let (from_server, to_server) = split(server);
    tokio::select! {
        () = forward(from_client, to_server, network.clone()) => {}
        () = forward(from_server, to_client, network.clone()) => {}
        _ = network.mode.wait_for(|mode| *mode == ForwardingMode::Closed) => {}
    }
}

fn split(connection: TcpStream) -> (OwnedReadHalf, OwnedWriteHalf) {
    connection.set_nodelay(true).unwrap();
    connection.into_split()
}

/// Forwards bytes in one direction until one of the two sides closes its connection.
async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut network: Network) {
    let (under_way, mut arriving) = mpsc::channel(UNDER_WAY);
    let reading = async move {
        let mut chunk = vec![0; CHUNK];
        while let Ok(bytes @ 1..) = from.read(&mut chunk).await {
            if under_way.send((Instant::now(), chunk[..bytes].to_vec())).await.is_err() {
                return;
            }
        }
    };
    let writing = async {
        while let Some((sent, chunk)) = arriving.recv().await {
            let Some(mode) = network.forwarding().await else { return };
            if let ForwardingMode::Delayed(delay) = mode {
                tokio::time::sleep_until(sent + delay).await;
            }
            if to.write_all(&chunk).await.is_err() {
                return;
            }
        }
    };
    let reading = async {
        reading.await;
        // The rest is written.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = writing => {}
        () = reading => {}
    }
}
