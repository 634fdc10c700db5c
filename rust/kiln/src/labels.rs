//! Labels of the calling thread, and of tasks that move between threads.
use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use crate::error::with_c_string;
use crate::sys;

/// An immutable set of labels. Making one takes a lookup, and a lock unless the thread used the set
/// recently. Entering one is a single store.
///
/// ```
/// let car = kiln::labels!("vehicle" = "car", "region" = "eu");
/// car.scope(|| { /* samples of this thread carry both */ });
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Labels(u32);

impl Labels {
    /// The empty set.
    pub const fn empty() -> Labels {
        Labels(0)
    }

    /// The calling thread's labels.
    pub fn current() -> Labels {
        // SAFETY: a set that a thread has entered is held by the code that entered it.
        let set = unsafe { sys::kiln_labels_current() };
        Labels::held(set)
    }

    fn held(set: u32) -> Labels {
        if set != 0 {
            // SAFETY: the id of a freed set means the empty set.
            unsafe { sys::kiln_labels_hold(set) };
        }
        Labels(set)
    }

    /// Returns a set with one more label, or with another value for it.
    pub fn with(&self, key: &str, value: &str) -> Labels {
        with_c_string(key, |key| {
            with_c_string(value, |value| {
                // SAFETY: strings are copied; we own the returned reference.
                Labels(unsafe { sys::kiln_labels_with(self.0, key, value) })
            })
        })
    }

    /// Returns a set without this label.
    pub fn without(&self, key: &str) -> Labels {
        // SAFETY: as above.
        with_c_string(key, |key| Labels(unsafe { sys::kiln_labels_without(self.0, key) }))
    }

    /// Replaces the calling thread's labels until the guard is dropped.
    pub fn enter(&self) -> LabelGuard {
        LabelGuard::new(self.clone())
    }

    /// Calls `call` with these labels.
    pub fn scope<T>(&self, call: impl FnOnce() -> T) -> T {
        let _guard = self.enter();
        call()
    }
}

impl Clone for Labels {
    fn clone(&self) -> Self {
        Labels::held(self.0)
    }
}

impl Default for Labels {
    fn default() -> Self {
        Labels::empty()
    }
}

impl Drop for Labels {
    fn drop(&mut self) {
        if self.0 != 0 {
            // SAFETY: we own the reference.
            unsafe { sys::kiln_labels_release(self.0) }
        }
    }
}

/// Returned by [`label!`](crate::label!): restores the thread's previous labels when dropped. It
/// stays on its thread; in async code use [`LabelFuture`].
#[derive(Debug)]
#[must_use = "the label is gone as soon as this is dropped: let _label = ..."]
pub struct LabelGuard {
    had: Labels,
    _labels: Labels,
    on_thread: PhantomData<*const ()>,
}

impl LabelGuard {
    #[doc(hidden)]
    pub fn new(labels: Labels) -> LabelGuard {
        let had = Labels::current();
        // SAFETY: the set is held until the guard is dropped.
        unsafe { sys::kiln_labels_enter(labels.0) };
        LabelGuard { had, _labels: labels, on_thread: PhantomData }
    }
}

impl Drop for LabelGuard {
    fn drop(&mut self) {
        // SAFETY: the set is held, first here and then by TAGS.
        unsafe { sys::kiln_labels_enter(self.had.0) };
        if self.had.0 != 0 {
            keep(std::mem::take(&mut self.had));
        }
    }
}

/// Adds labels to the thread's labels until the returned guard is dropped. Scopes nest.
///
/// ```
/// let _label = kiln::label!("vehicle" = "car");
/// ```
///
/// The guard cannot be held across an `.await` of a task that moves between threads: that is a
/// compile error. Use [`LabelFuture::with_labels`](crate::LabelFuture::with_labels) there.
#[macro_export]
macro_rules! label {
    ($($key:literal = $value:expr),+ $(,)?) => {
        $crate::LabelGuard::new($crate::Labels::current()$(.with($key, ::core::convert::AsRef::<str>::as_ref(&$value)))+)
    };
}

/// Makes a set of labels to keep: see [`Labels`].
///
/// ```
/// let car = kiln::labels!("vehicle" = "car", "region" = "eu");
/// ```
#[macro_export]
macro_rules! labels {
    ($($key:literal = $value:expr),* $(,)?) => {
        $crate::Labels::empty()$(.with($key, ::core::convert::AsRef::<str>::as_ref(&$value)))*
    };
}

/// Sets the ids of the trace and the span that the calling thread works on, until they are replaced
/// or [`clear_trace`] is called. Samples carry them as `trace_id` and `span_id`. This costs a few
/// stores. Ids that are set inside a [labeled future](LabelFuture) stay with that future.
pub fn set_trace(trace_id: [u8; 16], span_id: [u8; 8]) {
    // SAFETY: both arrays have the size that C reads.
    unsafe { sys::kiln_set_trace(trace_id.as_ptr(), span_id.as_ptr()) }
}

/// Clears the trace and span of the calling thread.
pub fn clear_trace() {
    // SAFETY: NULL means none.
    unsafe { sys::kiln_set_trace(std::ptr::null(), std::ptr::null()) }
}

