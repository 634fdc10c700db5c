//! Labels for each request of a tower service: axum, tonic, hyper, ...
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use crate::labels::Labeled;
use crate::Labels;

/// Labels the work on each request, on whichever thread it is polled. A function returns the
/// labels.
///
/// ```no_run
/// # fn app() -> axum::Router {
/// axum::Router::new()
///     .route("/{vehicle}", axum::routing::get(|| async { "here it comes" }))
///     .layer(kiln::tower::LabelLayer::new(|request: &axum::extract::Request| {
///         kiln::labels!("path" = request.uri().path())
///     }))
/// # }
/// ```
///
/// Labels should have few distinct values: on a server each value is a separate series.
#[derive(Clone, Debug)]
pub struct LabelLayer<L>(L);

impl<L> LabelLayer<L> {
    /// `labels` is called with each request.
    pub fn new<R>(labels: L) -> LabelLayer<L>
    where
        L: Fn(&R) -> Labels + Clone,
    {
        LabelLayer(labels)
    }
}

impl<S, L: Clone> Layer<S> for LabelLayer<L> {
    type Service = LabelService<S, L>;

    fn layer(&self, inner: S) -> Self::Service {
        LabelService { inner, labels: self.0.clone() }
    }
}

/// A service wrapped by [`LabelLayer`].
#[derive(Clone, Debug)]
pub struct LabelService<S, L> {
    inner: S,
    labels: L,
}

impl<S, L, R> Service<R> for LabelService<S, L>
where
    S: Service<R>,
    L: Fn(&R) -> Labels,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Labeled<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let labels = (self.labels)(&request);
        Labeled::make(labels, || self.inner.call(request))
    }
}
