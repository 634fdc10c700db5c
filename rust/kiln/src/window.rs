//! Windows over the always-on collector.
use std::ffi::CString;
use std::sync::Mutex;

use crate::error::{c_string, check};
use crate::{sys, Result};

/// Sampling options. `Config::default()` takes a hundred samples per CPU-second.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Config {
    frequency: u32,
    depth: u32,
    memory: usize,
    symbol_memory: usize,
    threads: Option<String>,
    perf_events: bool,
}

impl Config {
    /// Samples per CPU-second, 1 to 10000.
    pub fn frequency(mut self, hz: u32) -> Self {
        self.frequency = hz;
        self
    }

    /// Maximum frames per stack, up to 1024; default 128.
    pub fn depth(mut self, frames: u32) -> Self {
        self.depth = frames;
        self
    }

    /// Limit for samples in bytes; default 32 MiB.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// Limit for symbolization in bytes; default 64 MiB.
    pub fn symbol_memory(mut self, bytes: usize) -> Self {
        self.symbol_memory = bytes;
        self
    }

    /// Names of the threads whose samples are kept: comma-separated shell patterns; a leading `!`
    /// excludes.
    pub fn threads(mut self, patterns: impl Into<String>) -> Self {
        self.threads = Some(patterns.into());
        self
    }

    /// Uses perf events instead of timers: as many samples as the frequency says, even above the
    /// kernel's `CONFIG_HZ` (where a timer's sample stands for several periods), at several times
    /// the cost per sample. Starting fails where `perf_event_open` is not permitted.
    pub fn perf_events(mut self, wanted: bool) -> Self {
        self.perf_events = wanted;
        self
    }

    fn start(&self) -> Result<()> {
        let threads = self.threads.as_deref().map(c_string);
        let options = sys::Options {
            size: std::mem::size_of::<sys::Options>(),
            frequency: self.frequency,
            depth: self.depth,
            memory: self.memory,
            symbol_memory: self.symbol_memory,
            threads: threads.as_ref().map_or(std::ptr::null(), |text| text.as_ptr()),
            clock: if self.perf_events { sys::CLOCK_PERF } else { 0 },
        };
        // SAFETY: options and what it points to live until the call returns.
        check(|e| unsafe { sys::kiln_start(&options, e) }).map(drop)
    }
}

/// What keeps the collector running.
struct Users {
    guards: usize,
    for_good: bool,
    by_guards: bool,
}

static USERS: Mutex<Users> = Mutex::new(Users { guards: 0, for_good: false, by_guards: false });

fn users() -> std::sync::MutexGuard<'static, Users> {
    USERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Starts sampling CPU time until [`stop`] is called. Fails if sampling is running already, unless
/// only guards and windows keep it running.
pub fn start_with(config: &Config) -> Result<()> {
    let mut users = users();
    if users.by_guards && is_running() && !users.for_good {
        users.for_good = true;
        return Ok(());
    }
    config.start()?;
    users.for_good = true;
    Ok(())
}

/// Starts sampling CPU time, a hundred times per CPU-second, until [`stop`] is called.
pub fn start() -> Result<()> {
    start_with(&Config::default())
}

/// Stops sampling. Open windows can still be written.
pub fn stop() {
    let mut users = users();
    users.for_good = false;
    users.by_guards = false;
    // SAFETY: may be called at any time.
    unsafe { sys::kiln_stop() }
}

/// Returns whether CPU time is being sampled.
pub fn is_running() -> bool {
    statistics().frequency != 0
}

/// A user of the collector, which runs while there is one.
#[derive(Debug)]
pub(crate) struct User(());

impl User {
    pub(crate) fn new(config: &Config) -> Result<User> {
        let mut users = users();
        if !is_running() {
            config.start()?;
            users.by_guards = true;
        }
        users.guards += 1;
        Ok(User(()))
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let mut users = users();
        users.guards -= 1;
        if users.guards == 0 && users.by_guards && !users.for_good {
            users.by_guards = false;
            // SAFETY: may be called at any time.
            unsafe { sys::kiln_stop() }
        }
    }
}

/// The format of a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Gzipped pprof.
    #[default]
    Pprof,
    /// Uncompressed pprof.
    PprofPlain,
    /// One line per stack, root first.
    Folded,
    /// A flame graph.
    Svg,
    /// A flame graph as one self-contained page.
    Html,
    /// Everything, as JSON.
    Json,
}

/// How to write a profile: a [`Format`] and its options.
#[derive(Clone, Debug, Default)]
pub struct Output {
    format: Format,
    flags: u32,
    width: u32,
    title: Option<CString>,
}

impl From<Format> for Output {
    fn from(format: Format) -> Self {
        Output { format, ..Output::default() }
    }
}

impl Output {
    /// Does not symbolize; readers do, by mappings and build ids.
    pub fn addresses(mut self) -> Self {
        self.flags |= sys::ADDRESSES;
        self
    }

    /// Omits labels.
    pub fn without_labels(mut self) -> Self {
        self.flags |= sys::NO_LABELS;
        self
    }

    /// Width of an SVG in pixels.
    pub fn width(mut self, pixels: u32) -> Self {
        self.width = pixels;
        self
    }

    /// Title of a flame graph.
    pub fn title(mut self, title: &str) -> Self {
        self.title = Some(c_string(title));
        self
    }

    pub(crate) fn stay(mut self) -> Self {
        self.flags |= sys::STAY;
        self
    }