thread_local! {
    /// Keeps the thread's set alive where no guard or future does: after add_tag and remove_tag,
    /// and for a set that a guard restored, because tags may have been changed inside the guard.
    static TAGS: RefCell<Labels> = const { RefCell::new(Labels::empty()) };
}

fn keep(labels: Labels) {
    // Fails only in a thread that is ending, which needs no tags any more.
    let _ = TAGS.try_with(|tags| drop(tags.replace(labels)));
}

fn set_tags(labels: Labels) {
    // SAFETY: TAGS holds the set until it is replaced.
    unsafe { sys::kiln_labels_enter(labels.0) };
    keep(labels);
}

/// Adds a label to the calling thread until [`remove_tag`] removes it.
pub fn add_tag(key: impl AsRef<str>, value: impl AsRef<str>) {
    set_tags(Labels::current().with(key.as_ref(), value.as_ref()));
}

/// Removes a label from the calling thread.
pub fn remove_tag(key: impl AsRef<str>) {
    set_tags(Labels::current().without(key.as_ref()));
}

/// Returns two functions that set and remove a tag of the calling thread, like the agent of
/// pyroscope-rs. They cost a lookup and do not flush.
///
/// ```
/// let (add_tag, remove_tag) = kiln::tag_wrapper();
/// add_tag("batch".to_string(), "first".to_string())?;
/// remove_tag("batch".to_string(), "first".to_string())?;
/// # kiln::Result::Ok(())
/// ```
#[allow(clippy::type_complexity)]
pub fn tag_wrapper() -> (
    impl Fn(String, String) -> crate::Result<()> + Send + Sync + Clone,
    impl Fn(String, String) -> crate::Result<()> + Send + Sync + Clone,
) {
    (
        |key: String, value: String| {
            add_tag(key, value);
            Ok(())
        },
        |key: String, _: String| {
            remove_tag(key);
            Ok(())
        },
    )
}

/// Labels and trace ids of a task, swapped with the thread's around each poll.
#[derive(Debug)]
struct Carried(sys::Context);

// SAFETY: plain data; the profiler counts references to the set.
unsafe impl Send for Carried {}

impl Carried {
    fn with(labels: Labels) -> Carried {
        let mut context = Carried::thread();
        context.labels = labels.0;
        std::mem::forget(labels); // we own its reference now
        Carried(context)
    }

    fn thread() -> sys::Context {
        let mut context = sys::Context::default();
        // SAFETY: C writes the whole struct.
        unsafe { sys::kiln_context_get(&mut context) };
        context
    }

    fn enter(&mut self) -> Entered<'_> {
        let mut had = sys::Context::default();
        // SAFETY: our set is held while it is entered.
        unsafe { sys::kiln_context_enter(&self.0, &mut had) };
        Entered { carried: self, held: Labels::held(had.labels), had }
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        drop(Labels(self.0.labels));
    }
}

struct Entered<'a> {
    carried: &'a mut Carried,
    had: sys::Context,
    held: Labels, // holds the labels of `had`
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut now = sys::Context::default();
        // SAFETY: the set is held, first here and then by TAGS.
        unsafe { sys::kiln_context_enter(&self.had, &mut now) };
        if now.labels != self.carried.0.labels {
            // add_tag or remove_tag changed the labels: the task keeps the change.
            std::mem::forget(Labels::held(now.labels));
            drop(Labels(self.carried.0.labels));
        }
        self.carried.0 = now;
        if self.held.0 != 0 {
            keep(std::mem::take(&mut self.held));
        }
    }
}

/// A future with its own labels, on whichever thread it is polled.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Labeled<F> {
    carried: Carried,
    future: F,
}

impl<F> Labeled<F> {
    /// Enters the labels while the future is made, before its first poll.
    #[cfg(feature = "tower")]
    pub(crate) fn make(labels: Labels, make: impl FnOnce() -> F) -> Labeled<F> {
        let mut carried = Carried::with(labels);
        let future = {
            let _entered = carried.enter();
            make()
        };
        Labeled { carried, future }
    }
}

impl<F: Future> Future for Labeled<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<F::Output> {
        // SAFETY: future is pinned together with self and never moved; carried is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        let _entered = this.carried.enter();
        future.poll(context)
    }
}

/// Gives a future its own labels. tokio moves tasks between its workers and interleaves them, so a
/// thread's labels would apply to all of them.
///
/// ```
/// use kiln::LabelFuture;
/// # async fn find_car() {}
/// let task = find_car().with_labels(kiln::labels!("vehicle" = "car"));
/// ```
pub trait LabelFuture: Future + Sized {
    /// Runs the future with these labels instead of the thread's.
    fn with_labels(self, labels: Labels) -> Labeled<Self> {
        Labeled { carried: Carried::with(labels), future: self }
    }

    /// Runs the future with the current labels of the calling thread or task plus one.
    fn with_label(self, key: &str, value: &str) -> Labeled<Self> {
        self.with_labels(Labels::current().with(key, value))
    }

    /// Runs the future with the current labels of the calling thread or task; for spawned tasks.
    fn in_current_labels(self) -> Labeled<Self> {
        self.with_labels(Labels::current())
    }
}

impl<F: Future> LabelFuture for F {}
