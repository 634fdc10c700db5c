//! The endpoints as an axum router.
use ::axum::body::{Body, Bytes};
use ::axum::extract::OriginalUri;
use ::axum::http::{Request, Response};
use ::axum::Router;

/// Routes all endpoints: `/debug/pprof/...` as in Go, the paths that users of TiKV, PostHog and
/// jemalloc_pprof know, `/metrics` and `/health`.
///
/// ```no_run
/// # async fn serve() {
/// let app = axum::Router::new()
///     .route("/", axum::routing::get(|| async { "hello" }))
///     .merge(kiln::axum::router());
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await.unwrap();
/// axum::serve(listener, app).await.unwrap();
/// # }
/// ```
///
/// `.nest("/internal", kiln::axum::router())` mounts it under any path; [`answer`] does so without
/// `/debug/pprof`. Your own routes take precedence, for instance your own `GET /health` and `GET
/// /metrics`. This does not start the profiler: call [`kiln::start`](crate::start). Authentication
/// is up to your own layers.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    const PATHS: [&str; 6] = [
        "/debug/pprof",
        "/debug/pprof/",
        "/debug/pprof/{*rest}",
        "/pprof/{*rest}",
        "/health",
        "/metrics",
    ];
    PATHS.iter().fold(Router::new(), |router, path| router.route(path, ::axum::routing::any(answer)))
}

/// Handles all requests with one endpoint. As the fallback of a nested router it responds below
/// that path: `/ops/profile` is `/debug/pprof/profile` with `.nest("/ops",
/// axum::Router::new().fallback(kiln::axum::answer))`.
pub async fn answer(OriginalUri(original): OriginalUri, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = ::axum::body::to_bytes(body, 4 << 20).await.unwrap_or_else(|_| Bytes::new());
    let prefix = original.path().strip_suffix(parts.uri.path()).unwrap_or("").to_owned();
    let request = Request::from_parts(parts, body);
    crate::http::respond_below(&prefix, request).await.map(Body::from)
}
