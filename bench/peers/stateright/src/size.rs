// The constants of MODEL.md; bench/peers.py writes this file anew for each size.
pub const I: usize = 1;
pub const K: usize = 1;
pub const E: u8 = 2;
pub const S: u8 = 2;
pub const V: u8 = 1;
