//! The messages of pprof's `profile.proto`, with field names as prost generates them.
use std::io::{self, Write};

/// An encodable message, with the methods of both prost and rust-protobuf.
pub trait Message: Sized + Default {
    /// Appends the encoded message.
    fn encode(&self, buffer: &mut Vec<u8>) -> io::Result<()>;
    /// Decodes a message.
    fn decode(bytes: &[u8]) -> io::Result<Self>;

    /// Returns the encoded message.
    fn encode_to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // Writing to a vector cannot fail.
        let _ = self.encode(&mut bytes);
        bytes
    }
    /// rust-protobuf's name of [`Message::encode`].
    fn write_to_vec(&self, buffer: &mut Vec<u8>) -> io::Result<()> {
        self.encode(buffer)
    }
    /// rust-protobuf's name of [`Message::encode_to_vec`].
    fn write_to_bytes(&self) -> io::Result<Vec<u8>> {
        Ok(self.encode_to_vec())
    }
    /// Writes the encoded message.
    fn write_to_writer(&self, writer: &mut dyn Write) -> io::Result<()> {
        writer.write_all(&self.encode_to_vec())
    }
    /// rust-protobuf's name of [`Message::decode`].
    fn parse_from_bytes(bytes: &[u8]) -> io::Result<Self> {
        Self::decode(bytes)
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    put_varint(out, u64::from(field) << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not a pprof profile: a field is malformed")
}

fn take_varint(bytes: &mut &[u8]) -> io::Result<u64> {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or_else(malformed)?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << (shift & 63);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(malformed())
}

/// Encodes and decodes one type of field.
trait Field {
    fn put(&self, out: &mut Vec<u8>, number: u32);
    fn absorb(&mut self, value: u64, bytes: Option<&[u8]>) -> io::Result<()>;
}

macro_rules! integer {
    ($($kind:ty)*) => { $(
        impl Field for $kind {
            fn put(&self, out: &mut Vec<u8>, number: u32) {
                if *self != 0 {
                    put_varint(out, u64::from(number) << 3);
                    put_varint(out, *self as u64);
                }
            }
            fn absorb(&mut self, value: u64, bytes: Option<&[u8]>) -> io::Result<()> {
                if bytes.is_some() {
                    return Err(malformed());
                }
                *self = value as $kind;
                Ok(())
            }
        }
        impl Field for Vec<$kind> {
            fn put(&self, out: &mut Vec<u8>, number: u32) {
                if self.is_empty() {
                    return;
                }
                let mut packed = Vec::new();
                for value in self {
                    put_varint(&mut packed, *value as u64);
                }
                put_bytes(out, number, &packed);
            }
            fn absorb(&mut self, value: u64, bytes: Option<&[u8]>) -> io::Result<()> {
                let Some(mut bytes) = bytes else {
                    self.push(value as $kind);
                    return Ok(());
                };
                while !bytes.is_empty() {
                    self.push(take_varint(&mut bytes)? as $kind);
                }
                Ok(())
            }
        }
    )* };
}
integer!(i64 u64);

impl Field for bool {
    fn put(&self, out: &mut Vec<u8>, number: u32) {
        u64::from(*self).put(out, number);
    }
    fn absorb(&mut self, value: u64, _: Option<&[u8]>) -> io::Result<()> {
        *self = value != 0;
        Ok(())
    }
}

impl Field for Vec<String> {
    fn put(&self, out: &mut Vec<u8>, number: u32) {
        for text in self {
            put_bytes(out, number, text.as_bytes());
        }
    }
    fn absorb(&mut self, _: u64, bytes: Option<&[u8]>) -> io::Result<()> {
        let bytes = bytes.ok_or_else(malformed)?;
        self.push(String::from_utf8_lossy(bytes).into_owned());
        Ok(())
    }
}

macro_rules! messages {
    ($( $(#[$about:meta])* $name:ident { $( $(#[$doc:meta])* $field:ident : $kind:ty = $number:literal, )* } )*) => { $(
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name { $( $(#[$doc])* pub $field: $kind, )* }

        impl Message for $name {
            fn encode(&self, buffer: &mut Vec<u8>) -> io::Result<()> {
                $( self.$field.put(buffer, $number); )*
                Ok(())
            }
            fn decode(mut bytes: &[u8]) -> io::Result<Self> {
                let mut message = Self::default();
                while !bytes.is_empty() {
                    let key = take_varint(&mut bytes)?;
                    let (mut value, mut span) = (0, None);
                    let skipped = match key & 7 {
                        0 => { value = take_varint(&mut bytes)?; 0 }
                        1 => 8,
                        2 => {
                            let n = take_varint(&mut bytes)?;
                            let n = usize::try_from(n).map_err(|_| malformed())?;
                            span = Some(bytes.get(..n).ok_or_else(malformed)?);
                            n
                        }
                        5 => 4,
                        _ => return Err(malformed()),
                    };
                    bytes = bytes.get(skipped..).ok_or_else(malformed)?;
                    match key >> 3 {
                        $( $number => message.$field.absorb(value, span)?, )*
                        _ => {}
                    }
                }
                Ok(message)
            }
        }

        impl Field for Vec<$name> {
            fn put(&self, out: &mut Vec<u8>, number: u32) {
                for message in self {
                    put_bytes(out, number, &message.encode_to_vec());
                }
            }
            fn absorb(&mut self, _: u64, bytes: Option<&[u8]>) -> io::Result<()> {
                self.push($name::decode(bytes.ok_or_else(malformed)?)?);
                Ok(())
            }
        }

        impl Field for Option<$name> {
            fn put(&self, out: &mut Vec<u8>, number: u32) {
                if let Some(message) = self {
                    put_bytes(out, number, &message.encode_to_vec());
                }
            }
            fn absorb(&mut self, _: u64, bytes: Option<&[u8]>) -> io::Result<()> {
                *self = Some($name::decode(bytes.ok_or_else(malformed)?)?);
                Ok(())
            }
        }
    )* };
}

messages! {
    /// A profile. Strings are indices into `string_table`, whose first element is empty.
    Profile {
        /// Meaning of a sample's values.
        sample_type: Vec<ValueType> = 1,
        /// Stacks with their values.
        sample: Vec<Sample> = 2,
        /// Mapped object files.
        mapping: Vec<Mapping> = 3,
        /// Addresses and their lines.
        location: Vec<Location> = 4,
        /// Functions.
        function: Vec<Function> = 5,
        /// All strings.
        string_table: Vec<String> = 6,
        /// Regular expression of functions to drop.
        drop_frames: i64 = 7,
        /// Regular expression of functions to keep.
        keep_frames: i64 = 8,
        /// Start time, nanoseconds since 1970.
        time_nanos: i64 = 9,
        /// Duration in nanoseconds.
        duration_nanos: i64 = 10,
        /// Type of `period`.
        period_type: Option<ValueType> = 11,
        /// Interval between two samples.
        period: i64 = 12,
        /// Comments, including what was not sampled.
        comment: Vec<i64> = 13,
        /// The sample type to show first.
        default_sample_type: i64 = 14,
    }
    /// A type of value and its unit.
    ValueType {
        /// Name of the type.
        ty: i64 = 1,
        /// Unit of the values.
        unit: i64 = 2,
    }
    /// A stack with its values.
    Sample {
        /// The stack, leaf first.
        location_id: Vec<u64> = 1,
        /// One value per sample type.
        value: Vec<i64> = 2,
        /// Labels of the sample.
        label: Vec<Label> = 3,
    }
    /// A label of a sample: a string or a number.
    Label {
        /// Key.
        key: i64 = 1,
        /// String value.
        str: i64 = 2,
        /// Number value.
        num: i64 = 3,
        /// Unit of the number.
        num_unit: i64 = 4,
    }
    /// A mapped object file.
    Mapping {
        /// Unique id, not 0.
        id: u64 = 1,
        /// First address.
        memory_start: u64 = 2,
        /// Address behind the last.
        memory_limit: u64 = 3,
        /// File offset of the first address.
        file_offset: u64 = 4,
        /// Path of the file.
        filename: i64 = 5,
        /// Build id.
        build_id: i64 = 6,
        /// Function names were looked up.
        has_functions: bool = 7,
        /// File names were looked up.
        has_filenames: bool = 8,
        /// Line numbers were looked up.
        has_line_numbers: bool = 9,
        /// Inlined functions were looked up.
        has_inline_frames: bool = 10,
    }
    /// An address.
    Location {
        /// Unique id, not 0.
        id: u64 = 1,
        /// Id of its mapping; 0: none.
        mapping_id: u64 = 2,
        /// The address.
        address: u64 = 3,
        /// The functions at the address, innermost inlined one first.
        line: Vec<Line> = 4,
        /// Identical code of several functions was folded.
        is_folded: bool = 5,
    }
    /// A line of a function.
    Line {
        /// Id of the function.
        function_id: u64 = 1,
        /// Line number in the function's file.
        line: i64 = 2,
        /// Column number.
        column: i64 = 3,
    }
    /// A function.
    Function {
        /// Unique id, not 0.
        id: u64 = 1,
        /// Display name.
        name: i64 = 2,
        /// Symbol name.
        system_name: i64 = 3,
        /// Its source file.
        filename: i64 = 4,
        /// First line of the function.
        start_line: i64 = 5,
    }
}

impl Profile {
    /// Returns a string of the string table; empty if the index is invalid.
    pub fn text(&self, index: i64) -> &str {
        usize::try_from(index)
            .ok()
            .and_then(|index| self.string_table.get(index))
            .map_or("", String::as_str)
    }
}
