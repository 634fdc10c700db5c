//! Heap profiles: where memory is allocated, and how much of it is in use.
//!
//! There are two sources. Both give the same profiles, functions and endpoints:
//!
//! - any allocator, wrapped by [`Allocator`]:
//!   ```no_run
//!   #[global_allocator]
//!   static ALLOCATOR: kiln::heap::Allocator = kiln::heap::Allocator::system();
//!
//!   fn main() -> kiln::Result<()> {
//!       kiln::heap::activate()?;
//!       // ...
//!       std::fs::write("heap.pb.gz", kiln::heap::dump_pprof()?)?;
//!       Ok(())
//!   }
//!   ```
//! - jemalloc's own profiler, if it was built with it and started with `prof:true`:
//!   [`used_with_profiling!`](crate::used_with_profiling!) sets that up.
use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;

use crate::error::check;
use crate::window::collect;
use crate::{sys, Format, Output, Result};

/// Wraps any allocator and reports its allocations to kiln. This costs a few instructions per
/// object, and a stack per 512 KiB once [`activate`] was called.
#[derive(Debug, Default)]
pub struct Allocator<A = System>(A);

impl Allocator<System> {
    /// Wraps the system allocator.
    pub const fn system() -> Self {
        Allocator(System)
    }
}

impl<A> Allocator<A> {
    /// Wraps this allocator.
    pub const fn new(allocator: A) -> Self {
        Allocator(allocator)
    }
}

fn report_allocation(object: *mut u8, size: usize) -> *mut u8 {
    if !object.is_null() {
        // SAFETY: no other code knows the object yet.
        unsafe { sys::kiln_heap_allocated(object.cast(), size) }
    }
    object
}

// SAFETY: all calls go to the wrapped allocator.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Allocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        report_allocation(self.0.alloc(layout), layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        report_allocation(self.0.alloc_zeroed(layout), layout.size())
    }

    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        sys::kiln_heap_freed(object.cast());
        self.0.dealloc(object, layout)
    }

    unsafe fn realloc(&self, object: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let mut known = sys::HeapObject::default();
        let object: *mut c_void = object.cast();
        // Report the old object as freed before its address can be reused.
        let sampled = sys::kiln_heap_take(object, &mut known) != 0;
        let fresh = self.0.realloc(object.cast(), layout, size);
        if fresh.is_null() && sampled {
            sys::kiln_heap_put_back(object, &known);
        }
        report_allocation(fresh, size)
    }
}

/// Starts heap sampling: of [`Allocator`]'s objects, or by jemalloc's profiler if the process uses
/// a jemalloc that has one.
pub fn activate() -> Result<()> {
    // SAFETY: may be called at any time.
    check(|e| unsafe { sys::kiln_heap_activate(e) }).map(drop)
}

/// Stops taking samples. Existing samples are kept.
pub fn deactivate() -> Result<()> {
    // SAFETY: may be called at any time.
    check(|e| unsafe { sys::kiln_heap_deactivate(e) }).map(drop)
}

/// Returns whether allocations are being sampled.
pub fn activated() -> bool {
    // SAFETY: may be called at any time.
    unsafe { sys::kiln_heap_activated() != 0 }
}

/// Starts sampling [`Allocator`]'s objects with this mean number of bytes between samples.
pub fn activate_with_interval(bytes: u64) -> Result<()> {
    let options = sys::HeapOptions {
        size: std::mem::size_of::<sys::HeapOptions>(),
        interval: bytes,
        depth: 0,
        memory: 0,
        seed: 0,
    };
    // SAFETY: options lives until the call returns.
    check(|e| unsafe { sys::kiln_heap_start(&options, e) }).map(drop)
}

/// Returns a profile of what was allocated since sampling began and what is in use.
pub fn dump(output: impl Into<Output>) -> Result<Vec<u8>> {
    // SAFETY: the descriptor is open during the call.
    collect(&output.into(), |fd, output, e| unsafe { sys::kiln_heap_write(fd, output, e) })
}

/// The same as gzipped pprof.
pub fn dump_pprof() -> Result<Vec<u8>> {
    dump(Format::Pprof)
}

/// Returns memory in use as a flame graph (SVG).
pub fn dump_flamegraph() -> Result<Vec<u8>> {
    dump(Format::Svg)
}

/// Measures heap activity between two points in time. At most 16 can be open at once.
#[derive(Debug)]
pub struct HeapWindow(i32);

impl HeapWindow {
    /// Opens a window.
    pub fn begin() -> Result<HeapWindow> {
        // SAFETY: may be called at any time.
        check(|e| unsafe { sys::kiln_heap_window_begin(e) }).map(HeapWindow)
    }

    /// Closes the window: returns what was allocated meanwhile, and how memory in use changed.
    pub fn write(mut self, output: impl Into<Output>) -> Result<Vec<u8>> {
        collect(&output.into(), |fd, output, e| {
            // The call closes the window, so drop must not.
            let number = std::mem::replace(&mut self.0, -1);
            // SAFETY: this is our window; the descriptor is open during the call.
            unsafe { sys::kiln_heap_window_write(number, fd, output, e) }
        })
    }
}

impl Drop for HeapWindow {
    fn drop(&mut self) {
        // SAFETY: numbers of closed windows are ignored.
        unsafe { sys::kiln_heap_window_cancel(self.0) }
    }
}
