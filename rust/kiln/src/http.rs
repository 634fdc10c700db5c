//! The endpoints for programs with their own HTTP server.
//!
//! With axum, [`kiln::axum::router`](crate::axum::router) is enough. For hyper, warp and other
//! servers that use the types of the `http` crate, [`respond`] (feature `http`) turns a request
//! into a response. Both are built on [`Exchange`], which needs neither.
use std::ffi::{c_char, CStr, CString};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::time::Duration;

use crate::error::c_string;
use crate::sys;

/// A request and its response.
///
/// A CPU profile takes as long as requested but does not block: the exchange says how long to wait,
/// and [`Exchange::finish`] then does the work that takes CPU time. Dropping an exchange cancels
/// it.
///
/// ```
/// use kiln::http::Exchange;
///
/// let mut exchange = Exchange::begin("GET", "/debug/pprof/cmdline", &[], &[]);
/// while let Some(delay) = exchange.delay() {
///     std::thread::sleep(delay);
///     exchange.finish();
/// }
/// let answer = exchange.answer();
/// assert_eq!(answer.status, if kiln::is_supported() { 200 } else { 501 });
/// ```
#[derive(Debug)]
pub struct Exchange {
    raw: Option<NonNull<sys::Exchange>>,
    delay: u64,
}

// SAFETY: any thread may use it, one at a time.
unsafe impl Send for Exchange {}

/// A response, to be sent unchanged.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// All headers except `Content-Length`.
    pub headers: Vec<(String, String)>,
    /// The body; empty for HEAD.
    pub body: Vec<u8>,
}

impl Exchange {
    /// Begins to handle a request: `target` is its path and query, headers are names and values.
    pub fn begin(
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Exchange {
        Exchange::begin_below("", method, target, headers, body)
    }

    /// The same for a router that removed `prefix` from the path.
    pub fn begin_below(
        prefix: &str,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Exchange {
        let (method, target, prefix) = (c_string(method), c_string(target), c_string(prefix));
        let texts: Vec<CString> =
            headers.iter().flat_map(|(name, value)| [c_string(name), c_string(value)]).collect();
        let mut pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        pointers.push(std::ptr::null());
        let request = sys::Request {
            size: std::mem::size_of::<sys::Request>(),
            method: method.as_ptr(),
            target: target.as_ptr(),
            headers: pointers.as_ptr(),
            body: body.as_ptr().cast(),
            body_size: body.len(),
            prefix: prefix.as_ptr(),
        };
        let mut delay = 0;
        // SAFETY: the request and what it points to live until the call returns; C copies them.
        let raw = NonNull::new(unsafe { sys::kiln_exchange_begin(&request, &mut delay) });
        Exchange { raw, delay }
    }

    /// How long to wait before [`Exchange::finish`]; `None`: the response is ready.
    pub fn delay(&self) -> Option<Duration> {
        (self.delay != 0).then(|| Duration::from_nanos(self.delay))
    }

    /// Call it when the delay is over: ends the measurement, even if no thread can finish the
    /// exchange yet.
    pub fn due(&mut self) {
        if let Some(raw) = self.raw {
            // SAFETY: we own the exchange.
            unsafe { sys::kiln_exchange_due(raw.as_ptr()) }
        }
    }

    /// Continues after the delay. This may use CPU time for symbolization and rendering, so only
    /// one exchange at a time does it.
    pub fn finish(&mut self) {
        static ONE: Mutex<()> = Mutex::new(());
        self.due();
        let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SAFETY: we own the exchange.
        self.delay = self.raw.map_or(0, |raw| unsafe { sys::kiln_exchange_finish(raw.as_ptr()) });
    }

    /// Returns the response; 503 while there is a delay.
    pub fn answer(&self) -> Answer {
        if !crate::is_supported() {
            return Answer {
                status: 501,
                headers: vec![("Content-Type".into(), "text/plain; charset=utf-8".into())],
                body: format!("{}\n", crate::error::UNSUPPORTED).into_bytes(),
            };
        }
        let (Some(exchange), 0) = (self.raw, self.delay) else {
            return Answer { status: 503, ..Answer::default() };
        };
        let mut raw = sys::Answer {
            size: std::mem::size_of::<sys::Answer>(),
            status: 0,
            headers: std::ptr::null(),
            body: std::ptr::null(),
            body_size: 0,
        };
        // SAFETY: the answer's pointers live as long as the exchange; they are copied here.
        let (headers, body) = unsafe {
            sys::kiln_exchange_answer(exchange.as_ptr(), &mut raw);
            let body = match raw.body_size {
                0 => Vec::new(),
                n => std::slice::from_raw_parts(raw.body.cast::<u8>(), n).to_vec(),
            };
            (CStr::from_ptr(raw.headers).to_string_lossy().into_owned(), body)
        };
        let pair = |line: &str| {
            line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        Answer {
            status: raw.status as u16,
            headers: headers.lines().filter_map(pair).collect(),
            body,
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(raw) = self.raw {
            // SAFETY: we own the exchange and do not use it any more.
            unsafe { sys::kiln_exchange_free(raw.as_ptr()) }
        }
    }
}

/// Handles a request in the calling thread, however long that takes.
pub fn respond_blocking(
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut exchange = Exchange::begin(method, target, headers, body);
    while let Some(delay) = exchange.delay() {
        std::thread::sleep(delay);
        exchange.finish();
    }
    exchange.answer()
}

/// Handles a request with the types of the `http` crate (hyper, warp, ...) on tokio. Only `POST
/// /debug/pprof/symbol` reads the body. If the future is dropped, as servers do when the client
/// disconnects, the profile ends.
#[cfg(feature = "http")]
pub async fn respond<B: AsRef<[u8]>>(request: ::http::Request<B>) -> ::http::Response<Vec<u8>> {
    respond_below("", request).await
}

/// The same for a router that removed `prefix` from the path.
#[cfg(feature = "http")]
pub async fn respond_below<B: AsRef<[u8]>>(
    prefix: &str,
    request: ::http::Request<B>,
) -> ::http::Response<Vec<u8>> {
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str()).to_owned();
    let headers: Vec<(&str, &str)> = request
        .headers()
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
        .collect();
    let method = request.method().as_str();
    let body = request.body().as_ref();
    let mut exchange = Exchange::begin_below(prefix, method, &target, &headers, body);
    drop(headers);
    drop(request);
    while let Some(delay) = exchange.delay() {
        tokio::time::sleep(delay).await;
        exchange.due();
        let finish = move || {
            exchange.finish();
            exchange
        };
        exchange = match tokio::task::spawn_blocking(finish).await {
            Ok(exchange) => exchange,
            Err(_) => Exchange { raw: None, delay: 0 },
        };
    }
    let answer = exchange.answer();
    let mut response = ::http::Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    response.body(answer.body).unwrap_or_default()
}
