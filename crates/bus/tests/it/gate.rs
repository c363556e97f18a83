//! A way to a server that can be shut: open connections end, new ones are refused.

use std::net::SocketAddr;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

/// Passes connections on while it is open.
pub(crate) struct Gate {
    address: SocketAddr,
    target: SocketAddr,
    /// The listener and all connections through it.
    passing: Option<JoinHandle<()>>,
}

impl Gate {
    pub(crate) async fn open_to(target: SocketAddr) -> Gate {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let passing = Some(tokio::spawn(pass(listener, target)));
        Gate { address, target, passing }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) async fn shut(&mut self) {
        let Some(passing) = self.passing.take() else { return };
        passing.abort();
        let _ = passing.await;
    }

    pub(crate) async fn reopen(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.passing = Some(tokio::spawn(pass(listener, self.target)));
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if let Some(passing) = &self.passing {
            passing.abort();
        }
    }
}

async fn pass(listener: TcpListener, target: SocketAddr) {
    let mut connections = JoinSet::new();
    while let Ok((mut near, _)) = listener.accept().await {
        connections.spawn(async move {
            if let Ok(mut far) = TcpStream::connect(target).await {
                let _ = copy_bidirectional(&mut near, &mut far).await;
            }
        });
    }
}
