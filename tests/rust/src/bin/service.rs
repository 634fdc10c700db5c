//! axum on tokio's workers, with jemalloc unless built without that feature. Prints where it listens and ends with its input.
use std::io::Read;

use axum::routing::get;
use axum::Router;
use kiln::tower::LabelLayer;
use kiln_tests::{burn, hoard, Spent};

#[cfg(feature = "jemalloc")]
kiln::used_with_profiling!();

static CAR: Spent = Spent::new();
static BIKE: Spent = Spent::new();

// Spent in pieces, so that both kinds take turns on the same workers.
async fn order_car() -> &'static str {
    for _ in 0..3 {
        CAR.add(find_nearest(2));
        tokio::task::yield_now().await;
    }
    "a car"
}

async fn order_bike() -> &'static str {
    for _ in 0..2 {
        BIKE.add(find_nearest(1));
        tokio::task::yield_now().await;
    }
    "a bike"
}

#[inline(never)]
fn find_nearest(ms: u64) -> u64 {
    let search = |ms| burn(ms);
    search(ms)
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    kiln::start()?;
    let hoarded = hoard(32);
    let label = |request: &axum::extract::Request| {
        kiln::labels!("vehicle" = request.uri().path().trim_start_matches('/'))
    };
    let app = Router::new()
        .route("/car", get(order_car))
        .route("/bike", get(order_bike))
        .layer(LabelLayer::new(label))
        .route("/spent", get(|| async { format!("{} {}", CAR.get(), BIKE.get()) }))
        .merge(kiln::axum::router())
        .nest("/internal", kiln::axum::router())
        .nest("/ops", Router::new().fallback(kiln::axum::answer))
        .route("/health", get(|| async { "mine" }));
    #[cfg(feature = "jemalloc")]
    let app = app
        .route(
            "/heap/off",
            get(|| async { kiln::jemalloc::deactivate().map_err(|e| e.to_string()) }),
        )
        .route("/heap/on", get(|| async { kiln::jemalloc::activate().map_err(|e| e.to_string()) }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::hint::black_box(&hoarded);
        std::process::exit(0);
    });
    axum::serve(listener, app).await?;
    Ok(())
}
