//! Numbers as decimal digits, without the machinery for formats: a list has one for every iteration.

/// Room for the digits of any number.
pub const DIGITS: [u8; 20] = [0; 20];

/// The digits of a number, at the end of `room`.
#[must_use]
pub fn decimal(mut value: u64, room: &mut [u8; 20]) -> &[u8] {
    let mut at = room.len();
    loop {
        at -= 1;
        room[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &room[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_number() {
        for value in [0, 9, 10, 1_234_567_890, u64::MAX] {
            assert_eq!(decimal(value, &mut { DIGITS }), value.to_string().as_bytes());
        }
    }
}