    fn raw(&self) -> sys::Output {
        sys::Output {
            size: std::mem::size_of::<sys::Output>(),
            format: self.format as u32,
            flags: self.flags,
            width: self.width,
            title: self.title.as_ref().map_or(std::ptr::null(), |text| text.as_ptr()),
        }
    }
}

/// Lets C write to a file in memory and returns its contents.
#[cfg(kiln_core)]
pub(crate) fn collect(
    output: &Output,
    write: impl FnOnce(i32, &sys::Output, *mut sys::Error) -> i32,
) -> Result<Vec<u8>> {
    use std::fs::File;
    use std::io::{Read, Seek, SeekFrom};
    use std::os::fd::{AsRawFd, FromRawFd};
    // SAFETY: the name is a C string, and nothing else uses the new descriptor.
    let fd = unsafe { libc::memfd_create(c"kiln".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(crate::Error::IoError(std::io::Error::last_os_error()));
    }
    let mut file = unsafe { File::from_raw_fd(fd) };
    let raw = output.raw();
    check(|e| write(file.as_raw_fd(), &raw, e))?;
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// There is nothing to write.
#[cfg(not(kiln_core))]
pub(crate) fn collect(
    output: &Output,
    _write: impl FnOnce(i32, &sys::Output, *mut sys::Error) -> i32,
) -> Result<Vec<u8>> {
    let _ = output.raw();
    Err(crate::Error::Unsupported)
}

/// A period of time to profile. Up to 64 windows can be open at once.
///
/// The collector is started if it is not running, and then runs while there is a window.
#[derive(Debug)]
pub struct Window {
    number: i32,
    _user: User,
}

impl Window {
    /// Opens a window at the current frequency.
    pub fn begin() -> Result<Window> {
        Window::begin_with(&Config::default(), false)
    }

    /// Opens a window. A frequency in `config` applies to all samples while the window is open.
    /// Fails with [`Error::Running`](crate::Error::Running) if another window asked for a different
    /// one, unless `force` is set.
    pub fn begin_with(config: &Config, force: bool) -> Result<Window> {
        let user = User::new(config)?;
        let options = sys::WindowOptions {
            size: std::mem::size_of::<sys::WindowOptions>(),
            frequency: config.frequency,
            flags: if force { sys::FORCE } else { 0 },
        };
        // SAFETY: options lives until the call returns.
        let number = check(|e| unsafe { sys::kiln_window_begin_with(&options, e) })?;
        Ok(Window { number, _user: user })
    }

    /// Closes the window and returns its profile.
    pub fn write(mut self, output: impl Into<Output>) -> Result<Vec<u8>> {
        collect(&output.into(), |fd, output, e| {
            // The call closes the window, so drop must not.
            let number = std::mem::replace(&mut self.number, -1);
            // SAFETY: this is our window; the descriptor is open during the call.
            unsafe { sys::kiln_window_write_as(number, fd, output, e) }
        })
    }

    /// Returns the samples so far; the window stays open.
    pub fn peek(&self, output: impl Into<Output>) -> Result<Vec<u8>> {
        // SAFETY: as above.
        collect(&output.into().stay(), |fd, output, e| unsafe {
            sys::kiln_window_write_as(self.number, fd, output, e)
        })
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: numbers of closed windows are ignored.
        unsafe { sys::kiln_window_cancel(self.number) }
    }
}

/// Returns the samples of the last 1 to 120 seconds, without a window.
pub fn last(seconds: u32, output: impl Into<Output>) -> Result<Vec<u8>> {
    // SAFETY: the descriptor is open during the call.
    collect(&output.into(), |fd, output, e| unsafe {
        sys::kiln_last_write(seconds, fd, output, e)
    })
}

/// Converts a pprof profile, gzipped or not, to another format.
pub fn convert(profile: &[u8], output: impl Into<Output>) -> Result<Vec<u8>> {
    // SAFETY: C only reads profile, during the call.
    collect(&output.into(), |fd, output, e| unsafe {
        sys::kiln_convert(profile.as_ptr().cast(), profile.len(), fd, output, e)
    })
}

/// Statistics since the process began; values marked "now" are current. Ticks are periods of CPU
/// time.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Ticks seen.
    pub ticks: u64,
    /// Stacks recorded.
    pub samples: u64,
    /// Ticks without a stack, except those of threads that ended before their tick.
    pub dropped: u64,
    /// Stacks that do not reach their thread's root.
    pub truncated: u64,
    /// Threads sampled now.
    pub threads: u64,
    /// Bytes used now for stacks and counts.
    pub memory: u64,
    /// Label sets held now.
    pub label_sets: u64,
    /// Labels not added: too many sets, or a set with 64 labels.
    pub labels_dropped: u64,
    /// Samples per CPU-second now; 0: not running.
    pub frequency: u64,
    /// Windows open now.
    pub windows: u64,
}

/// Returns what was sampled and what was not.
pub fn statistics() -> Statistics {
    let mut s = sys::Statistics {
        size: std::mem::size_of::<sys::Statistics>(),
        ..Default::default()
    };
    // SAFETY: C writes at most `size` bytes.
    unsafe { sys::kiln_get_statistics(&mut s) };
    Statistics {
        ticks: s.ticks,
        samples: s.samples,
        dropped: s.ring_full + s.not_ready + s.blocked + s.unsampled + s.out_of_memory,
        truncated: s.truncated,
        threads: s.threads,
        memory: s.memory,
        label_sets: s.label_sets,
        labels_dropped: s.labels_dropped,
        frequency: s.frequency,
        windows: s.windows,
    }
}
