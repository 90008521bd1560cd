#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| router_tests::targets::stream::run(data));
