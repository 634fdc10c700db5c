//! Labels of the calling thread, and of tasks that move between threads.
use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use crate::error::with_c_string;
use crate::sys;

/// An immutable set of labels, known to the profiler by a number. Making one takes a lookup, and a
/// lock if it is none of those that the thread used last; entering one is a store.
///
/// ```
/// let car = kiln::labels!("vehicle" = "car", "region" = "eu");
/// car.scope(|| { /* samples of this thread carry both */ });
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Labels(u32);

impl Labels {
    /// No labels.
    pub const fn empty() -> Labels {
        Labels(0)
    }

    /// Those of the calling thread.
    pub fn current() -> Labels {
        // SAFETY: a set that a thread carries is held by whoever entered it.
        let set = unsafe { sys::kiln_labels_current() };
        Labels::held(set)
    }

    fn held(set: u32) -> Labels {
        if set != 0 {
            // SAFETY: numbers of sets that are gone mean the empty set.
            unsafe { sys::kiln_labels_hold(set) };
        }
        Labels(set)
    }

    /// The same with one more, or with another value of it.
    pub fn with(&self, key: &str, value: &str) -> Labels {
        with_c_string(key, |key| {
            with_c_string(value, |value| {
                // SAFETY: texts are copied; the reference that comes back is ours.
                Labels(unsafe { sys::kiln_labels_with(self.0, key, value) })
            })
        })
    }

    /// The same without one of them.
    pub fn without(&self, key: &str) -> Labels {
        // SAFETY: as above.
        with_c_string(key, |key| Labels(unsafe { sys::kiln_labels_without(self.0, key) }))
    }

    /// Makes them the calling thread's, in place of what it has, until the guard is dropped.
    pub fn enter(&self) -> LabelGuard {
        LabelGuard::new(self.clone())
    }

    /// Calls something with these labels.
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
            // SAFETY: the reference is ours.
            unsafe { sys::kiln_labels_release(self.0) }
        }
    }
}

/// What [`label!`](crate::label!) gives: when it is dropped, the thread has the labels that it had
/// before. It stays on its thread; in async code use [`LabelFuture`].
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
        // SAFETY: the set is held, here and then by TAGS.
        unsafe { sys::kiln_labels_enter(self.had.0) };
        if self.had.0 != 0 {
            keep(std::mem::take(&mut self.had));
        }
    }
}

/// Labels for a stretch of code, until the guard that it gives is dropped. They add to what the
/// thread has; scopes nest.
///
/// ```
/// let _label = kiln::label!("vehicle" = "car");
/// ```
///
/// The guard cannot be held across an `.await` of a task that moves between threads: the compiler
/// says so. [`LabelFuture::with_labels`](crate::LabelFuture::with_labels) does it.
#[macro_export]
macro_rules! label {
    ($($key:literal = $value:expr),+ $(,)?) => {
        $crate::LabelGuard::new($crate::Labels::current()$(.with($key, ::core::convert::AsRef::<str>::as_ref(&$value)))+)
    };
}

/// A set of labels to keep: see [`Labels`].
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

/// Tells the ids of the trace and the span that the calling thread works for, until others are told
/// or [`clear_trace`] is called. Samples carry them as `trace_id` and `span_id`; this costs a few
/// stores. A future that was [given labels](LabelFuture) keeps what is set in it to itself.
pub fn set_trace(trace_id: [u8; 16], span_id: [u8; 8]) {
    // SAFETY: both are as long as they should be.
    unsafe { sys::kiln_set_trace(trace_id.as_ptr(), span_id.as_ptr()) }
}

/// The calling thread works for no trace any more.
pub fn clear_trace() {
    // SAFETY: NULL means none.
    unsafe { sys::kiln_set_trace(std::ptr::null(), std::ptr::null()) }
}

thread_local! {
    /// Keeps the set alive that the thread has, where no guard and no future does: what add_tag and
    /// remove_tag made, and what was put back behind a guard, in which they may have been called.
    static TAGS: RefCell<Labels> = const { RefCell::new(Labels::empty()) };
}

fn keep(labels: Labels) {
    // A thread that is ending has no use for it any more.
    let _ = TAGS.try_with(|tags| drop(tags.replace(labels)));
}

fn set_tags(labels: Labels) {
    // SAFETY: the set is held by TAGS until the next one takes its place.
    unsafe { sys::kiln_labels_enter(labels.0) };
    keep(labels);
}

/// Adds a label to the calling thread until [`remove_tag`] takes it away.
pub fn add_tag(key: impl AsRef<str>, value: impl AsRef<str>) {
    set_tags(Labels::current().with(key.as_ref(), value.as_ref()));
}

/// Takes a label away from the calling thread.
pub fn remove_tag(key: impl AsRef<str>) {
    set_tags(Labels::current().without(key.as_ref()));
}

/// Two functions, to set a tag of the calling thread and to remove it: what pyroscope-rs's agent
/// has under this name. They cost a lookup, not a flush.
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

/// Labels and trace ids that belong to a task. Swapped with the thread's around each poll.
#[derive(Debug)]
struct Carried(sys::Context);

// SAFETY: numbers and bytes; the set is counted by the profiler.
unsafe impl Send for Carried {}

impl Carried {
    fn with(labels: Labels) -> Carried {
        let mut context = Carried::thread();
        context.labels = labels.0;
        std::mem::forget(labels); // its reference is now ours
        Carried(context)
    }

    fn thread() -> sys::Context {
        let mut context = sys::Context::default();
        // SAFETY: it is written whole.
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
    held: Labels, // those of had
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut now = sys::Context::default();
        // SAFETY: the set is held, here and then by TAGS.
        unsafe { sys::kiln_context_enter(&self.had, &mut now) };
        if now.labels != self.carried.0.labels {
            // Changed in here by add_tag: the task keeps it.
            std::mem::forget(Labels::held(now.labels));
            drop(Labels(self.carried.0.labels));
        }
        self.carried.0 = now;
        if self.held.0 != 0 {
            keep(std::mem::take(&mut self.held));
        }
    }
}

/// A future that has its own labels, on whichever thread it is polled.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Labeled<F> {
    carried: Carried,
    future: F,
}

impl<F> Labeled<F> {
    /// Entered once before the first poll, for what makes the future.
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
        // SAFETY: future is pinned with self and never moved; carried is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        let _entered = this.carried.enter();
        future.poll(context)
    }
}

/// Gives a future labels that go with it wherever it is polled: tokio moves tasks between its
/// workers and interleaves them, and a thread's labels alone would be everybody's.
///
/// ```
/// use kiln::LabelFuture;
/// # async fn find_car() {}
/// let task = find_car().with_labels(kiln::labels!("vehicle" = "car"));
/// ```
pub trait LabelFuture: Future + Sized {
    /// With these labels, in place of those of the thread.
    fn with_labels(self, labels: Labels) -> Labeled<Self> {
        Labeled { carried: Carried::with(labels), future: self }
    }

    /// With the labels that the calling thread, or task, has now and one more.
    fn with_label(self, key: &str, value: &str) -> Labeled<Self> {
        self.with_labels(Labels::current().with(key, value))
    }

    /// With the labels that the calling thread, or task, has now: for what is spawned.
    fn in_current_labels(self) -> Labeled<Self> {
        self.with_labels(Labels::current())
    }
}

impl<F: Future> LabelFuture for F {}
