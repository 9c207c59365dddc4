//! A server whose answers a test chooses.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    future::{Future, pending},
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    time,
};

use super::{FleetStore, StoreOptions};

/// A command: its name and its arguments.
pub(in crate::fleet) type Words = Vec<Vec<u8>>;

/// What is no error and no value.
pub(in crate::fleet) const NIL: &[u8] = b"$-1\r\n";

/// A master on this machine, as far as a client needs one.
pub(in crate::fleet) struct FakeServer {
    pub(in crate::fleet) port: u16,
    connections: Arc<AtomicUsize>,
}

impl FakeServer {
    /// Answers commands by what `answer` returns: a reply in the protocol of Redis. What clients
    /// send when they connect is answered without it.
    pub(in crate::fleet) async fn start<A>(
        answer: impl Fn(Words) -> A + Clone + Send + 'static,
    ) -> Self
    where
        A: Future<Output = Vec<u8>> + Send,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                let answer = answer.clone();
                // It ends when the client leaves.
                tokio::spawn(async move { drop(serve(client, answer).await) });
            }
        });
        Self { port, connections }
    }

    /// One that takes this long for each answer.
    pub(in crate::fleet) async fn slow(
        delay: Duration,
        answer: impl Fn(Words) -> Vec<u8> + Clone + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |words| {
            let reply = answer(words);
            async move {
                let _ = time::timeout(delay, pending::<()>()).await;
                reply
            }
        })
        .await
    }

    /// A place where no server is.
    pub(in crate::fleet) fn nobody() -> Self {
        Self {
            port: 1,
            connections: Arc::default(),
        }
    }

    /// Connections that were opened.
    pub(in crate::fleet) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(in crate::fleet) fn options(&self) -> StoreOptions {
        StoreOptions {
            urls: vec![format!("redis://127.0.0.1:{}", self.port).parse().unwrap()],
            sentinel: None,
            prefix: "fake".to_owned(),
            owner: "owner".to_owned(),
        }
    }

    pub(in crate::fleet) fn store(&self) -> FleetStore {
        FleetStore::open(self.options()).unwrap()
    }
}

async fn serve<A>(client: TcpStream, answer: impl Fn(Words) -> A) -> io::Result<()>
where
    A: Future<Output = Vec<u8>>,
{
    let mut client = BufReader::new(client);
    loop {
        let words = read(&mut client).await?;
        let reply = match &*words[0] {
            b"CLIENT" | b"SELECT" => b"+OK\r\n".to_vec(),
            b"ROLE" => b"*1\r\n$6\r\nmaster\r\n".to_vec(),
            _ => answer(words).await,
        };
        client.write_all(&reply).await?;
    }
}

/// Reads a list of strings.
async fn read(client: &mut BufReader<TcpStream>) -> io::Result<Words> {
    let mut words = Vec::new();
    for _ in 0..number(client).await? {
        let mut word = vec![0; number(client).await?];
        client.read_exact(&mut word).await?;
        client.read_exact(&mut [0; 2]).await?;
        words.push(word);
    }
    Ok(words)
}

/// Reads the number of a line, which a sign goes before.
async fn number(client: &mut BufReader<TcpStream>) -> io::Result<usize> {
    let mut line = String::new();
    client.read_line(&mut line).await?;
    let number = line.get(1..).map(str::trim_end);
    let number = number.and_then(|number| number.parse().ok());
    number.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// A reply that is a string.
pub(in crate::fleet) fn string(bytes: &[u8]) -> Vec<u8> {
    let mut reply = format!("${}\r\n", bytes.len()).into_bytes();
    reply.extend_from_slice(bytes);
    reply.extend_from_slice(b"\r\n");
    reply
}

/// A reply that is a list.
pub(in crate::fleet) fn list(values: &[Vec<u8>]) -> Vec<u8> {
    let mut reply = format!("*{}\r\n", values.len()).into_bytes();
    reply.extend(values.concat());
    reply
}
