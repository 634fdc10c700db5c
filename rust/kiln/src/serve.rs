//! The endpoints on a port of their own, without a web framework.
use std::ffi::CStr;

use crate::error::{c_string, check};
use crate::{sys, Result};

/// Serves the endpoints at `HOST:PORT`, `:PORT` (this machine only) or `unix:/PATH` by two threads of
/// its own, and starts the profiler if it is not running. Port 0 lets the kernel choose;
/// [`served_at`] tells.
///
/// ```
/// kiln::serve("127.0.0.1:0")?;
/// println!("{}/debug/pprof/", kiln::served_at().unwrap());
/// # kiln::stop_serving();
/// # kiln::Result::Ok(())
/// ```
pub fn serve(address: &str) -> Result<()> {
    serve_to(address, None)
}

/// The same, to those who know the token: `Authorization: Bearer TOKEN`.
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
    if !crate::is_running() {
        crate::start()?;
    }
    // SAFETY: what options points to lives until the call returns.
    check(|e| unsafe { sys::kiln_serve(&options, e) }).map(drop)
}

/// Ends open requests and the threads.
pub fn stop_serving() {
    // SAFETY: may be called at any time.
    unsafe { sys::kiln_serve_stop() }
}

/// Where it is served: `http://HOST:PORT` or `unix:/PATH`.
pub fn served_at() -> Option<String> {
    let mut text = [0; 512];
    // SAFETY: no more than that is written, with a NUL at its end.
    let served = unsafe { sys::kiln_serve_address(text.as_mut_ptr(), text.len()) } == 0;
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    served.then(|| text.to_string_lossy().into_owned())
}
