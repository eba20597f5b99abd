//! Corrupt files are errors: cut short, with flipped bits, with absurd sizes.
