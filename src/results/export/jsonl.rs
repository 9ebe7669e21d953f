//! A JSON object per line; absent text is left out.

use std::io::{self, Write};

use base::digits;

use super::{Column, ExportCell, RowWriter};

const BUFFER_BYTES: usize = 64 * 1024;

pub(super) struct JsonlWriter<'a> {
    output: &'a mut (dyn Write + Send),
    buffer: Vec<u8>,
    columns: &'static [Column],
}

impl<'a> JsonlWriter<'a> {
    pub(super) fn new(columns: &'static [Column], output: &'a mut (dyn Write + Send)) -> Self {
        Self { output, buffer: Vec::new(), columns }
    }
}

impl RowWriter for JsonlWriter<'_> {
    fn row(&mut self, cells: &[ExportCell<'_>]) -> io::Result<()> {
        let buffer = &mut self.buffer;
        let mut separator = b'{';
        for ((name, _), cell) in self.columns.iter().zip(cells) {
            if matches!(cell, ExportCell::Text(None) | ExportCell::NoInteger) {
                continue;
            }
            buffer.extend_from_slice(&[separator, b'"']);
            buffer.extend_from_slice(name.as_bytes());
            buffer.extend_from_slice(b"\":");
            separator = b',';
            match cell {
                ExportCell::Id(id) => {
                    buffer.push(b'"');
                    buffer.extend_from_slice(id.hyphenated().encode_lower(&mut [0; 36]).as_bytes());
                    buffer.push(b'"');
                }
                ExportCell::Text(text) => serde_json::to_writer(&mut *buffer, text)?,
                ExportCell::Integer(value) => put_integer(*value, buffer),
                ExportCell::NoInteger => {}
                ExportCell::Flag(flag) => buffer.extend_from_slice(if *flag { b"true" } else { b"false" }),
            }
        }
        buffer.extend_from_slice(b"}\n");
        if buffer.len() >= BUFFER_BYTES {
            self.output.write_all(buffer)?;
            buffer.clear();
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.output.write_all(&self.buffer)
    }
}

/// Appends the digits of a number.
pub(super) fn put_integer(value: u64, buffer: &mut Vec<u8>) {
    buffer.extend_from_slice(digits::decimal(value, &mut { digits::DIGITS }));
}
