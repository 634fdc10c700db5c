//! hyper and nothing else: one path is the service's own, the others are kiln's. Prints where it
//! listens and ends with its input.
use std::io::Read;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kiln_tests::burn;

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    if request.uri().path() == "/work" {
        burn(5);
        return Ok(Response::new(Full::from("done")));
    }
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let request = Request::from_parts(head, body);
    Ok(match request.uri().path().starts_with("/ops/") {
        true => kiln::http::respond_below("/ops", below("/ops", request)).await,
        false => kiln::http::respond(request).await,
    }
    .map(Full::from))
}

/// As routers do that nest others.
fn below(prefix: &str, mut request: Request<Bytes>) -> Request<Bytes> {
    let rest = request.uri().to_string().split_off(prefix.len());
    *request.uri_mut() = rest.parse().unwrap();
    request
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    kiln::start()?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(
            http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)),
        );
    }
}
