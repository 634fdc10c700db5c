//! Declarations of `include/kiln/kiln.h`; without the C core, functions that do nothing.
#![cfg_attr(not(kiln_core), allow(dead_code))]
use std::ffi::{c_char, c_int, c_void};

#[repr(C)]
pub struct Error {
    pub message: [c_char; 512],
}

#[repr(C)]
pub struct Options {
    pub size: usize,
    pub frequency: u32,
    pub depth: u32,
    pub memory: usize,
    pub symbol_memory: usize,
    pub threads: *const c_char,
    pub clock: u32,
}

pub const CLOCK_PERF: u32 = 1;

pub const CONFLICT: c_int = -2;
pub const FORCE: u32 = 1;

#[repr(C)]
pub struct WindowOptions {
    pub size: usize,
    pub frequency: u32,
    pub flags: u32,
}

pub const ADDRESSES: u32 = 1;
pub const NO_LABELS: u32 = 2;
pub const STAY: u32 = 4;

#[repr(C)]
pub struct Output {
    pub size: usize,
    pub format: u32,
    pub flags: u32,
    pub width: u32,
    pub title: *const c_char,
}

#[repr(C)]
pub struct HeapOptions {
    pub size: usize,
    pub interval: u64,
    pub depth: u32,
    pub memory: usize,
    pub seed: u64,
}

#[repr(C)]
#[derive(Default)]
pub struct HeapObject {
    opaque: [u64; 3],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    pub labels: u32,
    pub has_trace: u32,
    pub trace_id: [u8; 16],
    pub span_id: [u8; 8],
}

#[repr(C)]
#[derive(Default)]
pub struct Statistics {
    pub size: usize,
    pub ticks: u64,
    pub samples: u64,
    pub ring_full: u64,
    pub not_ready: u64,
    pub blocked: u64,
    pub unticked: u64,
    pub unsampled: u64,
    pub truncated: u64,
    pub out_of_memory: u64,
    pub threads: u64,
    pub stacks: u64,
    pub memory: u64,
    pub filtered: u64,
    pub label_sets: u64,
    pub label_memory: u64,
    pub labels_dropped: u64,
    pub frequency: u64,
    pub windows: u64,
    pub name_memory: u64,
}

#[repr(C)]
pub struct ServeOptions {
    pub size: usize,
    pub address: *const c_char,
    pub token: *const c_char,
}

#[repr(C)]
pub struct Request {
    pub size: usize,
    pub method: *const c_char,
    pub target: *const c_char,
    pub headers: *const *const c_char,
    pub body: *const c_void,
    pub body_size: usize,
    pub prefix: *const c_char,
}

#[repr(C)]
pub struct Answer {
    pub size: usize,
    pub status: c_int,
    pub headers: *const c_char,
    pub body: *const c_void,
    pub body_size: usize,
}

#[repr(C)]
pub struct PushOptions {
    pub size: usize,
    pub url: *const c_char,
    pub application: *const c_char,
    pub tags: *const *const c_char,
    pub headers: *const *const c_char,
    pub user: *const c_char,
    pub password: *const c_char,
    pub token: *const c_char,
    pub tenant: *const c_char,
    pub interval: u32,
    pub flags: u32,
    pub queue: usize,
}

#[repr(C)]
pub struct PushStatistics {
    pub size: usize,
    pub windows: u64,
    pub sent: u64,
    pub failed: u64,
    pub dropped: u64,
    pub queued: u64,
    pub queued_bytes: u64,
    pub sent_bytes: u64,
    pub error: [c_char; 256],
}

impl PushStatistics {
    pub fn new() -> PushStatistics {
        // SAFETY: zero is valid for all fields.
        let zero = unsafe { std::mem::zeroed() };
        PushStatistics { size: std::mem::size_of::<PushStatistics>(), ..zero }
    }
}

pub enum Exchange {}

