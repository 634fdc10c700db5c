//! How a flame graph looks: the part of inferno's options that is about size and words.
use std::marker::PhantomData;

/// Options of [`crate::Report::flamegraph_with_options`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options<'a> {
    /// What stands above the graph.
    pub title: String,
    /// Its width in pixels; `None`: it fits the window.
    pub image_width: Option<usize>,
    life: PhantomData<&'a ()>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options { title: "Flame Graph".into(), image_width: None, life: PhantomData }
    }
}
