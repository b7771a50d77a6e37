//! A network that can fail: a TCP proxy in front of a server.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// Maximum number of bytes that are forwarded at a time.
const CHUNK: usize = 16 << 10;

/// Mode in which the proxy forwards bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passing {
    Freely,
    /// Each chunk is delayed by the given time.
    Slowly(Duration),
    /// Connections stay open, but no bytes are forwarded until the mode changes.
    Held,
    /// Open connections are closed and their unsent bytes are lost. New connections are closed immediately.
    Cut,
}

/// A proxy in front of one server.
pub struct Proxy {
    /// Port on 127.0.0.1.
    pub port: u16,
    passing: watch::Sender<Passing>,
    task: AbortHandle,
}

impl Proxy {
    /// Starts a proxy in front of a port on 127.0.0.1.
    pub async fn start(target: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (passing, network) = watch::channel(Passing::Freely);
        let task = tokio::spawn(accept(listener, target, network)).abort_handle();
        Self { port, passing, task }
    }

    /// Sets the mode of all connections.
    pub fn set(&self, passing: Passing) {
        self.passing.send_replace(passing);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, target: u16, network: watch::Receiver<Passing>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        connections.spawn(connect(client, target, network.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// Forwards the bytes of one connection in both directions.
async fn connect(client: TcpStream, target: u16, mut network: watch::Receiver<Passing>) {
    if *network.borrow() == Passing::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
    let (client_says, to_client) = split(client);
    let (server_says, to_server) = split(server);
    tokio::select! {
        () = pass_on(client_says, to_server, network.clone()) => {}
        () = pass_on(server_says, to_client, network.clone()) => {}
        _ = network.wait_for(|passing| *passing == Passing::Cut) => {}
    }
}

fn split(connection: TcpStream) -> (OwnedReadHalf, OwnedWriteHalf) {
    connection.set_nodelay(true).unwrap();
    connection.into_split()
}

/// Forwards bytes in one direction until one of the two sides closes its connection.
async fn pass_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut network: watch::Receiver<Passing>) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(bytes @ 1..) = from.read(&mut chunk).await {
        let Ok(passing) = network.wait_for(|passing| *passing != Passing::Held).await.map(|passing| *passing) else {
            return;
        };
        if let Passing::Slowly(delay) = passing {
            tokio::time::sleep(delay).await;
        }
        if to.write_all(&chunk[..bytes]).await.is_err() {
            return;
        }
    }
}
