//! Serves the endpoints on their own port, without a web framework.
use std::ffi::CStr;

use crate::error::{c_string, check};
use crate::{sys, Result};

/// Serves the endpoints at `HOST:PORT`, `:PORT` (this machine only) or `unix:/PATH` with two
/// threads. Starts the profiler if it is not running. With port 0 the kernel chooses the port;
/// [`served_at`] returns it.
///
/// ```
/// kiln::serve("127.0.0.1:0")?;
/// if let Some(address) = kiln::served_at() {
///     println!("{address}/debug/pprof/");
/// }
/// # kiln::stop_serving();
/// # kiln::Result::Ok(())
/// ```
pub fn serve(address: &str) -> Result<()> {
    serve_to(address, None)
}

/// The same with authentication: requests must send `Authorization: Bearer TOKEN`.
pub fn serve_with_token(address: &str, token: &str) -> Result<()> {
    serve_to(address, Some(token))
}

fn serve_to(address: &str, token: Option<&str>) -> Result<()> {
    let (address, token) = (c_string(address), token.map(c_string));
    let options = sys::ServeOptions {
        size: std::mem::size_of::<sys::ServeOptions>(),
        address: address.as_ptr(),
        token: token.as_ref().map_or(std::ptr::null(), |token| token.as_ptr()),
    };
    if crate::is_supported() && !crate::is_running() {
        crate::start()?;
    }
    // SAFETY: options and what it points to live until the call returns.
    check(|e| unsafe { sys::kiln_serve(&options, e) }).map(drop)
}

/// Aborts open requests and ends the threads.
pub fn stop_serving() {
    // SAFETY: may be called at any time.
    unsafe { sys::kiln_serve_stop() }
}

/// Returns the address being served: `http://HOST:PORT` or `unix:/PATH`.
pub fn served_at() -> Option<String> {
    let mut text = [0; 512];
    // SAFETY: C writes at most that many bytes, including a NUL at the end.
    let served = unsafe { sys::kiln_serve_address(text.as_mut_ptr(), text.len()) } == 0;
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    served.then(|| text.to_string_lossy().into_owned())
}
