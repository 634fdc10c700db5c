//! Continuous push to a server.
use std::ffi::{c_char, CStr, CString};

use crate::error::{c_string, check};
use crate::{sys, Result};

/// Sends CPU and heap profiles to a server, kiln's or Pyroscope's, under the name `application`.
///
/// ```no_run
/// let agent = kiln::agent("http://localhost:4040", "rideshare")
///     .tags([("region", "eu")])
///     .start()?;
/// // ...
/// agent.stop(); // sends what waits; dropping it does the same
/// # kiln::Result::Ok(())
/// ```
///
/// Profiles are of ten seconds each, from whole multiples of that; the heap is part of them when
/// allocations are sampled ([`kiln::heap`](crate::heap)). Labels of threads and tasks
/// ([`label!`](crate::label!)) become labels of series. While the server cannot be reached, profiles wait
/// in a queue that is bounded.
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

/// What [`agent`] gives: how to push.
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
    /// Labels of all profiles.
    pub fn tags<K: Into<String>, V: Into<String>>(
        mut self,
        tags: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.tags.extend(tags.into_iter().map(owned));
        self
    }

    /// User and password.
    pub fn basic_auth(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.basic = Some((user.into(), password.into()));
        self
    }

    /// A token, as `Authorization: Bearer`.
    pub fn bearer_auth(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// The tenant, as `X-Scope-OrgID`.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Further headers of each request.
    pub fn headers<K: Into<String>, V: Into<String>>(
        mut self,
        headers: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.headers.extend(headers.into_iter().map(owned));
        self
    }

    /// Seconds of a profile, 1 to 3600; 10 unless set.
    pub fn interval(mut self, seconds: u32) -> Self {
        self.interval = seconds;
        self
    }

    /// Does not push CPU profiles.
    pub fn without_cpu(mut self) -> Self {
        self.flags |= 1;
        self
    }

    /// Does not push heap profiles.
    pub fn without_heap(mut self) -> Self {
        self.flags |= 2;
        self
    }

    /// Tells threads apart, by labels `thread` and `thread_id`.
    pub fn threads(mut self) -> Self {
        self.flags |= 4;
        self
    }

    /// Bytes that may wait while the server cannot be reached; 8 MiB unless set.
    pub fn queue(mut self, bytes: usize) -> Self {
        self.queue = bytes;
        self
    }

    /// Begins. The profiler is started if it is not running. There is one agent in a process.
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
        // SAFETY: what options points to lives until the call returns; it is copied.
        check(|e| unsafe { sys::kiln_push_start(&options, e) })?;
        Ok(Agent(()))
    }
}

/// Names and values as C takes them.
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

/// Profiles are pushed while it lives.
#[derive(Debug)]
#[must_use = "profiles are pushed until it is dropped"]
pub struct Agent(());

impl Agent {
    /// Ends the profile at hand and sends what waits, for five seconds at the most.
    pub fn stop(self) {}

    /// Pushes until the process ends.
    pub fn forget(self) {
        std::mem::forget(self);
    }

    /// Functions that set and remove a tag of the calling thread: see [`tag_wrapper`](crate::tag_wrapper).
    #[allow(clippy::type_complexity)]
    pub fn tag_wrapper(
        &self,
    ) -> (
        impl Fn(String, String) -> Result<()> + Send + Sync + Clone,
        impl Fn(String, String) -> Result<()> + Send + Sync + Clone,
    ) {
        crate::tag_wrapper()
    }

    /// What was sent and what was not.
    pub fn statistics(&self) -> AgentStatistics {
        let mut s = sys::PushStatistics::new();
        // SAFETY: as many bytes as size says are written.
        unsafe { sys::kiln_push_get_statistics(&mut s) };
        // SAFETY: the library ends its sentences by a NUL.
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

/// Counts of an [`Agent`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AgentStatistics {
    /// Stretches of time that became profiles.
    pub windows: u64,
    /// Requests that the server took.
    pub sent: u64,
    /// Attempts that did not succeed.
    pub failed: u64,
    /// Requests that were given up: refused, or too many waited.
    pub dropped: u64,
    /// Requests that wait.
    pub queued: u64,
    /// Bytes that the server took.
    pub sent_bytes: u64,
    /// Of the last attempt that did not succeed.
    pub last_error: Option<String>,
}
