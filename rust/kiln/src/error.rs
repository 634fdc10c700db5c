use std::ffi::CStr;
use std::{fmt, io};

/// An error of this crate.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Another profile is being taken at a different frequency.
    Running(String),
    /// An I/O error, for instance of the writer that the caller passed.
    IoError(io::Error),
    /// A message that says what failed, why, and how to fix it.
    Failed(String),
    /// There is no profile because profiling does not work on this target: see
    /// [`is_supported`](crate::is_supported).
    Unsupported,
}

/// A result whose error is [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

pub(crate) const UNSUPPORTED: &str =
    "there is no profile: kiln profiles on Linux with glibc on x86-64 and aarch64 only; \
     check kiln::is_supported()";

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Running(text) | Error::Failed(text) => f.write_str(text),
            Error::IoError(error) => error.fmt(f),
            Error::Unsupported => f.write_str(UNSUPPORTED),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::IoError(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::IoError(error)
    }
}

/// Calls C and converts a negative result to an error with C's message.
pub(crate) fn check(call: impl FnOnce(*mut crate::sys::Error) -> i32) -> Result<i32> {
    let mut error = crate::sys::Error { message: [0; 512] };
    let result = call(&mut error);
    if result >= 0 {
        return Ok(result);
    }
    // SAFETY: C terminates its messages with a NUL, and the last byte is always 0.
    let text = unsafe { CStr::from_ptr(error.message.as_ptr()) };
    let text = text.to_string_lossy().into_owned();
    Err(match result {
        crate::sys::CONFLICT => Error::Running(text),
        _ => Error::Failed(text),
    })
}

/// Makes a C string; a NUL in text truncates it.
pub(crate) fn c_string(text: &str) -> std::ffi::CString {
    let end = text.find('\0').unwrap_or(text.len());
    std::ffi::CString::new(&text[..end]).unwrap_or_default()
}

/// Calls `call` with a C string, which is on the stack if it is short.
pub(crate) fn with_c_string<T>(text: &str, call: impl FnOnce(*const std::ffi::c_char) -> T) -> T {
    let mut short = [0u8; 64];
    if text.len() >= short.len() {
        return call(c_string(text).as_ptr());
    }
    short[..text.len()].copy_from_slice(text.as_bytes());
    call(short.as_ptr().cast())
}
