//! Continuous push to a server.
use std::ffi::{c_char, CStr, CString};

use crate::error::{c_string, check};
use crate::{sys, Result};

/// Pushes CPU and heap profiles to kiln server or Pyroscope under the name `application`.
///
/// ```no_run
/// let agent = kiln::agent("http://localhost:4040", "rideshare")
///     .tags([("region", "eu")])
///     .start()?;
/// // ...
/// agent.stop(); // sends what is queued; dropping it does the same
/// # kiln::Result::Ok(())
/// ```
///
/// Each profile covers ten seconds, aligned to multiples of that. Heap profiles are included while
/// allocations are sampled ([`kiln::heap`](crate::heap)). Labels of threads and tasks
/// ([`label!`](crate::label!)) become series labels. While the server is unreachable, profiles wait
/// in a bounded queue.
pub fn agent(url: impl Into<String>, application: impl Into<String>) -> AgentBuilder {
    AgentBuilder {
        url: url.into(),
        application: application.into(),
        tags: Vec::new(),
        headers: Vec::new(),
        basic: None,
        token: None,
        tenant: None,
        interval: 0,
        flags: 0,
        queue: 0,
    }
}

/// Push options, made by [`agent`].
#[derive(Clone, Debug)]
pub struct AgentBuilder {
    url: String,
    application: String,
    tags: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    basic: Option<(String, String)>,
    token: Option<String>,
    tenant: Option<String>,
    interval: u32,
    flags: u32,
    queue: usize,
}

fn owned<K: Into<String>, V: Into<String>>((key, value): (K, V)) -> (String, String) {
    (key.into(), value.into())
}

impl AgentBuilder {
    /// Adds labels to all profiles.
    pub fn tags<K: Into<String>, V: Into<String>>(
        mut self,
        tags: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.tags.extend(tags.into_iter().map(owned));
        self
    }

    /// Sets user and password.
    pub fn basic_auth(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.basic = Some((user.into(), password.into()));
        self
    }

    /// Sets a token, sent as `Authorization: Bearer`.
    pub fn bearer_auth(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sets the tenant, sent as `X-Scope-OrgID`.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Adds headers to each request.
    pub fn headers<K: Into<String>, V: Into<String>>(
        mut self,
        headers: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.headers.extend(headers.into_iter().map(owned));
        self
    }

    /// Sets the seconds per profile, 1 to 3600; default 10.
    pub fn interval(mut self, seconds: u32) -> Self {
        self.interval = seconds;
        self
    }

    /// Disables CPU profiles.
    pub fn without_cpu(mut self) -> Self {
        self.flags |= 1;
        self
    }

    /// Disables heap profiles.
    pub fn without_heap(mut self) -> Self {
        self.flags |= 2;
        self
    }

    /// Distinguishes threads by labels `thread` and `thread_id`.
    pub fn threads(mut self) -> Self {
        self.flags |= 4;
        self
    }

    /// Sets the maximum bytes queued while the server is unreachable; default 8 MiB.
    pub fn queue(mut self, bytes: usize) -> Self {
        self.queue = bytes;
        self
    }

    /// Starts pushing. Also starts the profiler if it is not running. A process can have one agent.
    pub fn start(self) -> Result<Agent> {
        let (url, application) = (c_string(&self.url), c_string(&self.application));
        let (tags, headers) = (Pairs::of(&self.tags), Pairs::of(&self.headers));
        let optional = |text: Option<&String>| text.map(|text| c_string(text));
        let user = optional(self.basic.as_ref().map(|(user, _)| user));
        let password = optional(self.basic.as_ref().map(|(_, password)| password));
        let (token, tenant) = (optional(self.token.as_ref()), optional(self.tenant.as_ref()));
        let pointer = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |t| t.as_ptr());
        let options = sys::PushOptions {
            size: std::mem::size_of::<sys::PushOptions>(),
            url: url.as_ptr(),
            application: application.as_ptr(),
            tags: tags.pointers.as_ptr(),
            headers: headers.pointers.as_ptr(),
            user: pointer(&user),
            password: pointer(&password),
            token: pointer(&token),
            tenant: pointer(&tenant),
            interval: self.interval,
            flags: self.flags,
            queue: self.queue,
        };
        // SAFETY: options and what it points to live until the call returns; C copies them.
        check(|e| unsafe { sys::kiln_push_start(&options, e) })?;
        Ok(Agent(()))
    }
}

/// Names and values as a NULL-terminated C array.
struct Pairs {
    _texts: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl Pairs {
    fn of(pairs: &[(String, String)]) -> Pairs {
        let texts: Vec<CString> =
            pairs.iter().flat_map(|(name, value)| [c_string(name), c_string(value)]).collect();
        let mut pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        pointers.push(std::ptr::null());
        Pairs { _texts: texts, pointers }
    }
}

/// Pushes profiles until it is dropped.
#[derive(Debug)]
#[must_use = "profiles are pushed until it is dropped"]
pub struct Agent(());

impl Agent {
    /// Ends the current profile and sends what is queued, for at most five seconds.
    pub fn stop(self) {}

    /// Pushes until the process ends.
    pub fn forget(self) {
        std::mem::forget(self);
    }

    /// Returns functions that set and remove a tag of the calling thread: see
    /// [`tag_wrapper`](crate::tag_wrapper).
    #[allow(clippy::type_complexity)]
    pub fn tag_wrapper(
        &self,
    ) -> (
        impl Fn(String, String) -> Result<()> + Send + Sync + Clone,
        impl Fn(String, String) -> Result<()> + Send + Sync + Clone,
    ) {
        crate::tag_wrapper()
    }

    /// Returns what was sent and what was not.
    pub fn statistics(&self) -> AgentStatistics {
        let mut s = sys::PushStatistics::new();
        // SAFETY: C writes at most `size` bytes.
        unsafe { sys::kiln_push_get_statistics(&mut s) };
        // SAFETY: C terminates its messages with a NUL.
        let error = unsafe { CStr::from_ptr(s.error.as_ptr()) };
        let error = error.to_string_lossy().into_owned();
        AgentStatistics {
            windows: s.windows,
            sent: s.sent,
            failed: s.failed,
            dropped: s.dropped,
            queued: s.queued,
            sent_bytes: s.sent_bytes,
            last_error: (!error.is_empty()).then_some(error),
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // SAFETY: may be called at any time.
        unsafe { sys::kiln_push_stop() }
    }
}

/// Statistics of an [`Agent`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AgentStatistics {
    /// Windows that became profiles.
    pub windows: u64,
    /// Requests that the server accepted.
    pub sent: u64,
    /// Failed attempts.
    pub failed: u64,
    /// Requests dropped: rejected, or the queue was full.
    pub dropped: u64,
    /// Requests in the queue.
    pub queued: u64,
    /// Bytes that the server accepted.
    pub sent_bytes: u64,
    /// The error of the last failed attempt.
    pub last_error: Option<String>,
}
