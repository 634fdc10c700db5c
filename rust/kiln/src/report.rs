//! CPU profiles with a guard and a report, as in pprof-rs.
use std::borrow::Cow;
use std::collections::hash_map::DefaultHasher;
use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt::{self, Debug, Display, Formatter};
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::protos::{self, Message, Profile};
use crate::{flamegraph, Config, Format, Output, Result, Window};

/// Builds a [`ProfilerGuard`].
#[derive(Clone, Debug)]
pub struct ProfilerGuardBuilder {
    frequency: i32,
    depth: u32,
}

impl Default for ProfilerGuardBuilder {
    fn default() -> Self {
        ProfilerGuardBuilder { frequency: 99, depth: 0 }
    }
}

impl ProfilerGuardBuilder {
    /// Samples per CPU-second, 1 to 10000; default 99.
    pub fn frequency(self, frequency: i32) -> Self {
        ProfilerGuardBuilder { frequency, ..self }
    }

    /// Accepted for compatibility with pprof-rs and ignored: kiln's unwinder calls nothing that
    /// could be interrupted, so no library needs to be excluded.
    pub fn blocklist<T: AsRef<str>>(self, _blocklist: &[T]) -> Self {
        self
    }

    /// Maximum frames per stack, up to 1024; default 128. Only used if sampling is not running yet.
    pub fn depth(self, depth: u32) -> Self {
        ProfilerGuardBuilder { depth, ..self }
    }

    /// Starts sampling. Does not affect other guards, windows and endpoints. Fails with
    /// [`crate::Error::Running`] if one of them asked for another frequency.
    pub fn build(self) -> Result<ProfilerGuard<'static>> {
        let hz = u32::try_from(self.frequency).ok().filter(|hz| (1..=10000).contains(hz));
        let Some(hz) = hz else {
            return Err(crate::Error::Failed(format!(
                "invalid frequency {} Hz; expected 1 to 10000",
                self.frequency
            )));
        };
        let config = Config::default().frequency(hz).depth(self.depth);
        let window = Window::begin_with(&config, false)?;
        Ok(ProfilerGuard { window, hz, life: PhantomData })
    }
}

/// Samples until it is dropped.
#[derive(Debug)]
pub struct ProfilerGuard<'a> {
    window: Window,
    hz: u32,
    life: PhantomData<&'a ()>,
}

impl ProfilerGuard<'_> {
    /// Starts sampling with this many samples per CPU-second.
    pub fn new(frequency: i32) -> Result<ProfilerGuard<'static>> {
        ProfilerGuardBuilder::default().frequency(frequency).build()
    }

    /// Reports the samples so far; may be called any number of times.
    pub fn report(&self) -> ReportBuilder<'_> {
        ReportBuilder { guard: self, post_processor: None }
    }
}

type PostProcessor = Box<dyn Fn(&mut Frames)>;

/// Builds a [`Report`].
pub struct ReportBuilder<'a> {
    guard: &'a ProfilerGuard<'a>,
    post_processor: Option<PostProcessor>,
}

impl ReportBuilder<'_> {
    /// Sets a function that is called with every stack of the report and may change it. Stacks that
    /// become equal are merged.
    pub fn frames_post_processor<T>(&mut self, processor: T) -> &mut Self
    where
        T: Fn(&mut Frames) + 'static,
    {
        self.post_processor = Some(Box::new(processor));
        self
    }

    /// Makes the report, with names.
    pub fn build(&self) -> Result<Report> {
        let bytes = self.guard.window.peek(Format::PprofPlain)?;
        let profile = Profile::decode(&bytes)?;
        let mut data = HashMap::new();
        for (mut frames, count) in Stacks::of(&profile) {
            if let Some(process) = &self.post_processor {
                process(&mut frames);
            }
            *data.entry(frames).or_insert(0) += count;
        }
        let nanos = |n: i64| Duration::from_nanos(n.max(0) as u64);
        let timing = ReportTiming {
            frequency: self.guard.hz as i32,
            start_time: SystemTime::UNIX_EPOCH + nanos(profile.time_nanos),
            duration: nanos(profile.duration_nanos),
        };
        let made_of = self.post_processor.is_none().then(|| (digest(&data), profile));
        Ok(Report { data, timing, made_of })
    }
}

/// When and how a report was sampled.
#[derive(Clone, Debug)]
pub struct ReportTiming {
    /// Samples per CPU-second.
    pub frequency: i32,
    /// When the guard was created.
    pub start_time: SystemTime,
    /// How long sampling lasted.
    pub duration: Duration,
}

