//! Connections to one server: kept open, the last one used first, more when all are busy.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::{TcpStream, lookup_host};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A dead server is not asked again within this time: its requests fail at once.
const RETRY_AFTER: Duration = Duration::from_millis(500);

pub(crate) struct Pool {
    host: String,
    port: u16,
    /// Resolved once, so that no request waits for a name.
    address: Cell<Option<SocketAddr>>,
    idle: RefCell<Vec<TcpStream>>,
    failed: RefCell<Option<(Instant, String)>>,
    /// Connections made.
    pub opened: Cell<u32>,
    /// Kept ones that the server had closed.
    pub lost: Cell<u32>,
    /// Where all connections of a worker read to, one at a time.
    pub buffer: RefCell<Vec<u8>>,
}

const READ_AT_ONCE: usize = 64 << 10;

impl Pool {
    pub fn new(host: &str, port: u16) -> Self {
        Self {
            host: host.to_owned(),
            port,
            address: Cell::new(None),
            idle: RefCell::new(Vec::new()),
            failed: RefCell::new(None),
            opened: Cell::new(0),
            lost: Cell::new(0),
            buffer: RefCell::new(vec![0; READ_AT_ONCE]),
        }
    }

    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// A connection of one's own, and whether it was used before.
    pub async fn take(&self) -> Result<(TcpStream, bool), String> {
        while let Some(socket) = self.idle.borrow_mut().pop() {
            // Nothing may come on an idle connection: its end would, or what belongs to no request.
            match socket.try_read(&mut [0]) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok((socket, true)),
                _ => self.lost.set(self.lost.get() + 1),
            }
        }
        self.open().await.map(|socket| (socket, false))
    }

    pub fn put(&self, socket: TcpStream) {
        self.idle.borrow_mut().push(socket);
    }

    /// Opens so many ahead of need.
    pub async fn warm(&self, count: usize) -> Result<(), String> {
        while self.idle.borrow().len() < count {
            let socket = self.open().await?;
            self.put(socket);
        }
        Ok(())
    }

    /// A new one.
    pub async fn open(&self) -> Result<TcpStream, String> {
        if let Some((at, why)) = &*self.failed.borrow()
            && at.elapsed() < RETRY_AFTER
        {
            return Err(why.clone());
        }
        let opened = match tokio::time::timeout(CONNECT_TIMEOUT, self.connect()).await {
            Ok(opened) => opened,
            Err(_) => Err(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs())),
        };
        *self.failed.borrow_mut() = opened.as_ref().err().map(|why| (Instant::now(), why.clone()));
        if opened.is_ok() {
            self.opened.set(self.opened.get() + 1);
        }
        opened
    }

    async fn connect(&self) -> Result<TcpStream, String> {
        let socket = match self.address.get() {
            Some(address) => TcpStream::connect(address).await.map_err(|e| told(&e))?,
            None => self.first().await?,
        };
        socket.set_nodelay(true).map_err(|e| e.to_string())?;
        Ok(socket)
    }

    /// Tries every address of the host; the one that answers is kept.
    async fn first(&self) -> Result<TcpStream, String> {
        let found = lookup_host((self.host.as_str(), self.port)).await;
        let mut why = "the name has no address".to_owned();
        for address in found.map_err(|e| format!("the name {} is not known: {e}", self.host))? {
            match TcpStream::connect(address).await {
                Ok(socket) => {
                    self.address.set(Some(address));
                    return Ok(socket);
                }
                Err(error) => why = told(&error),
            }
        }
        Err(why)
    }
}

/// Running out of ports or descriptors is the client's fault, and should be told as such.
fn told(error: &std::io::Error) -> String {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::ADDRNOTAVAIL) => {
            format!("{error}: all local ports to this server are taken (net.ipv4.ip_local_port_range)")
        }
        Some(rustix::io::Errno::MFILE) => format!("{error}: raise `ulimit -n`"),
        _ => error.to_string(),
    }
}
