//! The size and title of a flame graph: a subset of inferno's options.
use std::marker::PhantomData;

/// Options of [`crate::Report::flamegraph_with_options`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options<'a> {
    /// The title above the graph.
    pub title: String,
    /// Width in pixels; `None`: fits the window.
    pub image_width: Option<usize>,
    life: PhantomData<&'a ()>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options { title: "Flame Graph".into(), image_width: None, life: PhantomData }
    }
}