impl Default for ReportTiming {
    fn default() -> Self {
        ReportTiming {
            frequency: 1,
            start_time: SystemTime::UNIX_EPOCH,
            duration: Duration::default(),
        }
    }
}

/// Stacks and how often each was sampled.
#[non_exhaustive]
pub struct Report {
    /// How often each stack was sampled.
    pub data: HashMap<Frames, isize>,
    /// When and how it was sampled.
    pub timing: ReportTiming,
    /// A digest of the original data, and the profile that it was read from.
    made_of: Option<(u64, Profile)>,
}

fn digest(data: &HashMap<Frames, isize>) -> u64 {
    data.iter().fold(data.len() as u64, |sum, entry| {
        let mut hasher = DefaultHasher::new();
        entry.hash(&mut hasher);
        sum.wrapping_add(hasher.finish())
    })
}

impl Report {
    /// Returns a pprof profile. While `data` is unchanged it is complete, with addresses, mappings,
    /// build ids and labels; otherwise it contains what `data` contains.
    pub fn pprof(&self) -> Result<Profile> {
        match &self.made_of {
            Some((of, profile)) if *of == digest(&self.data) => Ok(profile.clone()),
            _ => Ok(self.rebuild(false)),
        }
    }

    /// Writes a flame graph (SVG), with threads as roots.
    pub fn flamegraph<W: Write>(&self, writer: W) -> Result<()> {
        self.flamegraph_with_options(writer, &mut flamegraph::Options::default())
    }

    /// The same with options.
    pub fn flamegraph_with_options<W: Write>(
        &self,
        mut writer: W,
        options: &mut flamegraph::Options<'_>,
    ) -> Result<()> {
        if self.data.is_empty() {
            return Ok(());
        }
        let mut output = Output::from(Format::Svg).addresses().title(&options.title);
        if let Some(width) = options.image_width {
            output = output.width(u32::try_from(width).unwrap_or(u32::MAX));
        }
        let svg = crate::convert(&self.rebuild(true).encode_to_vec(), output)?;
        Ok(writer.write_all(&svg)?)
    }

    fn rebuild(&self, thread_as_root: bool) -> Profile {
        let mut builder = Builder::new(&self.timing);
        for (frames, count) in &self.data {
            builder.add(frames, *count, thread_as_root);
        }
        builder.profile
    }
}

/// One line per stack: `FRAME: leaf -> FRAME: caller -> ... THREAD: name count`.
impl Debug for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.data.iter().try_for_each(|(frames, count)| writeln!(f, "{frames:?} {count}"))
    }
}

/// A function in a stack.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Symbol {
    /// The demangled name; `None`: unknown.
    pub name: Option<Vec<u8>>,
    /// The symbol name.
    pub system_name: Option<Vec<u8>>,
    /// The sampled address.
    pub addr: Option<*mut c_void>,
    /// The executed line, if debug information has it.
    pub lineno: Option<u32>,
    /// The file of that line.
    pub filename: Option<PathBuf>,
}

// SAFETY: the address is never dereferenced.
unsafe impl Send for Symbol {}
// SAFETY: as above.
unsafe impl Sync for Symbol {}

impl Symbol {
    /// A function of which only the name is known.
    pub fn named(name: &str) -> Symbol {
        Symbol {
            name: Some(name.into()),
            system_name: None,
            addr: None,
            lineno: None,
            filename: None,
        }
    }

    /// Returns the bytes of the name.
    pub fn raw_name(&self) -> &[u8] {
        self.name.as_deref().unwrap_or(b"Unknown")
    }

    /// Returns the demangled name.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(self.raw_name()).into_owned()
    }

    /// Returns the symbol name.
    pub fn sys_name(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.system_name.as_deref().unwrap_or(self.raw_name()))
    }

    /// Returns the source file.
    pub fn filename(&self) -> Cow<'_, str> {
        self.filename.as_ref().map_or(Cow::Borrowed("Unknown"), |name| name.to_string_lossy())
    }

    /// Returns the executed line; 0: unknown.
    pub fn lineno(&self) -> u32 {
        self.lineno.unwrap_or(0)
    }
}

impl Display for Symbol {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.raw_name()))
    }
}

impl PartialEq for Symbol {
    fn eq(&self, other: &Self) -> bool {
        self.raw_name() == other.raw_name()
    }
}

impl Eq for Symbol {}

/// Stacks may have over a hundred symbols with names of a hundred bytes. SipHash over all of that
/// would dominate the cost of a report.
fn summary(text: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let words = text.chunks_exact(8);
    let rest = words.remainder().iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
    let hash = words.fold(text.len() as u64, |hash, word| {
        mix(hash, u64::from_ne_bytes(word.try_into().unwrap_or_default()))
    });
    mix(hash, rest)
}

