//! Stands in for the file of this name among rskafka's tests, which starts a JVM inside of the test and has it download a Java
//! client. The pairs of rskafka and librdkafka, which that file's switch skips as well, run here; those with Java do not.

use rskafka::client::partition::Compression;
use rskafka::record::{Record, RecordAndOffset};

/// Skips nothing: `rskafka_run.py` leaves out the tests that have `java` in their name.
#[macro_export]
macro_rules! maybe_skip_java_interopt {
    () => {};
}

pub async fn produce(_: &[String], _: Vec<(String, i32, Record)>, _: Compression) -> Vec<i64> {
    panic!("no test with Java is run")
}

pub async fn consume(_: &[String], _: &str, _: i32, _: usize) -> Vec<RecordAndOffset> {
    panic!("no test with Java is run")
}
