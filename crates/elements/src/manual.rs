/// The manual page of the file in which it is written; with a name it is what other crates have.
macro_rules! manual {
    () => {
        include_str!(concat!(env!("SOURCES_BEGIN"), file!()))
    };
    ($file:literal) => {
        engine::manual!($file)
    };
}

pub(crate) use manual;