impl Hash for Symbol {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(summary(self.raw_name()))
    }
}

/// The functions at one address, innermost inlined one first. Stacks share it until one of them
/// changes it.
#[derive(Clone, Debug)]
pub struct Frame(Arc<SharedFrame>);

#[derive(Clone, Debug)]
struct SharedFrame {
    symbols: Vec<Symbol>,
    /// Hash of the names; 0: unknown.
    summary: u64,
}

fn summary_of_all(symbols: &[Symbol]) -> u64 {
    symbols.iter().fold(symbols.len() as u64, |sum, symbol| {
        sum.rotate_left(7) ^ summary(symbol.raw_name())
    })
}

impl From<Vec<Symbol>> for Frame {
    fn from(symbols: Vec<Symbol>) -> Frame {
        let summary = summary_of_all(&symbols);
        Frame(Arc::new(SharedFrame { symbols, summary }))
    }
}

impl Deref for Frame {
    type Target = Vec<Symbol>;

    fn deref(&self) -> &Vec<Symbol> {
        &self.0.symbols
    }
}

impl DerefMut for Frame {
    fn deref_mut(&mut self) -> &mut Vec<Symbol> {
        let own = Arc::make_mut(&mut self.0);
        own.summary = 0;
        &mut own.symbols
    }
}

impl<'a> IntoIterator for &'a Frame {
    type Item = &'a Symbol;
    type IntoIter = std::slice::Iter<'a, Symbol>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Frame {
    type Item = &'a mut Symbol;
    type IntoIter = std::slice::IterMut<'a, Symbol>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl PartialEq for Frame {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.symbols == other.0.symbols
    }
}

impl Eq for Frame {}

impl Hash for Frame {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(match self.0.summary {
            0 => summary_of_all(&self.0.symbols),
            known => known,
        })
    }
}

/// A stack: the functions at each address, leaf first.
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Frames {
    /// Addresses, leaf first, each with its innermost inlined function first.
    pub frames: Vec<Frame>,
    /// The thread's name.
    pub thread_name: String,
    /// The kernel's thread id.
    pub thread_id: u64,
    /// When the guard was created; equal stacks are merged, so there is no time per sample.
    pub sample_timestamp: SystemTime,
    /// The thread's labels: see [`crate::label!`].
    pub labels: Vec<(String, String)>,
}

impl Frames {
    /// Returns the thread's name, or its id if it has none.
    pub fn thread_name_or_id(&self) -> String {
        match self.thread_name.as_str() {
            "" => self.thread_id.to_string(),
            name => name.to_owned(),
        }
    }
}

impl Debug for Frames {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for frame in &self.frames {
            write!(f, "FRAME: ")?;
            for symbol in frame {
                write!(f, "{symbol} -> ")?;
            }
        }
        write!(f, "THREAD: {}", self.thread_name_or_id())
    }
}

/// Iterates over the samples of a profile as symbolized stacks.
struct Stacks<'a> {
    profile: &'a Profile,
    symbols: HashMap<u64, Frame>,
    next: usize,
}

impl<'a> Stacks<'a> {
    fn of(profile: &'a Profile) -> Stacks<'a> {
        let functions: HashMap<u64, &protos::Function> =
            profile.function.iter().map(|function| (function.id, function)).collect();
        let text = |index: i64| match profile.text(index) {
            "" => None,
            text => Some(text),
        };
        let symbol = |location: &protos::Location, line: Option<&protos::Line>| {
            let function = line.and_then(|line| functions.get(&line.function_id).copied());
            let name = function.and_then(|function| text(function.name)).map(str::to_owned);
            let name = name.unwrap_or_else(|| format!("{:#x}", location.address));
            Symbol {
                name: Some(name.into()),
                system_name: function.and_then(|f| text(f.system_name)).map(|name| name.into()),
                addr: Some(location.address as usize as *mut c_void),
                lineno: line.and_then(|line| u32::try_from(line.line).ok()).filter(|&n| n > 0),
                filename: function.and_then(|f| text(f.filename)).map(PathBuf::from),
            }
        };
        let symbols = profile.location.iter().map(|location| {
            let mut symbols: Vec<Symbol> =
                location.line.iter().map(|line| symbol(location, Some(line))).collect();
            if symbols.is_empty() {
                symbols.push(symbol(location, None));
            }
            (location.id, Frame::from(symbols))
        });
        Stacks { profile, symbols: symbols.collect(), next: 0 }
    }
}

impl Iterator for Stacks<'_> {
    type Item = (Frames, isize);

