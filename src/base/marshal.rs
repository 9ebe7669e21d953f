//! Python's `marshal`, version 2, which every Python 3 reads: what a profile for `pstats` needs of it.
//!
//! A value is a letter for its type followed by its content. Nothing here knows what the values mean.

/// Bytes of one value, written piece by piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marshal(Vec<u8>);

impl Marshal {
    /// The bytes of what was written so far.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Begins a dictionary: keys and values follow in turn, then [`Marshal::end_dict`].
    pub fn begin_dict(&mut self) {
        self.0.push(b'{');
    }

    /// Ends a dictionary.
    pub fn end_dict(&mut self) {
        self.0.push(b'0');
    }

    /// Begins a tuple of `len` values, which follow.
    pub fn tuple(&mut self, len: u32) {
        self.0.push(b'(');
        self.0.extend(len.to_le_bytes());
    }

    /// A string. More than 4 GiB is written as an empty one.
    pub fn text(&mut self, text: &str) {
        let (len, text) = u32::try_from(text.len()).map_or((0, ""), |len| (len, text));
        self.0.push(b'u');
        self.0.extend(len.to_le_bytes());
        self.0.extend(text.as_bytes());
    }

    /// An integer: a small one in four bytes, a large one in digits of 15 bits.
    pub fn integer(&mut self, number: u64) {
        if let Ok(small) = i32::try_from(number) {
            self.0.push(b'i');
            self.0.extend(small.to_le_bytes());
            return;
        }
        let digits: Vec<u16> = (0..5).map(|place| (number >> (15 * place) & 0x7fff) as u16).collect();
        let len = digits.iter().rposition(|digit| *digit != 0).map_or(0, |last| last + 1);
        self.0.push(b'l');
        self.0.extend((len as u32).to_le_bytes());
        digits[..len].iter().for_each(|digit| self.0.extend(digit.to_le_bytes()));
    }

    pub fn float(&mut self, number: f64) {
        self.0.push(b'g');
        self.0.extend(number.to_le_bytes());
    }
}
