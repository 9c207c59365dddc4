//! The baseline of HTTP requests: an actix-web handler that drains the body and returns a constant
//! of a given size.
//!
//! `bare PORT BYTES [WORKERS]` listens on 127.0.0.1:PORT. Any cost above this baseline is
//! nearhead's own.

use actix_web::{App, HttpResponse, HttpServer, web};
use bytes::Bytes;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

async fn constant(_drained: Bytes, body: web::Data<Bytes>) -> HttpResponse {
    HttpResponse::Ok()
        .content_type("application/json")
        .body(Bytes::clone(&body))
}

fn main() -> std::io::Result<()> {
    let numbers: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|arg| arg.parse().ok())
        .collect();
    let (port, size, workers) = match numbers[..] {
        [port, size] => (port, size, 1),
        [port, size, workers] => (port, size, workers),
        _ => return Err(std::io::Error::other("usage: bare PORT BYTES [WORKERS]")),
    };
    let port = u16::try_from(port).map_err(std::io::Error::other)?;
    let body = web::Data::new(Bytes::from(vec![b'x'; size]));
    actix_web::rt::System::new().block_on(
        HttpServer::new(move || {
            App::new()
                .app_data(body.clone())
                .route("/v3/{key}", web::post().to(constant))
        })
        .workers(workers)
        .bind(("127.0.0.1", port))?
        .run(),
    )
}
