//! Orders cars, bikes and scooters; cars take longest to find.
//!
//!     cargo run --release                                        # http://localhost:3000/debug/pprof/
//!     PUSH_URL=http://localhost:4040 REGION=eu cargo run --release
//!     curl "http://localhost:3000/car"
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::routing::get;
use axum::Router;

kiln::used_with_profiling!();

#[inline(never)]
fn find_nearest_vehicle(radius: u64) {
    let end = Instant::now() + Duration::from_millis(10 * radius);
    let mut distance = 1.0f64;
    while Instant::now() < end {
        distance = (0..5_000).fold(distance, |d, i| d + 1.0 / (d + f64::from(i)));
    }
    std::hint::black_box(distance);
}

/// Only cars need a driver, which takes extra time to find.
#[inline(never)]
fn check_driver_availability() {
    find_nearest_vehicle(2);
}

async fn order_car() -> &'static str {
    find_nearest_vehicle(3);
    tokio::task::yield_now().await; // the label stays with the task on any worker thread
    check_driver_availability();
    "a car is on its way\n"
}

async fn order_bike() -> &'static str {
    find_nearest_vehicle(1);
    "a bike is on its way\n"
}

async fn order_scooter() -> &'static str {
    find_nearest_vehicle(2);
    "a scooter is on its way\n"
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    kiln::start()?;
    let region = std::env::var("REGION").unwrap_or_else(|_| "us-east".into());
    let _agent = match std::env::var("PUSH_URL") {
        Ok(url) => Some(kiln::agent(url, "rideshare").tags([("region", region)]).start()?),
        Err(_) => None,
    };
    let vehicle = |request: &Request| {
        kiln::labels!("vehicle" = request.uri().path().trim_start_matches('/'))
    };
    let app = Router::new()
        .route("/car", get(order_car))
        .route("/bike", get(order_bike))
        .route("/scooter", get(order_scooter))
        .layer(kiln::tower::LabelLayer::new(vehicle))
        .merge(kiln::axum::router());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, app).await?;
    Ok(())
}
