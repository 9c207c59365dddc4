#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| nearhead_fuzz::checks::saved_block(input));