    fn next(&mut self) -> Option<Self::Item> {
        let sample = self.profile.sample.get(self.next)?;
        self.next += 1;
        let mut frames = Frames {
            frames: sample
                .location_id
                .iter()
                .filter_map(|id| self.symbols.get(id).cloned())
                .collect(),
            thread_name: String::new(),
            thread_id: 0,
            sample_timestamp: SystemTime::UNIX_EPOCH
                + Duration::from_nanos(self.profile.time_nanos.max(0) as u64),
            labels: Vec::new(),
        };
        for label in &sample.label {
            let text = self.profile.text(label.str).to_owned();
            match self.profile.text(label.key) {
                "thread" => frames.thread_name = text,
                "thread_id" => frames.thread_id = label.num as u64,
                key => frames.labels.push((key.to_owned(), text)),
            }
        }
        Some((frames, sample.value.first().copied().unwrap_or(0) as isize))
    }
}

/// Builds a profile from stacks.
struct Builder {
    profile: Profile,
    texts: HashMap<String, i64>,
    functions: HashMap<(i64, i64, i64), u64>,
    locations: HashMap<(u64, Vec<(u64, i64)>), u64>,
    period: i64,
}

impl Builder {
    fn new(timing: &ReportTiming) -> Builder {
        let mut builder = Builder {
            profile: Profile::default(),
            texts: HashMap::new(),
            functions: HashMap::new(),
            locations: HashMap::new(),
            period: 1_000_000_000 / i64::from(timing.frequency.max(1)),
        };
        builder.text("");
        let mut kind = |ty, unit| protos::ValueType {
            ty: builder.text(ty),
            unit: builder.text(unit),
        };
        let (samples, cpu) = (kind("samples", "count"), kind("cpu", "nanoseconds"));
        let since = timing.start_time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        builder.profile.period_type = Some(cpu.clone());
        builder.profile.sample_type = vec![samples, cpu];
        builder.profile.time_nanos = since.as_nanos() as i64;
        builder.profile.duration_nanos = timing.duration.as_nanos() as i64;
        builder.profile.period = builder.period;
        builder
    }

    fn text(&mut self, text: &str) -> i64 {
        if let Some(&index) = self.texts.get(text) {
            return index;
        }
        let index = self.profile.string_table.len() as i64;
        self.profile.string_table.push(text.to_owned());
        self.texts.insert(text.to_owned(), index);
        index
    }

    fn line(&mut self, symbol: &Symbol) -> (u64, i64) {
        let name = self.text(&symbol.name());
        let system_name = self.text(&symbol.sys_name());
        let file = symbol.filename.as_ref().map(|name| name.to_string_lossy().into_owned());
        let filename = self.text(&file.unwrap_or_default());
        let id = self.functions.len() as u64 + 1;
        let id = *self.functions.entry((name, system_name, filename)).or_insert_with(|| {
            let function = protos::Function { id, name, system_name, filename, start_line: 0 };
            self.profile.function.push(function);
            id
        });
        (id, i64::from(symbol.lineno()))
    }

    fn location(&mut self, symbols: &[Symbol]) -> u64 {
        let address = symbols.first().and_then(|symbol| symbol.addr).map_or(0, |p| p as u64);
        let lines: Vec<(u64, i64)> = symbols.iter().map(|symbol| self.line(symbol)).collect();
        let id = self.locations.len() as u64 + 1;
        *self.locations.entry((address, lines)).or_insert_with_key(|(_, lines)| {
            let line = |&(function_id, line)| protos::Line { function_id, line, column: 0 };
            self.profile.location.push(protos::Location {
                id,
                address,
                line: lines.iter().map(line).collect(),
                ..Default::default()
            });
            id
        })
    }

    fn add(&mut self, frames: &Frames, count: isize, thread_as_root: bool) {
        let mut sample = protos::Sample {
            location_id: frames.frames.iter().map(|frame| self.location(frame)).collect(),
            value: vec![count as i64, count as i64 * self.period],
            label: Vec::new(),
        };
        let thread = frames.thread_name_or_id();
        if thread_as_root {
            sample.location_id.push(self.location(&[Symbol::named(&thread)]));
        }
        let mut label = |key: &str, text: &str, num| protos::Label {
            key: self.text(key),
            str: if num == 0 { self.text(text) } else { 0 },
            num,
            num_unit: 0,
        };
        sample.label.push(label("thread", &thread, 0));
        if frames.thread_id != 0 {
            sample.label.push(label("thread_id", "", frames.thread_id as i64));
        }
        for (key, text) in &frames.labels {
            sample.label.push(label(key, text, 0));
        }
        self.profile.sample.push(sample);
    }
}
