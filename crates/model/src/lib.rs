//! Pure functions: probe lengths, read sizes, NIC cost. No I/O, no clock.
