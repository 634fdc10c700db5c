//! The endpoints as a router for axum.
use ::axum::body::{Body, Bytes};
use ::axum::extract::OriginalUri;
use ::axum::http::{Request, Response};
use ::axum::Router;

/// All endpoints: `/debug/pprof/...` as Go has them, and those that users of TiKV, PostHog and
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
/// `.nest("/internal", kiln::axum::router())` mounts it under any path. It does not start the
/// profiler: [`kiln::start`](crate::start) does. Who may ask is for your own layers to say.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    const PATHS: [&str; 5] =
        ["/debug/pprof", "/debug/pprof/{*rest}", "/pprof/{*rest}", "/health", "/metrics"];
    let mut router = Router::new().route("/debug/pprof/", ::axum::routing::any(answer));
    for path in PATHS {
        router = router.route(path, ::axum::routing::any(answer));
    }
    // For a router that is nested at /debug/pprof itself.
    for path in ["/profile", "/profile/flamegraph", "/heap", "/heap/flamegraph", "/allocs"] {
        router = router.route(path, ::axum::routing::any(answer));
    }
    for path in ["/allocs/flamegraph", "/cmdline", "/symbol"] {
        router = router.route(path, ::axum::routing::any(answer));
    }
    router
}

/// One endpoint for all requests, to be used as a fallback or under a path of your own.
pub async fn answer(OriginalUri(original): OriginalUri, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = ::axum::body::to_bytes(body, 4 << 20).await.unwrap_or_else(|_| Bytes::new());
    let prefix = original.path().strip_suffix(parts.uri.path()).unwrap_or("").to_owned();
    let request = Request::from_parts(parts, body);
    crate::http::respond_below(&prefix, request).await.map(Body::from)
}
