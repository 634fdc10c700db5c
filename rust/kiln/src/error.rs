use std::ffi::CStr;
use std::{fmt, io};

/// Why something could not be done.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Another profile is being taken at a different frequency.
    Running(String),
    /// What the caller handed in cannot be written to, or the like.
    IoError(io::Error),
    /// A sentence that says what was asked, what is wrong with it and what helps.
    Failed(String),
}

/// A result whose error is [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Running(text) | Error::Failed(text) => f.write_str(text),
            Error::IoError(error) => error.fmt(f),
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

/// Calls into C: what is negative becomes an error with the sentence that C left.
pub(crate) fn check(call: impl FnOnce(*mut crate::sys::Error) -> i32) -> Result<i32> {
    let mut error = crate::sys::Error { message: [0; 512] };
    let result = call(&mut error);
    if result >= 0 {
        return Ok(result);
    }
    // SAFETY: the library ends its sentences by a NUL; the last byte is never written otherwise.
    let text = unsafe { CStr::from_ptr(error.message.as_ptr()) };
    let text = text.to_string_lossy().into_owned();
    Err(match result {
        crate::sys::CONFLICT => Error::Running(text),
        _ => Error::Failed(text),
    })
}

/// A C string; what stands behind a NUL is left out.
pub(crate) fn c_string(text: &str) -> std::ffi::CString {
    let end = text.find('\0').unwrap_or(text.len());
    std::ffi::CString::new(&text[..end]).unwrap_or_default()
}

/// Calls something with a C string, which is on the stack if it is short.
pub(crate) fn with_c_string<T>(text: &str, call: impl FnOnce(*const std::ffi::c_char) -> T) -> T {
    let mut short = [0u8; 64];
    if text.len() >= short.len() {
        return call(c_string(text).as_ptr());
    }
    short[..text.len()].copy_from_slice(text.as_bytes());
    call(short.as_ptr().cast())
}