#[cfg(kiln_core)]
extern "C" {
    pub fn kiln_start(options: *const Options, error: *mut Error) -> c_int;
    pub fn kiln_stop();
    pub fn kiln_window_begin_with(options: *const WindowOptions, error: *mut Error) -> c_int;
    pub fn kiln_window_write_as(
        window: c_int,
        fd: c_int,
        output: *const Output,
        error: *mut Error,
    ) -> c_int;
    pub fn kiln_window_cancel(window: c_int);
    pub fn kiln_last_write(
        seconds: u32,
        fd: c_int,
        output: *const Output,
        error: *mut Error,
    ) -> c_int;
    pub fn kiln_convert(
        profile: *const c_void,
        n: usize,
        fd: c_int,
        output: *const Output,
        error: *mut Error,
    ) -> c_int;

    pub fn kiln_heap_start(options: *const HeapOptions, error: *mut Error) -> c_int;
    pub fn kiln_heap_activate(error: *mut Error) -> c_int;
    pub fn kiln_heap_deactivate(error: *mut Error) -> c_int;
    pub fn kiln_heap_activated() -> c_int;
    pub fn kiln_heap_allocated(object: *mut c_void, size: usize);
    pub fn kiln_heap_freed(object: *mut c_void);
    pub fn kiln_heap_take(object: *mut c_void, known: *mut HeapObject) -> c_int;
    pub fn kiln_heap_put_back(object: *mut c_void, known: *const HeapObject);
    pub fn kiln_heap_write(fd: c_int, output: *const Output, error: *mut Error) -> c_int;
    pub fn kiln_heap_window_begin(error: *mut Error) -> c_int;
    pub fn kiln_heap_window_write(
        window: c_int,
        fd: c_int,
        output: *const Output,
        error: *mut Error,
    ) -> c_int;
    pub fn kiln_heap_window_cancel(window: c_int);

    pub fn kiln_labels_with(base: u32, key: *const c_char, value: *const c_char) -> u32;
    pub fn kiln_labels_without(base: u32, key: *const c_char) -> u32;
    pub fn kiln_labels_hold(set: u32);
    pub fn kiln_labels_release(set: u32);
    pub fn kiln_labels_enter(set: u32) -> u32;
    pub fn kiln_labels_current() -> u32;
    pub fn kiln_set_trace(trace_id: *const u8, span_id: *const u8);
    pub fn kiln_context_get(context: *mut Context);
    pub fn kiln_context_enter(context: *const Context, had: *mut Context);

    pub fn kiln_get_statistics(statistics: *mut Statistics);

    pub fn kiln_serve(options: *const ServeOptions, error: *mut Error) -> c_int;
    pub fn kiln_serve_stop();
    pub fn kiln_serve_address(text: *mut c_char, n: usize) -> c_int;

    pub fn kiln_exchange_begin(request: *const Request, delay_ns: *mut u64) -> *mut Exchange;
    pub fn kiln_exchange_due(exchange: *mut Exchange);
    pub fn kiln_exchange_finish(exchange: *mut Exchange) -> u64;
    pub fn kiln_exchange_answer(exchange: *const Exchange, answer: *mut Answer);
    pub fn kiln_exchange_free(exchange: *mut Exchange);

    pub fn kiln_push_start(options: *const PushOptions, error: *mut Error) -> c_int;
    pub fn kiln_push_stop();
    pub fn kiln_push_get_statistics(statistics: *mut PushStatistics);
}

#[cfg(not(kiln_core))]
pub use without_core::*;

/// The functions of the C core for targets on which it does not run. Functions that start something
/// succeed; those that would write a profile are not reached (see `window::collect`).
#[cfg(not(kiln_core))]
mod without_core {
    use super::*;

    /// Defines functions that do nothing and return a constant.
    macro_rules! nothing {
        ($($name:ident($($kind:ty),*) $(-> $result:ty = $value:expr)?;)*) => {
            $(pub unsafe fn $name($(_: $kind),*) $(-> $result)? { $($value)? })*
        };
    }

    nothing! {
        kiln_start(*const Options, *mut Error) -> c_int = 0;
        kiln_stop();
        kiln_window_begin_with(*const WindowOptions, *mut Error) -> c_int = 0;
        kiln_window_write_as(c_int, c_int, *const Output, *mut Error) -> c_int = -1;
        kiln_window_cancel(c_int);
        kiln_last_write(u32, c_int, *const Output, *mut Error) -> c_int = -1;
        kiln_convert(*const c_void, usize, c_int, *const Output, *mut Error) -> c_int = -1;
        kiln_heap_start(*const HeapOptions, *mut Error) -> c_int = 0;
        kiln_heap_activate(*mut Error) -> c_int = 0;
        kiln_heap_deactivate(*mut Error) -> c_int = 0;
        kiln_heap_activated() -> c_int = 0;
        kiln_heap_allocated(*mut c_void, usize);
        kiln_heap_freed(*mut c_void);
        kiln_heap_take(*mut c_void, *mut HeapObject) -> c_int = 0;
        kiln_heap_put_back(*mut c_void, *const HeapObject);
        kiln_heap_write(c_int, *const Output, *mut Error) -> c_int = -1;
        kiln_heap_window_begin(*mut Error) -> c_int = 0;
        kiln_heap_window_write(c_int, c_int, *const Output, *mut Error) -> c_int = -1;
        kiln_heap_window_cancel(c_int);
        kiln_labels_with(u32, *const c_char, *const c_char) -> u32 = 0;
        kiln_labels_without(u32, *const c_char) -> u32 = 0;
        kiln_labels_hold(u32);
        kiln_labels_release(u32);
        kiln_labels_enter(u32) -> u32 = 0;
        kiln_labels_current() -> u32 = 0;
        kiln_set_trace(*const u8, *const u8);
        kiln_context_get(*mut Context);
        kiln_context_enter(*const Context, *mut Context);
        kiln_get_statistics(*mut Statistics);
        kiln_serve(*const ServeOptions, *mut Error) -> c_int = 0;
        kiln_serve_stop();
        kiln_serve_address(*mut c_char, usize) -> c_int = -1;
        kiln_exchange_begin(*const Request, *mut u64) -> *mut Exchange = std::ptr::null_mut();
        kiln_exchange_due(*mut Exchange);
        kiln_exchange_finish(*mut Exchange) -> u64 = 0;
        kiln_exchange_answer(*const Exchange, *mut Answer);
        kiln_exchange_free(*mut Exchange);
        kiln_push_start(*const PushOptions, *mut Error) -> c_int = 0;
        kiln_push_stop();
        kiln_push_get_statistics(*mut PushStatistics);
    }
}
